"""A training as one typed, frozen value, and what is built from it.

values.py     Recipe and its parts
toml.py       to and from TOML, --set, and the errors of both
building.py   a recipe to a task, feeds, a model
running.py    start, resume, evaluate: a recipe to a run folder
"""

from penstock.recipe.building import Parts, open_parts
from penstock.recipe.running import evaluate_run, load_model, open_run, resume, train
from penstock.recipe.toml import apply, dump, load
from penstock.recipe.values import Data, Model, Recipe, Train

__all__ = [
    "Data",
    "Model",
    "Parts",
    "Recipe",
    "Train",
    "apply",
    "dump",
    "evaluate_run",
    "load",
    "load_model",
    "open_parts",
    "open_run",
    "resume",
    "train",
]

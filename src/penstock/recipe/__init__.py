"""A training as one typed, frozen value, and what is built from it.

values.py     Recipe and its parts
toml.py       to and from TOML, --set, and the errors of both
explaining.py the settings with what they mean
tasks.py      what is learnt, and the recipe to begin with
fitting.py    whether a network takes pictures of the recipe's size
building.py   a recipe to a task, feeds, a model
facts.py      data.json: what a run's data was, exactly
effects.py    which settings have an effect only beside others
exactness.py  what weights depend on besides, and whether they come out the same again
following.py  the next snapshot of a topic that grows
sessions.py   what a session is made with
running.py    start and resume: a recipe to a run folder
answering.py  what a run can be asked: its parts, its model, its scores
"""

from penstock.recipe.answering import (
    Evaluation,
    Trained,
    answers_name,
    evaluate_run,
    load_checkpoint,
    load_model,
    open_run,
)
from penstock.recipe.building import Parts, chosen_shuffle, notes, open_dataset, open_parts
from penstock.recipe.explaining import explained
from penstock.recipe.running import check_follow, resume, train
from penstock.recipe.tasks import default_recipe
from penstock.recipe.toml import apply, dump, load
from penstock.recipe.values import Data, Follow, Model, Recipe, Train

__all__ = [
    "Data",
    "Evaluation",
    "Follow",
    "Model",
    "Parts",
    "Recipe",
    "Train",
    "Trained",
    "answers_name",
    "apply",
    "check_follow",
    "chosen_shuffle",
    "default_recipe",
    "dump",
    "evaluate_run",
    "explained",
    "load",
    "load_checkpoint",
    "load_model",
    "notes",
    "open_dataset",
    "open_parts",
    "open_run",
    "resume",
    "train",
]

"""A training as one typed, frozen value.

values.py     Recipe and its sections
toml.py       to and from TOML, --set, and the errors of both
presets.py    defaults that depend on what is chosen
checks.py     rules between fields, and what a resume may change
effects.py    which settings have an effect only beside others, or for some tasks
reference.py  the settings with what they mean
"""

from penstock.config.presets import Resolved, default_recipe, resolve
from penstock.config.reference import explained
from penstock.config.toml import apply, dump, load, parsed, settings_in
from penstock.config.values import Data, Follow, Recipe, Train
from penstock.tasks.settings import Model

__all__ = [
    "Data",
    "Follow",
    "Model",
    "Recipe",
    "Resolved",
    "Train",
    "apply",
    "default_recipe",
    "dump",
    "explained",
    "load",
    "parsed",
    "resolve",
    "settings_in",
]

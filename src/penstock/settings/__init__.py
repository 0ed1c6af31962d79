"""The settings of a training as frozen values with bounds and texts. Without torch: a mistake in one is named at once.

recipe.py      Recipe and its sections
model.py       what learns
augment.py     what training does to an image
views.py       what of an image a sample shows: one random crop of several
regularize.py  what training does to a batch of images
objective.py   what training makes small
optimizer.py   how weights are updated: one optimizer of several
schedules.py   the learning rate: one schedule of several
predicting.py  defaults of predictions
task.py        the sections that a task is made from
"""

from penstock.settings.augment import Augment
from penstock.settings.model import Branch, DeepLabConfig, Model
from penstock.settings.objective import Objective
from penstock.settings.recipe import DataSettings, Follow, Recipe, Train
from penstock.settings.regularize import DRAWS, Regularize
from penstock.settings.task import TaskSettings

__all__ = [
    "DRAWS",
    "Augment",
    "Branch",
    "DataSettings",
    "DeepLabConfig",
    "Follow",
    "Model",
    "Objective",
    "Recipe",
    "Regularize",
    "TaskSettings",
    "Train",
]

"""The recipe of a task where nothing else is given."""

from __future__ import annotations

from penstock.assembly import resolve
from penstock.tasks import find_task


def default_recipe(task="segmentation", model=""):
    """The recipe of a task, and perhaps of a model."""
    return resolve({"model.name": model} if model else {}, find_task("", task)).recipe

"""What is learnt: how a record becomes a sample, the model, the loss, the metric, the drawing, the prediction.

base.py            Task, the contract
scoring.py         what is counted of predictions, and what evaluations give
roles.py           what a task can do beside training: draw, predict, export, try a network
abilities.py       settings and options a task may support, and the sentence that refuses what it does not
masks.py           samples of images and masks, and their metric
boxes.py           samples of images and boxes, and their metric
objective.py       what training makes small
regularize.py      mixed, erased and toned images
predictions.py     what a model says of one image
exported.py        what of a model is exported
resized.py         an exported classifier that resizes images by itself
dense.py           what tasks share that predict a value for every pixel
segmentation.py    semantic segmentation
classification.py  classification
detection.py       detection
instances.py       instance segmentation
matting.py         matting, from soft labels
classes.py         samples of images and their classes, and their metric
normalizing.py     how images are normalised
"""

from typing import Final

from penstock.custom import ImportPath, import_path_of, load
from penstock.errors import RecipeError
from penstock.extending import Extended
from penstock.tasks.abilities import Ability, refusal
from penstock.tasks.base import Task
from penstock.tasks.classes import PrepareClassification
from penstock.tasks.classification import Classification
from penstock.tasks.detection import Detection
from penstock.tasks.exported import Graph
from penstock.tasks.instances import Instances
from penstock.tasks.masks import PrepareSegmentation
from penstock.tasks.matting import Matting
from penstock.tasks.predictions import Prediction, Style
from penstock.tasks.roles import Drawing, Exporter, Predictor, ReadyModel
from penstock.tasks.segmentation import Segmentation

_BUILT_IN: Final = (Segmentation, Matting, Classification, Detection, Instances)
TASKS: Final[Extended[type[Task]]] = Extended({task.kind.name: task for task in _BUILT_IN}, "TASKS")
"""The built-in tasks and those of extensions, by the name of the kind of record that they learn from."""


def find_task(name: str, described: str) -> type[Task]:
    """The task that a recipe names.

    Args:
        name: a place, FILE.py:NAME or package.module:NAME; "" for what the dataset is for.
        described: the dataset's kind of record, as dataset.json names it; "" where there is no dataset.

    Raises:
        RecipeError: there is none, what is at the place is no task, or it learns from another kind of record.
    """
    place = import_path_of(name)
    task = _custom(place) if place else _built_in(name, described)
    if described and task.kind.name in TASKS and task.kind.name != described:
        raise RecipeError(
            f"task = {name}",
            expected=f"a task that learns from the dataset's records, {described}",
            found=f"one that learns from {task.kind.name}",
            remedy="Name another task, or leave it out" if described in TASKS else "Name the task: --task FILE.py:NAME",
        )
    return task


def _built_in(name: str, described: str) -> type[Task]:
    if not name and described and described not in TASKS:
        raise RecipeError(
            "task",
            expected=f"FILE.py:NAME of a task for records of {described}",
            found="nothing",
            remedy="Name the task: --task FILE.py:NAME",
        )
    if (name or described) not in TASKS:
        raise RecipeError(
            "task",
            expected=f"one of {', '.join(TASKS)}, or FILE.py:NAME",
            found=getattr(name, "__name__", name) or "nothing",
            remedy="Name a task",
        )
    return TASKS[name or described]


def _custom(place: ImportPath) -> type[Task]:
    found = load(place, "task")
    if not (isinstance(found, type) and issubclass(found, Task) and hasattr(found, "kind")):
        raise RecipeError(
            f"task = {place}",
            expected="a subclass of penstock.Task with the attribute `kind`, the kind of its records",
            found=repr(found),
            remedy="Derive the class from penstock.Task, and write kind = YourKind()",
        )
    return found


__all__ = [
    "TASKS",
    "Ability",
    "Classification",
    "Detection",
    "Drawing",
    "Exporter",
    "Graph",
    "Instances",
    "Matting",
    "Prediction",
    "Predictor",
    "PrepareClassification",
    "PrepareSegmentation",
    "ReadyModel",
    "Segmentation",
    "Style",
    "Task",
    "find_task",
    "refusal",
]

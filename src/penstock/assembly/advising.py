"""What would be trained by default on some data, and why."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from penstock import devices
from penstock.assembly.experiment import open_dataset
from penstock.assembly.presets import Resolved
from penstock.assembly.sizing import ORIGIN
from penstock.datasets.description import SplitInfo
from penstock.models import pretrained
from penstock.models.segmentation import STRIDE
from penstock.progress import counted
from penstock.settings import Recipe
from penstock.tasks import Task, find_task


class Advice(NamedTuple):
    """A choice, its value and where that comes from, and what was measured for it."""

    about: str
    value: str
    reason: str
    measured: float = 0.0


def advise(resolved: Resolved) -> tuple[Advice, ...]:
    """The choices of a training, and where they come from.

    Raises:
        DatasetError: there is no such dataset.
        SourceError: the topic cannot be reached.
    """
    dataset = open_dataset(resolved.recipe.data)
    split = dataset.split(resolved.recipe.data.train)
    described = dataset.description
    largest = f"images of up to {split.height} x {split.width} pixels (height x width)"
    data = f"{described.kind.name}, {counted(len(described.classes), 'class')}"
    return (
        Advice("data", data, f"{counted(split.records, 'training record')}, {largest}"),
        *_choices(resolved, split, find_task(resolved.recipe.task, described.task)),
        _evaluation(resolved.recipe, dataset.splits),
    )


def _small(task: type[Task]) -> str:
    small = f": try a small network first, such as --model {task.small_model}" if task.small_model else ""
    return f"no GPU was found{small}; --find-time says how long the training takes"


def _choices(resolved: Resolved, split: SplitInfo, task: type[Task]) -> Iterator[Advice]:
    recipe = resolved.recipe
    weights = f"weights of the backbone: {recipe.model.weights}{_where(recipe)}"
    yield Advice("model", recipe.model.name, f"{resolved.origin('model.name')}; {weights}")
    height, width = recipe.augment.crop
    origin = resolved.origin("augment.crop")
    rounded = origin == ORIGIN and (height, width) != (split.height, split.width)
    yield Advice("crop", f"{height} x {width} pixels", f"{origin}, in multiples of {STRIDE}" if rounded else origin)
    if recipe.model.normalization == "data":
        why = f"{resolved.origin('model.normalization')}; else by the mean of the pretraining"
        yield Advice("normalised", "by the mean of the data", why)
    yield Advice("batch", counted(recipe.train.batch, "image"), resolved.origin("train.batch"))
    yield Advice("optimizer", f"{recipe.optimizer.name}, lr {recipe.optimizer.lr:g}", resolved.origin("optimizer.lr"))
    steps, epoch = recipe.train.steps, max(1.0, split.records / recipe.train.batch)
    passes = f"{steps / epoch:,.0f} epochs; --epochs N takes {epoch:,.1f} steps for each"
    if devices.choose(recipe.train.device).type == "cpu":
        yield Advice("device", "cpu", _small(task))
    yield Advice("steps", f"{steps:,}", f"{resolved.origin('train.steps')}; {passes}")


def _where(recipe: Recipe) -> str:
    """Whether pretrained weights are here already."""
    backbone = recipe.model.name.rpartition(":")[2]
    if recipe.model.weights != "pretrained" or (cached := pretrained.is_cached(backbone)) is None:
        return ""
    if cached:
        return ", which are in the cache"
    if pretrained.is_offline():
        return (
            ", which are not in the cache and cannot be downloaded: train with --weights none, or with --weights FILE"
        )
    return ", which the training downloads first"


def _evaluation(recipe: Recipe, splits: tuple[str, ...]) -> Advice:
    split = recipe.data.validation
    if split not in splits:
        missing = f"there is no split {split}: pack again with --validation 0.1, or add --set data.validation="
        return Advice("evaluation", "none", missing)
    return Advice("evaluation", f"{split}, every {recipe.train.evaluate_every:,} steps", "the best checkpoint is kept")

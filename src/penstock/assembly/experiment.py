"""A recipe to the things it names: dataset, task, plan, feeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
import torch
from torch import nn

from penstock import seeds
from penstock.assembly.effects import check_chosen
from penstock.assembly.run_data import RunData
from penstock.datasets import Dataset, locate
from penstock.datasets.renumbering import Renumbered
from penstock.errors import RecipeError, RunError
from penstock.feed import Feed
from penstock.models import InitializedFromData
from penstock.models.segmentation import STRIDE, check_crop
from penstock.order import Chain, Plan, Repeats, Shuffle, Stage, repeat_factors, whole_counts
from penstock.progress import counted
from penstock.settings import DataSettings, Recipe
from penstock.settings.views import ScaleCrop
from penstock.tasks import Task, find_task
from penstock.values import BatchSlice, Snapshot

AWAY: Final = 300.0  # seconds without a broker that end a training
_LOOKED_AT: Final = 1000  # images that a model may be initialised from


@dataclass(frozen=True)
class Experiment:
    """What a recipe names, opened.

    Attributes:
        recipe: what to do.
        dataset: what is learnt from.
        pinned: the snapshots that a run was started with, by split.
        stages: of a training that follows a stream.
        scored: another dataset to evaluate on, in place of the one that was learnt from.
    """

    recipe: Recipe
    dataset: Dataset
    pinned: Mapping[str, Snapshot] = field(default_factory=dict)
    stages: tuple[Stage, ...] = ()
    scored: Dataset | None = None

    @cached_property
    def task(self) -> Task:
        """What is learnt, for the dataset's classes."""
        return self._task(self.recipe)

    def _task(self, recipe: Recipe) -> Task:
        described, split = self.dataset.description, self.dataset.split(recipe.data.train)
        return self.task_type.of(recipe.task_settings, described, split, grows=locate(recipe.data.path).grows)

    @cached_property
    def task_type(self) -> type[Task]:
        """What is learnt: the recipe's task, or that of the dataset."""
        return find_task(self.recipe.task, self.dataset.description.task)

    @cached_property
    def _training(self) -> Any:
        return self.dataset.source(self.recipe.data.train)

    @cached_property
    def plan(self) -> Plan | Chain:
        """The order of training."""
        data, seed, batch = self.recipe.data, self.recipe.seed, self.recipe.train.batch
        shuffle = Shuffle(data.block, data.shuffle_window)
        if self.recipe.follow.on:
            return Chain(self.stages, batch, self.recipe.follow.mixed(batch), seed, shuffle)
        return Plan(self.snapshot(data.train), seed, shuffle, self._repeats)

    @property
    def _repeats(self) -> Repeats | None:
        """How often each training record comes in an epoch, where classes are balanced."""
        data = self.recipe.data
        if not data.repeat_threshold:
            return None
        present = self.dataset.occurrences(data.train)
        present = present[: data.limit] if data.limit else present
        return Repeats.of(whole_counts(repeat_factors(present, data.repeat_threshold), self.recipe.seed))

    def hold(self, position: int) -> None:
        """Have the source of a topic that is followed keep to the snapshot that a position lies in.

        Raises:
            SourceError: not all of it can be read any more.
        """
        if isinstance(self.plan, Chain):
            stage = self.stages[self.plan.stage(position)]
            self._training.pin(stage.together, stage.new, AWAY)

    def snapshot(self, split: str) -> Snapshot:
        """All records of a split: those that the run was started with, once they are known to be there still.

        Raises:
            PenstockError: they are not.
        """
        source: Any = self._training if split == self.recipe.data.train else self.dataset.source(split)
        return self._limited(self.dataset.snapshot(split, source, self.pinned.get(split)))

    def _limited(self, snapshot: Snapshot) -> Snapshot:
        """The records that training may use."""
        limit = self.recipe.data.limit
        return snapshot.first(limit) if limit else snapshot

    def training_feed(self, batch_slice: BatchSlice = BatchSlice(), *, pin_memory: bool = False) -> Feed:  # noqa: B008 - frozen
        """Augmented samples in the plan's order."""
        return Feed(
            self.plan,
            self._training,
            self.task.prepare(train=True),
            batch=self.recipe.train.batch,
            batch_slice=batch_slice,
            threads=self.recipe.train.num_threads or None,
            pin_memory=pin_memory,
            stall_timeout=self.recipe.train.stall_timeout,
        )

    def evaluation(
        self,
        split: str,
        batch_slice: BatchSlice = BatchSlice(),  # noqa: B008 - frozen
        *,
        pin_memory: bool = False,
        whole: bool = True,
    ) -> tuple[Task, Feed]:
        """The task for the split's images, and a feed that walks the split, or the part of it that training may use."""
        dataset = self.scored or self.dataset
        found = dataset.split(split)
        task = self.task.for_images(found.height, found.width, found.slices)
        source: Any = dataset.source(split)
        pinned = None if self.scored or (whole and self.recipe.data.limit) else self.pinned.get(split)
        snapshot = dataset.snapshot(split, source, pinned)
        there, learnt = dataset.description, self.dataset.description
        if (there.classes, there.ignore_label) != (learnt.classes, learnt.ignore_label):
            source = Renumbered(source, task.kind, there, learnt)
        feed = Feed(
            Plan(snapshot if whole else self._limited(snapshot)),
            source,
            task.prepare(train=False),
            batch=max(batch_slice.world_size, min(self.recipe.train.batch, 8 * batch_slice.world_size)),
            batch_slice=batch_slice,
            augment=False,
            threads=self.recipe.train.num_threads or None,
            pin_memory=pin_memory,
            stall_timeout=self.recipe.train.stall_timeout,
        )
        return task, feed

    def model(self, *, blank: bool = False) -> nn.Module:
        """A new model; its random weights follow from the seed.

        Args:
            blank: whether all weights are about to be loaded, and need not be downloaded or computed from the data.
        """
        task = self._task(without_weights(self.recipe)) if blank else self.task
        with torch.random.fork_rng([]):
            torch.manual_seed(seeds.below(2**63, seeds.key(self.recipe.seed, "weights")))
            model = task.model()
        check_crop(model, self.recipe.model.name, self.recipe.augment.crop)
        if self.recipe.train.freeze_backbone:
            freeze_backbone(model, self.recipe.model.name)
        if not blank and isinstance(model, InitializedFromData):
            model.initialize_from(task.inputs({"image": self._some_images()}))
        return model

    def _some_images(self) -> torch.Tensor:
        plan = Plan(self._training.snapshot() if isinstance(self.plan, Chain) else self.plan.snapshot)
        feed = Feed(plan, self._training, self.task.prepare(train=False), batch=1, augment=False)
        spread = range(0, len(plan), max(1, len(plan) // _LOOKED_AT))
        return torch.from_numpy(np.stack([feed[position].arrays["image"] for position in spread]))


def freeze_backbone(model: nn.Module, name: str) -> None:
    """Freeze the backbone.

    Raises:
        RecipeError: the model has no backbone.
    """
    encoder = getattr(model, "encoder", None)
    if encoder is None:
        raise RecipeError(
            "train.freeze_backbone",
            expected="a model with a backbone: one for segmentation, mattes or classes",
            found=name,
            remedy="Leave it out; train.freeze_bn keeps the statistics of norms",
        )
    encoder.requires_grad_(requires_grad=False)


def without_weights(recipe: Recipe) -> Recipe:
    """The recipe for a model whose weights are about to be loaded: nothing needs to be downloaded for it."""
    return replace(recipe, model=replace(recipe.model, weights="none"))


def notes(parts: Experiment) -> list[str]:
    """Notes on settings that are valid, but may have unexpected effects."""
    data = parts.recipe.data
    both = set(data.train.split("+")) & set(data.validation.split("+"))
    seen = [
        f"note: {', '.join(sorted(both))} is trained on and evaluated: scores will not tell what is learnt by heart"
    ]
    return [*seen[: len(both)], *_padding(parts), *_balance(parts)]


def _balance(parts: Experiment) -> list[str]:
    plan = parts.plan if parts.recipe.data.repeat_threshold else None
    if not isinstance(plan, Plan) or plan.repeats is None:
        return []
    images = counted(plan.repeats.records, "image")
    return [f"note: classes are balanced: an epoch has {len(plan):,} samples of {images}"]


def _padding(parts: Experiment) -> list[str]:
    augment, split = parts.recipe.augment, parts.dataset.split(parts.recipe.data.train)
    padded = isinstance(augment.view, ScaleCrop) and augment.resize_range is None and not split.slices
    if not padded or augment.crop[0] <= split.height or augment.crop[1] <= split.width:
        return []
    fits = [max(1, side // STRIDE) * STRIDE for side in (split.height, split.width)]
    largest, crop = f"{split.height} x {split.width}", f"{augment.crop[0]} x {augment.crop[1]}"
    remedy = f"what lies outside is padding; --set 'augment.crop=[{fits[0]},{fits[1]}]' fits"
    return [f"note: the crop of {crop} is larger than every image ({largest} at most): {remedy}"]


def open_dataset(data: DataSettings, known: Mapping[str, Any] | None = None) -> Dataset:
    """A folder of shards, or a topic.

    Raises:
        DatasetError: there is none.
        SourceError: the topic cannot be reached.
    """
    return locate(data.path).open(data.start, data.until, known)


def chosen_shuffle(recipe: Recipe) -> Recipe:
    """The recipe with a shuffle: one that is left open is chosen by where the data is."""
    data = recipe.data
    if data.block:
        return recipe
    block, window = locate(data.path).shuffle(data.train, data.start, data.until)
    return replace(recipe, data=replace(data, block=block, shuffle_window=window))


def open_experiment(recipe: Recipe, run_data: RunData | None = None) -> Experiment:
    """Open the dataset of a recipe; settings of a new training must have an effect on what is learnt from it.

    Args:
        recipe: names it.
        run_data: what the data was when a run began with it; topics are read as they say. None for a new training.

    Raises:
        DatasetError: it is not there.
        RecipeError: a setting of a new training has no effect.
        RunError: it is not where it was when a run began with it.
    """
    data = recipe.data
    if run_data and not locate(data.path).exists:
        raise RunError(
            data.path,
            expected="the dataset that the run was started with",
            found="no such folder",
            remedy="Say where it is now: evaluate and replay take --data DIR, train takes --set data.path=DIR",
        )
    if run_data:
        return Experiment(recipe, open_dataset(data, run_data.known), run_data.snapshots, run_data.stages)
    parts = Experiment(recipe, open_dataset(data))
    check_chosen(recipe, parts.task_type)
    return parts


def gather(parts: Experiment, splits: Sequence[str]) -> RunData:
    """What the data of some splits is now."""
    described, dataset = parts.dataset.description, parts.dataset
    known_splits = {**described.splits, **{name: dataset.split(name) for name in splits}}
    bare = replace(described, splits={name: replace(split, shards=()) for name, split in known_splits.items()})
    return RunData(
        described.content, {split: parts.snapshot(split) for split in splits}, dataset.first_record, described=bare
    )


def check_data(parts: Experiment, run_data: RunData, where: str) -> None:
    """Records, classes and the ignored label must be those that the run was started with.

    Raises:
        RunError: they are not.
    """
    found = parts.dataset.description.content
    if run_data.content != found:
        raise RunError(
            where,
            expected=f"the data that the run was started with (fingerprint {run_data.content[:12]})",
            found=f"another dataset in {parts.dataset.folder} (fingerprint {found[:12]})",
            remedy="Restore the dataset, score the run on this one with penstock evaluate RUN --on DATA, or start a "
            "new run from its weights with --init RUN",
        )

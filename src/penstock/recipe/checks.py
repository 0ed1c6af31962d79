"""What a recipe's types cannot say."""

from __future__ import annotations

import math
from dataclasses import fields, is_dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from penstock.errors import RecipeError
from penstock.sources.kafka import is_topic

if TYPE_CHECKING:
    from penstock.recipe.values import Recipe

_FIXED: Final = (
    "seed", "data.train", "data.block", "data.window", "follow.on", "follow.older", "model.name", "model.deeplab",
    "augment", "regularize", "loss", "optimizer.name", "train.batch", "train.average", "train.frozen_norms",
    "train.frozen_backbone", "train.sync_norms",
)  # fmt: skip


_ORIGIN: Final = (
    "init",
    "init_partial",
    "train.window",
    "model.weights",
    "data.start",
    "data.until",
)  # of what a checkpoint holds by now


def check(recipe: Recipe, where: str) -> Recipe:
    """The recipe itself, once its numbers make sense.

    Raises:
        RecipeError: one does not; the error names it.
    """
    for key, value in _positive(recipe).items():
        if not 0 < value < math.inf:
            raise _refused(f"{where}: {key}", "a number above 0", str(value), "Choose a larger one")
    for key, (value, highest) in _bounded(recipe).items():
        if not 0 <= value <= highest:
            raise _refused(f"{where}: {key}", f"a number from 0 to {highest}", str(value), "Choose one of those")
    for key, ((low, high), highest) in _pairs(recipe).items():
        if not 0 < low <= high <= highest:
            expected = f"two numbers above 0 and up to {highest}, the smaller one first"
            raise _refused(f"{where}: {key}", expected, f"{low}, {high}", "Choose such a pair")
    _check_losses(recipe, where)
    milestones = recipe.optimizer.milestones
    if list(milestones) != sorted(set(milestones)) or (recipe.optimizer.schedule == "multistep" and not milestones):
        raise _refused(
            f"{where}: optimizer.milestones", "steps in ascending order", str(list(milestones)), "Write some"
        )
    if recipe.train.frozen_norms and recipe.train.sync_norms:
        raise _refused(
            f"{where}: train.sync_norms",
            "norms that learn statistics",
            "train.frozen_norms=true, which keeps those they have",
            "Leave one of the two out",
        )
    return recipe


def check_new(recipe: Recipe) -> None:
    """What has no effect is refused where a run begins; those that began with it go on.

    Raises:
        RecipeError: a setting has none.
    """
    loss, data = recipe.loss, recipe.data
    if loss.threshold and loss.hardest < 1:
        both = f"{loss.threshold} and loss.hardest={loss.hardest}"
        raise _refused("loss.threshold", "one way to choose pixels", both, "Leave one of the two out")
    if recipe.init_partial and not recipe.init:
        raise _refused("--partial", "--init RUN, whose weights they are", "none", "Leave it out")
    if recipe.init and recipe.model.weights not in ("pretrained", "none"):
        raise _refused("model.weights", "none, as --init gives weights", recipe.model.weights, "Leave one of them out")
    named = [option for option, value in (("--from", data.start), ("--until", data.until)) if value]
    if named and not is_topic(data.path):
        found = f"shards in {data.path}, which are read whole"
        raise _refused(", ".join(named), "a topic, part of which they name", found, "Leave them out")


def check_pieces(recipe: Recipe, ranks: int) -> None:
    """Norms over all ranks need as many passes on each of them, pictures that are mixed need pairs.

    Raises:
        RecipeError: the global batch cannot be cut so.
    """
    train = recipe.train
    fewest, most = train.batch // ranks, -(-train.batch // ranks)
    if train.sync_norms and min(train.accumulate, fewest) != min(train.accumulate, most):
        raise _refused(
            "train.accumulate",
            f"as many micro-batches on each of {ranks} ranks, as train.sync_norms needs",
            f"shares of {fewest} and {most} pictures, of which {train.accumulate} are to be made",
            f"Use train.batch={ranks * most}",
        )
    pairs = 2 * ranks * train.accumulate
    if recipe.regularize.mixes and pairs > 2 and train.batch % pairs:  # noqa: PLR2004 - in one piece, one may be alone
        raise _refused(
            "train.batch",
            f"a multiple of {pairs}, as pictures are mixed in pairs, on {ranks} rank{'s' * (ranks > 1)} with "
            f"train.accumulate={train.accumulate}",
            str(train.batch),
            f"Use train.batch={-(-train.batch // pairs) * pairs}, or other numbers of those",
        )


def check_same(before: Recipe, now: Recipe, where: str, *, begun: bool = False) -> None:
    """A run may become longer, faster or chattier; what it learns and in which order is fixed at its start.

    Raises:
        RecipeError: that would change.
    """
    for key in (*_FIXED, *(_ORIGIN if begun else ())):
        was, is_now = (attrgetter(key)(each) for each in (before, now))
        if was != is_now:
            setting, first, second = _narrowed(key, was, is_now)
            remedy = "Leave it, or start a new run from these weights with --init"
            raise _refused(f"{where}: {setting}", f"{first}, as the run was started with", str(second), remedy)


def _narrowed(key: str, was: Any, now: Any) -> tuple[str, Any, Any]:
    """The first setting of a section that differs."""
    while is_dataclass(was):
        name = next(each.name for each in fields(was) if getattr(was, each.name) != getattr(now, each.name))
        key, was, now = f"{key}.{name}", getattr(was, name), getattr(now, name)
    return key, was, now


def _refused(where: str, expected: str, found: str, remedy: str) -> RecipeError:
    return RecipeError(where, expected=expected, found=found, remedy=remedy)


def _positive(recipe: Recipe) -> dict[str, float]:
    train, augment = recipe.train, recipe.augment
    return {
        "train.steps": train.steps,
        "train.batch": train.batch,
        "train.accumulate": train.accumulate,
        "train.evaluate_every": train.evaluate_every,
        "train.save_every": train.save_every,
        "train.keep": train.keep,
        "train.log_every": train.log_every,
        "augment.crop": min(augment.crop),
        "augment.shown": augment.shown,
        "model.deeplab.channels": recipe.model.deeplab.channels,
        "model.deeplab.rates": min(recipe.model.deeplab.rates, default=1),
        "model.deeplab.multi_grid": min(recipe.model.deeplab.multi_grid, default=1),
        "model.deeplab.pyramid": min(recipe.model.deeplab.pyramid, default=0),
        "data.window": recipe.data.window,
        "augment.slices": recipe.augment.slices,
        "loss.hardest": recipe.loss.hardest,
        "follow.records": recipe.follow.records,
        "optimizer.learning_rate": recipe.optimizer.learning_rate,
        "optimizer.decay_steps": recipe.optimizer.decay_steps,
    }


def _check_losses(recipe: Recipe, where: str) -> None:
    loss = recipe.loss
    if not loss.cross_entropy + loss.focal + loss.dice + loss.jaccard + loss.tversky + loss.lovasz:
        raise _refused(f"{where}: loss", "at least one loss that weighs something", "none", "Set loss.cross_entropy=1")


def _bounded(recipe: Recipe) -> dict[str, tuple[float, float]]:
    """Numbers from 0 on, with the highest that each may be."""
    train, augment, optimizer, loss = recipe.train, recipe.augment, recipe.optimizer, recipe.loss
    return {
        "data.block": (recipe.data.block, 1 << 30),
        "follow.seconds": (recipe.follow.seconds, 1_000_000),
        "follow.older": (recipe.follow.older, 0.75),
        "follow.patience": (recipe.follow.patience, 1_000_000),
        "loss.cross_entropy": (loss.cross_entropy, 1000),
        "loss.focal": (loss.focal, 1000),
        "loss.dice": (loss.dice, 1000),
        "loss.jaccard": (loss.jaccard, 1000),
        "loss.tversky": (loss.tversky, 1000),
        "loss.lovasz": (loss.lovasz, 1000),
        "loss.smoothing": (loss.smoothing, 0.99),
        "loss.hardest": (loss.hardest, 1),
        "loss.hardest_after": (loss.hardest_after, 1 << 40),
        "loss.threshold": (loss.threshold, 1),
        "loss.gamma": (loss.gamma, 100),
        "loss.false_positive": (loss.false_positive, 100),
        "loss.false_negative": (loss.false_negative, 100),
        "augment.flip": (augment.flip, 1),
        "augment.rotate": (augment.rotate, 180),
        "augment.scale_step": (augment.scale_step, 100),
        "augment.jitter.brightness": (augment.jitter.brightness, 1),
        "augment.jitter.contrast": (augment.jitter.contrast, 1),
        "augment.jitter.saturation": (augment.jitter.saturation, 1),
        "augment.jitter.hue": (augment.jitter.hue, 0.5),
        "augment.shown": (augment.shown, 1),
        "augment.kept": (augment.kept, 1),
        "augment.margin": (augment.margin, 10_000),
        "regularize.mixup": (recipe.regularize.mixup, 100),
        "regularize.cutmix": (recipe.regularize.cutmix, 100),
        "regularize.erase": (recipe.regularize.erase, 1),
        "regularize.brightness": (recipe.regularize.brightness, 255),
        "model.deeplab.auxiliary": (recipe.model.deeplab.auxiliary, 100),
        "optimizer.momentum": (optimizer.momentum, 1),
        "optimizer.rest_momentum": (optimizer.rest_momentum, 1),
        "optimizer.weight_decay": (optimizer.weight_decay, 100),
        "optimizer.power": (optimizer.power, 100),
        "optimizer.warmup": (optimizer.warmup, train.steps - 1),
        "optimizer.warmup_share": (optimizer.warmup_share, 1),
        "optimizer.floor": (optimizer.floor, 1),
        "optimizer.decay": (optimizer.decay, 1),
        "optimizer.clip": (optimizer.clip, 1e9),
        "optimizer.bias_rate": (optimizer.bias_rate, 10_000),
        "optimizer.norm_bias_rate": (optimizer.norm_bias_rate, 10_000),
        "optimizer.head_rate": (optimizer.head_rate, 10_000),
        "train.average": (train.average, 0.999999),
        "train.window": (train.window, 1 << 20),
        "train.save_minutes": (train.save_minutes, 1_000_000),
        "train.feed_threads": (train.feed_threads, 1024),
        "train.profile_every": (train.profile_every, 1 << 30),
    }


def _pairs(recipe: Recipe) -> dict[str, tuple[tuple[float, float], float]]:
    """Lower and upper bounds, with the highest that both may be."""
    augment = recipe.augment
    pairs: dict[str, tuple[tuple[float, float], float]] = {
        "augment.scale": (augment.scale, 100),
        "augment.area": (augment.area, 1),
        "augment.aspect": (augment.aspect, 100),
        "regularize.contrast": (recipe.regularize.contrast, 100),
    }
    if augment.resize_range:
        pairs["augment.resize_range"] = (augment.resize_range, 100_000)
    return pairs

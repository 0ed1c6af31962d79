"""Rules between the settings of a recipe, which types cannot express."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from operator import attrgetter
from typing import Any, Final

from penstock.datasets import locate
from penstock.errors import RecipeError, at
from penstock.progress import counted
from penstock.settings import Recipe
from penstock.settings.optimizer import Muon
from penstock.settings.schedules import MultiStep

_FIXED: Final = (
    "seed", "task", "task_options", "data.train", "data.block", "data.shuffle_window",
    "follow.on", "follow.replay_ratio", "model.name", "model.deeplab", "model.decoder",
    "augment", "regularize", "loss", "optimizer.name", "train.batch", "train.ema_decay", "train.freeze_bn",
    "train.freeze_backbone", "train.sync_bn",
)  # fmt: skip
_DECIDES: Final = "train.best_metric"


_ORIGIN: Final = (
    "init",
    "strict",
    "train.sliding_window",
    "model.weights",
    "data.start",
    "data.until",
)  # of what a checkpoint holds by now


def check(recipe: Recipe, where: str) -> Recipe:
    """The recipe itself, once its values fit one another.

    Raises:
        RecipeError: one does not; the error names it.
    """
    if recipe.optimizer.warmup_steps >= recipe.train.steps:
        expected, found = f"a number from 0 to {recipe.train.steps - 1}", str(recipe.optimizer.warmup_steps)
        raise _refused(at(where, "optimizer.warmup_steps"), expected, found, "Choose a number in this range")
    _check_losses(recipe, where)
    schedule = recipe.optimizer.schedule
    steps = schedule.milestones if isinstance(schedule, MultiStep) else (0,)
    if not steps or list(steps) != sorted(set(steps)):
        raise _refused(
            at(where, "optimizer.schedule.milestones"),
            "steps in ascending order",
            str(list(steps)),
            "List the steps in ascending order",
        )
    return recipe


def check_new(recipe: Recipe) -> None:
    """Refuse settings without an effect in a new run. Runs that began with such settings can still be resumed.

    Raises:
        RecipeError: a setting has no effect.
    """
    check_follow(recipe)
    loss, data = recipe.loss, recipe.data
    if loss.ohem_threshold and loss.ohem_ratio < 1:
        both = f"{loss.ohem_threshold} and loss.ohem_ratio={loss.ohem_ratio}"
        raise _refused("loss.ohem_threshold", "either a threshold or a ratio", both, "Remove one of the two settings")
    if not recipe.strict and not recipe.init:
        raise _refused("--no-strict", "--init RUN, to whose weights it applies", "no --init", "Remove --no-strict")
    if recipe.init and recipe.model.weights not in ("pretrained", "none"):
        raise _refused("model.weights", "none, as --init gives weights", recipe.model.weights, "Remove one of the two")
    named = [option for option, value in (("--from", data.start), ("--until", data.until)) if value]
    if named and not locate(data.path).grows:
        options, found = " and ".join(named), f"a folder of shards, {data.path}"
        raise _refused(options, "a Kafka topic, to select a range of its records", found, f"Remove {options}")


def check_pieces(recipe: Recipe, ranks: int) -> None:
    """Check that the batch can be cut over ranks and micro-batches, and into pairs of images that are mixed.

    Raises:
        RecipeError: the global batch cannot be cut so.
    """
    train = recipe.train
    fewest, most = train.batch // ranks, -(-train.batch // ranks)
    if (train.sync_bn or train.fsdp) and min(train.accumulate, fewest) != min(train.accumulate, most):
        raise _refused(
            "train.accumulate",
            f"as many micro-batches on each of {ranks} ranks, as train.{'sync_bn' if train.sync_bn else 'fsdp'} needs",
            f"ranks with {fewest} and {most} images, each to be cut into {train.accumulate} micro-batches",
            f"Use train.batch={ranks * most}",
        )
    if train.halve_on_oom and (ranks > 1 or recipe.regularize.mixes):
        found = counted(ranks, "rank") if ranks > 1 else "mixed images"
        raise _refused(
            "train.halve_on_oom", "one process, and images that are not mixed in pairs", found,
            "Set train.accumulate yourself",
        )  # fmt: skip
    if train.fsdp and ranks > 1 and isinstance(recipe.optimizer, Muon):
        raise _refused(
            "train.fsdp", "an optimizer that updates each weight by itself", "muon, which needs whole matrices",
            "Remove it, or use another optimizer",
        )  # fmt: skip
    if train.retries and ranks > 1:
        raise _refused(
            "train.retries", "one process", f"{ranks} ranks", "Remove it, and give torchrun --max-restarts"
        )  # fmt: skip
    pairs = 2 * ranks * train.accumulate
    if recipe.regularize.mixes and pairs > 2 and train.batch % pairs:  # noqa: PLR2004 - in one piece, one may be alone
        raise _refused(
            "train.batch",
            f"a multiple of {pairs}, as images are mixed in pairs, on {counted(ranks, 'rank')} with "
            f"train.accumulate={train.accumulate}",
            str(train.batch),
            f"Use train.batch={-(-train.batch // pairs) * pairs}, or change train.accumulate or the number of ranks",
        )


def check_same(before: Recipe, now: Recipe, where: str, *, begun: bool = False, scored: bool = True) -> None:
    """A run may become longer, faster or chattier; what it learns and in which order is fixed at its start, and the
    score that decides by its first evaluation.

    Raises:
        RecipeError: that would change.
    """
    for key in (*_FIXED, *(_ORIGIN if begun else ()), *([_DECIDES] if scored else [])):
        was, is_now = (attrgetter(key)(each) for each in (before, now))
        if was != is_now:
            setting, first, second = _narrowed(key, was, is_now)
            remedy = "Leave it, or start a new run from its weights with --init RUN"
            raise _refused(at(where, setting), f"{_shown(first)}, as the run was started with", _shown(second), remedy)


def _shown(value: Any) -> str:
    return str(value) if value not in ("", ()) else "nothing"


def _narrowed(key: str, was: Any, now: Any) -> tuple[str, Any, Any]:
    """The first setting of a section that differs."""
    while is_dataclass(was):
        name = next(each.name for each in fields(was) if getattr(was, each.name) != getattr(now, each.name))
        key, was, now = f"{key}.{name}", getattr(was, name), getattr(now, name)
    return key, was, now


def _refused(where: str, expected: str, found: str, remedy: str) -> RecipeError:
    return RecipeError(where, expected=expected, found=found, remedy=remedy)


def _check_losses(recipe: Recipe, where: str) -> None:
    loss = recipe.loss
    built_in = loss.cross_entropy + loss.focal + loss.dice + loss.jaccard + loss.tversky + loss.lovasz
    if not built_in and not loss.custom:
        raise _refused(at(where, "loss"), "at least one loss that weighs something", "none", "Set loss.cross_entropy=1")


def check_follow(recipe: Recipe) -> None:
    """Refuse to follow a folder of shards, or a topic up to a given end.

    Raises:
        RecipeError: the data does not grow, or --until is given.
    """
    if not recipe.follow.on:
        if recipe.follow.replay_ratio:
            raise RecipeError(
                "follow.replay_ratio",
                remedy="Add --follow, or remove follow.replay_ratio",
                message=f"follow.replay_ratio = {recipe.follow.replay_ratio} has no effect, as no topic is followed.",
            )
        return
    if not locate(recipe.data.path).grows:
        raise RecipeError(
            "follow.on",
            expected="a topic, kafka://HOST:PORT/TOPIC",
            found=f"the folder {recipe.data.path}",
            remedy="Leave out --follow: shards do not grow",
        )
    if recipe.data.until:
        raise RecipeError(
            "data.until",
            expected="no end, as the topic is followed",
            found=recipe.data.until,
            remedy="Leave out --until or --follow",
        )

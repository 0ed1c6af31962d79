"""Defaults that depend on what is chosen, below Python, TOML and the command line: one setting, one meaning.

A setting that nobody gives comes, in this order, from following a topic, the optimizer, the model, the task, the
source, or the recipe's own defaults.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from penstock.config import toml
from penstock.datasets import locate
from penstock.session.options import ENDLESS
from penstock.settings import Recipe
from penstock.tasks import Ability

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from penstock.tasks import Task

    Settings = Mapping[str, Any]

GIVEN: Final = "given"
GENERAL: Final = "general default"

OPTIMIZERS: Final[Mapping[str, Settings]] = {
    "adamw": {
        "optimizer.schedule": "cosine",
        "optimizer.lr": 3e-4,
        "optimizer.weight_decay": 0.01,
    },
}
"""What comes with an optimizer that somebody names."""

MODELS: Final[Mapping[str, Settings]] = {
    "cifar10-tutorial": {  # TensorFlow's cifar10.py and cifar10_input.py of 2016
        "model.weights": "none",
        "augment.crop": (24, 24),
        "augment.method": "pad-crop",
        "regularize.brightness": 63.0,
        "regularize.contrast": (0.2, 1.8),
        "loss.label_smoothing": 0.0,
        "optimizer.lr": 0.1,
        "optimizer.momentum": 0.0,
        "optimizer.weight_decay": 0.004,
        "optimizer.schedule": "step",
        "optimizer.step_size": 136_718,
        "train.steps": 100_000,
        "train.batch": 128,
        "train.ema_decay": 0.9999,
        "train.evaluate_every": 1000,
        "train.save_every": 1000,
        "train.log_every": 10,
    },
    "cifar10-fast": {  # in the spirit of airbench94_muon: 8 epochs of 50,000 images, half its batch
        "model.weights": "none",
        "augment.crop": (32, 32),
        "augment.method": "pad-crop",
        "augment.margin": 2,
        "augment.border": "reflect",
        "augment.alternating_flip": True,
        "loss.label_smoothing": 0.2,
        "optimizer.name": "muon",
        "optimizer.lr": 0.17,
        "optimizer.momentum": 0.6,
        "optimizer.sgd_momentum": 0.9,
        "optimizer.weight_decay": 0.0785,
        "optimizer.decay_biases": True,
        "optimizer.unit_filters": True,
        "optimizer.schedule": "poly",
        "optimizer.power": 1.0,
        "optimizer.bias_lr_mult": 208.0,
        "optimizer.norm_bias_lr_mult": 208.0,
        "optimizer.head_lr_mult": 3.25,
        "train.steps": 400,
        "train.batch": 1000,
        "train.evaluate_every": 50,
        "train.save_every": 50,
        "train.log_every": 10,
    },
}
"""What comes with a model as it was published."""

FOLLOWING: Final[Settings] = {"optimizer.schedule": "constant", "train.steps": ENDLESS}
"""What comes with following a topic, which has no end."""


@dataclass(frozen=True)
class Resolved:
    """A recipe with where its settings come from.

    Attributes:
        recipe: with every setting.
        given: the settings that somebody gave, named as `section.key`.
        origins: of every other setting that is not a general default, what it comes from.
    """

    recipe: Recipe
    given: Settings = field(default_factory=dict)
    origins: Mapping[str, str] = field(default_factory=dict)

    def origin(self, key: str) -> str:
        """Where a setting comes from."""
        return GIVEN if key in self.given else self.origins.get(key, GENERAL)

    def as_json(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {"given": dict(self.given), "origins": dict(self.origins)}


def stated(recipe: Recipe) -> Resolved:
    """A recipe that states every setting: those that differ from the general defaults were given."""
    return Resolved(recipe, {key: now for key, (_, now) in toml.changes(Recipe(), recipe).items()})


def resolve(given: Settings, task: type[Task], where: str = "") -> Resolved:
    """The recipe of some settings, with all others filled in.

    Args:
        given: what somebody gave, named as `section.key`.
        task: what is learnt.
        where: where it was given, for errors.

    Raises:
        RecipeError: a setting is not known, or its value does not fit.
    """
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for origin, settings in _layers(given, task):
        for key, value in settings.items():
            if key not in values:
                values[key] = value
                origins[key] = origin
    recipe = toml.filled(Recipe(), values, where)
    return Resolved(recipe, dict(given), {key: origin for key, origin in origins.items() if origin != GIVEN})


def _layers(given: Settings, task: type[Task]) -> Iterator[tuple[str, Settings]]:
    """The settings that each chooser has, the strongest first."""
    yield GIVEN, given
    if given.get("follow.on"):
        yield "following a topic", FOLLOWING
    optimizer, model = given.get("optimizer.name", ""), given.get("model.name", "")
    yield f"optimizer {optimizer}", OPTIMIZERS.get(optimizer, {})
    yield f"model {model}", MODELS.get(model, {})
    yield f"task {task.kind.name}", task.defaults(given.get("model.weights", ""))
    yield f"task {task.kind.name}", _without_abilities(task)
    location = locate(str(given.get("data.path", "")))
    yield location.chooser, location.defaults


def _without_abilities(task: type[Task]) -> Settings:
    """The network of a task that builds one only is named as the task is; without a backbone there are no weights."""
    settings = {}
    if Ability.MODELS not in task.supports:
        settings["model.name"] = task.kind.name
    if Ability.PRETRAINED not in task.supports:
        settings["model.weights"] = "none"
    return settings


def defaults(recipe: Recipe, task: type[Task]) -> tuple[Recipe, ...]:
    """The recipes from which settings that nobody chose may come, beside the model, its weights and the optimizer."""
    chosen = {"task": recipe.task, "model.name": recipe.model.name, "follow.on": recipe.follow.on}
    weighted = {**chosen, "model.weights": recipe.model.weights}
    named = {**weighted, "optimizer.name": recipe.optimizer.name}
    begun, plain = (resolve(each, task).recipe for each in ({"task": recipe.task}, chosen))
    weights = {"model.weights": plain.model.weights}
    others = (toml.filled(resolve(each, task).recipe, weights, "") for each in (weighted, named))
    return begun, plain, *others

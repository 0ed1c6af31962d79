"""Defaults that depend on what is chosen, below Python, TOML and the command line: one setting, one meaning.

A setting that nobody gives comes, in this order, from following a topic, the optimizer, the model, the task, the
source, or the recipe's own defaults.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from penstock.config import toml
from penstock.config.members import NAME, chooses, flat, kind_of, members
from penstock.datasets import locate
from penstock.session.options import ENDLESS
from penstock.settings import Recipe
from penstock.tasks import Ability, Task

Settings = Mapping[str, Any]

GIVEN: Final = "given"
GENERAL: Final = "general default"

MODELS: Final[Mapping[str, Settings]] = {
    "cifar10-tutorial": {  # TensorFlow's cifar10.py and cifar10_input.py of 2016
        "model.weights": "none",
        "augment.crop": (24, 24),
        "augment.view.name": "pad-crop",
        "regularize.brightness": 63.0,
        "regularize.contrast": (0.2, 1.8),
        "loss.label_smoothing": 0.0,
        "optimizer.name": "sgd",
        "optimizer.lr": 0.1,
        "optimizer.momentum": 0.0,
        "optimizer.weight_decay": 0.004,
        "optimizer.schedule.name": "step",
        "optimizer.schedule.step_size": 136_718,
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
        "augment.view.name": "pad-crop",
        "augment.view.margin": 2,
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
        "optimizer.schedule.name": "poly",
        "optimizer.schedule.power": 1.0,
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

FOLLOWING: Final[Settings] = {"optimizer.schedule.name": "constant", "train.steps": ENDLESS}
"""What comes with following a topic, which has no end."""


@dataclass(frozen=True)
class Resolved:
    """A recipe with where its settings come from.

    Attributes:
        recipe: with every setting.
        given: the settings that somebody gave, named as `section.key`.
        origins: for every other setting that is not a general default, the task, model or option that set it.
        notes: what people are told of the settings when training begins.
    """

    recipe: Recipe
    given: Settings = field(default_factory=dict)
    origins: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def origin(self, key: str) -> str:
        """Where a setting comes from."""
        return GIVEN if key in self.given else self.origins.get(key, GENERAL)

    def as_json(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {"given": dict(self.given), "origins": dict(self.origins)}


def as_resolved(recipe: Recipe) -> Resolved:
    """A recipe that states every setting: those that differ from the general defaults were given."""
    return Resolved(recipe, {key: now for key, (_, now) in toml.changes(Recipe(), recipe).items()})


def resolve(given: Settings, task: type[Task], where: str = "") -> Resolved:
    """The recipe of some settings, with all others filled in.

    Raises:
        RecipeError: a setting is not known, or its value does not fit.
    """
    given, tree = flat(given), msgspec.to_builtins(Recipe())
    origins: dict[str, str] = {}
    for origin, settings in _layers(given, task):
        values = flat(settings)
        gone = tuple(f"{section}." for section in toml.switched(tree, values))
        origins = {key: each for key, each in origins.items() if not key.startswith(gone)}
        origins |= dict.fromkeys(values, origin)
        tree = toml.overlaid(tree, values)
    recipe = toml.convert(tree, where)
    named = {key: origin for key, origin in origins.items() if origin != GIVEN}
    return Resolved(recipe, given, {**_of_members(recipe, origins), **named})


def _layers(given: Settings, task: type[Task]) -> Iterator[tuple[str, Settings]]:
    """The settings of each chooser, the strongest last. A followed topic comes before what a chosen name brings."""
    location = locate(str(given.get("data.path", "")))
    yield location.chooser, location.defaults
    yield f"task {task.kind.name}", _without_abilities(task)
    yield f"task {task.kind.name}", task.defaults(given.get("model.weights", ""))
    model = given.get("model.name", "")
    yield f"model {model}", MODELS.get(model, {})
    yield GIVEN, {key: value for key, value in given.items() if chooses(key)}
    if given.get("follow.on"):
        yield "following a topic", {key: value for key, value in FOLLOWING.items() if key not in given}
    yield GIVEN, given


def _of_members(recipe: Recipe, known: Mapping[str, str]) -> dict[str, str]:
    """The settings of unknown origin that differ from the general defaults only by the default of a chosen member."""
    found = {}
    settings, general = (flat(msgspec.to_builtins(each)) for each in (recipe, Recipe()))
    for key, value in settings.items():
        section = key.rpartition(".")[0]
        owner = section.rpartition(".")[0] if chooses(key) else section
        if key not in known and members(kind_of(owner)) and value != general.get(key):
            found[key] = f"{owner.rpartition('.')[2]} {settings[f'{owner}.{NAME}']}"
    return found


def _without_abilities(task: type[Task]) -> Settings:
    """Defaults of a task without a choice of models (the name of its kind) or without pretrained weights."""
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

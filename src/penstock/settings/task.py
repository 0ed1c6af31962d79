"""The settings of a recipe that a task is made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

import msgspec

from penstock.errors import RecipeError
from penstock.settings.augment import Augment
from penstock.settings.model import Model
from penstock.settings.objective import Objective
from penstock.settings.regularize import Regularize

Options = TypeVar("Options")


@dataclass(frozen=True)
class TaskSettings:
    """The sections of a recipe that a task is made from.

    Attributes:
        model: the network.
        augment: what training does to an image.
        regularize: what training does to a batch of images.
        loss: what training makes small.
        options: of a custom task.
    """

    model: Model = field(default_factory=Model)
    augment: Augment = field(default_factory=Augment)
    regularize: Regularize = field(default_factory=Regularize)
    loss: Objective = field(default_factory=Objective)
    options: Mapping[str, Any] = field(default_factory=dict)

    def typed(self, settings: type[Options]) -> Options:
        """The options of a custom task as its dataclass of settings, whose fields have types and bounds.

        Raises:
            RecipeError: one is not known, or its value does not fit.
        """
        known = [each.name for each in fields(settings)]  # type: ignore[arg-type] # a dataclass
        if unknown := [name for name in self.options if name not in known]:
            raise RecipeError(
                "task_options",
                remedy="Check the name",
                message=f"The task has no setting {unknown[0]} in task_options, only {', '.join(known) or 'none'}.",
            )
        try:
            return msgspec.convert(dict(self.options), settings)
        except msgspec.ValidationError as error:
            raise RecipeError(
                "task_options",
                expected="values of the types of the task's settings",
                found=str(error),
                remedy="Check the values",
            ) from None

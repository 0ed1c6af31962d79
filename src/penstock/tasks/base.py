"""The contract between a task and the session, the evaluation and the command line."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Protocol

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray
    from torch import nn

    from penstock.feed import Prepare
    from penstock.values import Record

    Tensors = Mapping[str, torch.Tensor]


class Scores(Protocol):
    """The result of an evaluation."""

    def summary(self) -> dict[str, float]:
        """The scores in one line; all are better when larger."""
        ...

    def as_json(self) -> dict[str, Any]:
        """Everything, for a file."""
        ...


class Together(Protocol):
    """What scorers need of ranks."""

    def sum(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor added up over all ranks, in place."""
        ...

    def gather(self, texts: Sequence[str]) -> list[str]:
        """The texts of all ranks in the order of the ranks, on every rank."""
        ...


class Scorer(Protocol):
    """Counts answers."""

    def gather(self, ranks: Together) -> None:
        """Put together what all ranks have counted; called before `scores`."""
        ...

    def update(self, outputs: Any, tensors: Tensors, origins: Sequence[str]) -> None:
        """Count one batch. Samples whose origin is "" are padding and do not count."""
        ...

    def scores(self) -> Scores:
        """The scores of what has been counted."""
        ...


class Task(ABC):
    """Everything that depends on what is learnt.

    There may be several losses. Each is a sum, and has a count that follows from the labels alone; the session divides
    by the count over the global batch.
    """

    classes: tuple[str, ...]
    """The classes' names; their index is their id."""

    ignore: int
    """The label that does not count."""

    main_score: str
    """The name in `Scores.summary()` that decides which checkpoint is best."""

    evaluates_loss = True
    """Whether the model gives what the losses need in evaluation too."""

    @abstractmethod
    def prepare(self, *, train: bool) -> Prepare:
        """What turns a record into a sample."""

    @abstractmethod
    def model(self) -> nn.Module:
        """A new model, with its initial weights."""

    @abstractmethod
    def inputs(self, tensors: Tensors) -> Any:
        """What the model takes, its pictures normalised on the device."""

    @abstractmethod
    def mask_padding(self, tensors: Tensors, weight: torch.Tensor) -> Tensors:
        """The batch with the labels of samples of weight 0 turned into ones that do not count."""

    def kept(self, real: torch.Tensor) -> torch.Tensor:
        """The indices of a batch's samples that are no padding, in the order in which they are learnt.

        Args:
            real: bool (n,), which are not.
        """
        return torch.nonzero(real)[:, 0]

    @abstractmethod
    def count(self, tensors: Tensors) -> torch.Tensor:
        """What each loss is divided by, of shape (losses,), on the device."""

    @abstractmethod
    def loss(self, outputs: Any, tensors: Tensors) -> torch.Tensor:
        """The sum of each loss over what counts: float32 of shape (losses,)."""

    def after(self, step: int) -> Task:
        """The task as it is after some finished steps, where the losses depend on them."""
        del step
        return self

    @abstractmethod
    def scorer(self) -> Scorer:
        """A fresh counter of answers."""

    def for_pictures(self, height: int, width: int) -> Task:
        """The task ready to evaluate pictures of up to a size."""
        del height, width
        return self

    def initialize(self, model: nn.Module, pictures: Callable[[], torch.Tensor]) -> None:
        """Set what of a new model follows from the data.

        Args:
            model: a new one.
            pictures: gives some of the data, as it is evaluated: uint8 (n, h, w, 3).
        """
        del model, pictures

    def seen(self, tensors: Tensors) -> Tensors:
        """A batch for drawing, with what is done to its pictures on the device done to them."""
        return tensors

    @abstractmethod
    def shown(self, record: Record) -> set[int]:
        """The classes in a record."""

    @property
    def legend(self) -> tuple[str, ...]:
        """The classes whose colours explain a drawing, in the order of their ids; none where it uses no colours."""
        return ()

    @abstractmethod
    def draw(
        self,
        arrays: Mapping[str, NDArray[Any]],
        outputs: Any = None,
        record: Record | None = None,
    ) -> NDArray[np.uint8]:
        """A picture of one sample, with its label and, where there are outputs, the answer: uint8 RGB.

        Args:
            arrays: the sample's.
            outputs: the model's for it, without a batch axis.
            record: where it is given, what is only padding around its picture is left out.
        """

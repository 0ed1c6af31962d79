"""What `predict` reads beside images, such as volumes: extensions bring it in their table PREDICTIONS."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from penstock.extending import Extended

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from penstock.inference.model import TrainedModel
    from penstock.tasks import Style, Task


@dataclass(frozen=True)
class Written:
    """What became of images, or of other inputs, whose predictions were to be written.

    Attributes:
        done: how many were predicted.
        total: how many there were.
        unit: "image", or what an extension calls one of its inputs, such as "volume".
        manner: how they were written, as the end of a sentence.
        problems: a sentence for every one that could not be read, or whose labels do not fit it.
        notes: what was left out, and what the files are.
        table: the scores of inputs with true labels, as lines.
    """

    done: int
    total: int
    unit: str = "image"
    manner: str = ""
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    table: tuple[str, ...] = ()


class OtherInputs(ABC):
    """A sort of inputs that are no images.

    Attributes:
        unit: what one of them is called.
        inputs: what they are called in sentences.
    """

    unit: ClassVar[str]
    inputs: ClassVar[str]

    @abstractmethod
    def are_among(self, paths: Sequence[Path], *, learnt: bool) -> bool:
        """Whether there is one among some paths, or in folders among them.

        Args:
            paths: files and folders.
            learnt: whether the model was trained on such inputs, or on parts of them.
        """

    @abstractmethod
    def can_predict(self, task: Task) -> bool:
        """Whether models of a task predict them."""

    @abstractmethod
    def write(
        self,
        trained: TrainedModel,
        paths: Sequence[Path],
        output: Path,
        labels: Path | None,
        style: Style,
        progress: Callable[[int, int], None],
    ) -> Written:
        """Write their predictions into a folder.

        Raises:
            RecipeError: the task does not predict them.
            DatasetError: a path is none and holds none, or a file would take the place of another one.
        """


_BROUGHT: Final[Extended[OtherInputs]] = Extended({}, "PREDICTIONS")


def find_others(paths: Sequence[Path], *, learnt: bool) -> OtherInputs | None:
    """The inputs that are among some paths in place of images; None for images. Arguments: as for `are_among`."""
    return next((each for each in _BROUGHT.values() if each.are_among(paths, learnt=learnt)), None)


def others_of(task: Task) -> str:
    """What models of a task predict beside images, in words; "" where it is nothing."""
    return " or ".join(each.inputs for each in _BROUGHT.values() if each.can_predict(task))

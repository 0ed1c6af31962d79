"""What a task can do with a model beside training it. Each role is an object that a task has, or has not."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from penstock import devices
from penstock.datasets.description import SplitInfo
from penstock.images.geometry import Size
from penstock.models import Window
from penstock.tasks.exported import Graph
from penstock.tasks.predictions import Prediction, Style
from penstock.values import Record

Tensors = Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class ReadyModel:
    """A model that is ready to predict.

    Attributes:
        model: in evaluation mode, on `device`.
        device: where it is.
        precision: as in training.
        window: slides over each image, if the task supports it; None shows the model whole images.
    """

    model: nn.Module
    device: torch.device = torch.device("cpu")  # noqa: RUF009 - immutable
    precision: str = "float32"
    window: Window | None = None

    def autocast(self) -> AbstractContextManager[object]:
        """The context of a forward pass."""
        return devices.autocast(self.device, self.precision)


class Drawing(ABC):
    """Draws samples, with their labels and perhaps with what a model makes of them."""

    panels: ClassVar[str] = "image, labels, prediction"
    """The images beside each other where there are outputs, for captions; "" for one image."""

    ignore: int = 255
    """The label whose colour stands for what does not count."""

    colors: tuple[tuple[int, int, int], ...] = ()
    """(red, green, blue) of every class in the data's own legend; empty takes distinct ones."""

    @property
    def legend(self) -> tuple[str, ...]:
        """The classes that colours stand for, in the order of their ids; none where drawings use no colours."""
        return ()

    def seen(self, tensors: Tensors) -> Tensors:
        """The batch after the augmentation that is computed on the device."""
        return tensors

    @abstractmethod
    def draw(
        self, arrays: Mapping[str, NDArray[Any]], outputs: Any = None, record: Record | None = None
    ) -> NDArray[np.uint8]:
        """An image of one sample, with its label and, where there are outputs, the prediction: uint8 RGB.

        Args:
            arrays: the sample's.
            outputs: the model's for it, without a batch axis.
            record: where it is given, padding around its image is left out.
        """

    def words(self, arrays: Mapping[str, NDArray[Any]], outputs: Any = None) -> tuple[str, ...]:
        """Lines to be written below what `draw` gives, such as the name of a class. Arguments: as for `draw`."""
        return ()


class Predictor(ABC):
    """Predicts images, and knows the files that predictions are written to."""

    writes_objects: ClassVar[bool] = False
    """Whether predictions are objects, which are written as COCO JSON too."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of predictions.csv after the name of the image; none writes no table."""
        return ()

    @abstractmethod
    def predict(self, ready: ReadyModel, pixels: NDArray[Any]) -> Prediction:
        """What a model says of one image of any size.

        Args:
            ready: the model.
            pixels: the upright image in the task's format, by default uint8 RGB (height, width, 3).
        """

    def suffixes(self, style: Style) -> tuple[str, ...]:
        """The ends of the names of one image's files, behind the image's name."""
        return ()

    def ids(self, style: Style) -> list[list[str]]:
        """The meaning of values in written files: rows of id, name, red, green and blue; none where they are no ids."""
        return []

    @abstractmethod
    def explain(self, table: str, rows: int, drawn: int, style: Style) -> str:
        """A sentence about the files.

        Args:
            table: the path of the table.
            rows: how many it has.
            drawn: how many things are drawn.
            style: how they are.
        """


class Exporter(ABC):
    """Makes graphs of models for other programs."""

    any_size: ClassVar[bool] = False
    """Whether every graph takes one image of any size."""

    def size(self, splits: Iterable[SplitInfo]) -> Size | None:
        """The (height, width) of the images that a graph should take; None for training's crop."""
        return None

    def check_size(self, size: Size) -> None:  # noqa: B027 - most tasks take any
        """Raise a RecipeError unless a graph can take images of a size."""

    @abstractmethod
    def input_note(self, size: Size | None) -> str:
        """What of an image a graph must be given, in words; None stands for any size that it takes."""

    @abstractmethod
    def graph(self, model: nn.Module, size: Size) -> Graph:
        """The part of a model that is exported.

        Args:
            model: in evaluation mode, on the CPU.
            size: (height, width) of the images.
        """

    def whole_graph(self, model: nn.Module, size: Size) -> Graph | None:
        """The same for one image of any size, padded or resized inside; None where there is no such thing.

        Args:
            model: in evaluation mode, on the CPU.
            size: (height, width) of the image to try it with.
        """
        return None

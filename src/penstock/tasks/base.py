"""The contract between a task and everything that trains, evaluates, predicts or draws."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch

from penstock.images import RGB, PixelFormat
from penstock.models.segmentation import STRIDE
from penstock.tasks.abilities import Ability, refusal
from penstock.tasks.exported import Graph, Predictor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    import numpy as np
    from numpy.typing import NDArray
    from torch import nn

    from penstock.datasets.description import Description, Split
    from penstock.feed import Prepare
    from penstock.images.geometry import Size
    from penstock.images.volumes import Volume
    from penstock.kinds import Kind
    from penstock.models import Window
    from penstock.settings import Augment, TaskSettings
    from penstock.tasks.predictions import Prediction, Style
    from penstock.tasks.scoring import Metric
    from penstock.values import Record

    Tensors = Mapping[str, torch.Tensor]


class Task(ABC):
    """Everything that depends on what is learnt. Nobody else asks which task it is.

    There may be several losses. Each is a sum, and has a count that follows from the labels alone; the session divides
    by the count over the global batch.
    """

    kind: ClassVar[Kind]
    """The kind of record that is learnt from."""

    supports: ClassVar[frozenset[Ability]] = frozenset()
    """What can be asked for beyond training and evaluation."""

    settings: ClassVar[type | None] = None
    """A frozen dataclass for `task_options` of the recipe, where the task has settings of its own."""

    column_names: ClassVar[tuple[str, ...]] = ()
    """The columns of a table of predictions, behind the name of the file; none writes no table."""

    writes_objects: ClassVar[bool] = False
    """Whether predictions are objects, which are written as COCO JSON too."""

    panels: ClassVar[str] = "image, labels, prediction"
    """What `draw` puts beside each other where there are outputs, for captions; "" for one image."""

    classes: tuple[str, ...]
    """The classes' names; their index is their id."""

    ignore: int
    """The label that does not count."""

    colors: tuple[tuple[int, int, int], ...] = ()
    """(red, green, blue) of every class in the data's own legend; empty takes distinct ones."""
    best_metric: str
    """The name in `Scores.summary()` that decides which checkpoint is best."""

    lower_is_better: ClassVar[frozenset[str]] = frozenset()
    """Those of the scores of which smaller ones are better."""

    small_model: ClassVar[str] = ""
    """A small network, to try things with on a CPU; "" where there is no choice."""

    evaluates_loss = True
    """Whether the model gives what the losses need in evaluation too."""

    pixel_format: PixelFormat = RGB
    """Channels and bits of the images."""

    @classmethod
    @abstractmethod
    def of(cls, settings: TaskSettings, described: Description, split: Split, *, grows: bool = False) -> Self:
        """The task for a dataset.

        Args:
            settings: the sections of the recipe that are about the task.
            described: the dataset.
            split: the training split, whose counts of every class give them weights.
            grows: whether records may come that nobody has counted yet.

        Raises:
            RecipeError: a setting does not fit the dataset.
        """

    @classmethod
    def defaults(cls, weights: str = "") -> Mapping[str, Any]:
        """Settings of a recipe that are better for this task than the general ones, named as `section.key`.

        Args:
            weights: of the backbone, where somebody chose them.
        """
        del weights
        return {}

    @classmethod
    def sizes(cls, augment: Augment, split: Split) -> dict[str, Any]:
        """Settings of the crop that suit images, where nobody gave a crop: no larger than the largest image, so that
        little of a sample is padding, in multiples of 32.

        Args:
            augment: with the defaults of the task.
            split: what is learnt from, with the size of its largest image.
        """
        if augment.method != "scale-crop":
            return {}
        sides = zip(augment.crop, (split.height, split.width), strict=True)
        return {"augment.crop": tuple(min(usual, max(STRIDE, side // STRIDE * STRIDE)) for usual, side in sides)}

    def check_crop(self, crop: Size, model: nn.Module) -> None:
        """Whether the network takes images of the size of training's crop.

        Raises:
            RecipeError: it does not; the error names the nearest size that it takes.
        """
        del crop, model

    def trial_sizes(self, crop: Size, window: int, *, evaluated: bool) -> list[Size]:
        """The sizes to try a new network with, as some take only one; none where trying says nothing.

        Args:
            crop: training's.
            window: side of the sliding window of evaluations; 0 evaluates whole images.
            evaluated: whether a split is evaluated.
        """
        del crop, window, evaluated
        return []

    @abstractmethod
    def prepare(self, *, train: bool) -> Prepare:
        """What turns a record into a sample."""

    @abstractmethod
    def model(self) -> nn.Module:
        """A new model, with its initial weights."""

    @abstractmethod
    def inputs(self, tensors: Tensors) -> Any:
        """What the model takes, its images normalised on the device."""

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
    def metric(self) -> Metric:
        """A fresh counter of predictions."""

    def wrong_outputs(self, outputs: Any, size: Size) -> tuple[str, str] | None:
        """What a network should have given for one image of a size and what it gave, in words; None where it is right.

        Args:
            outputs: of the network, in evaluation mode.
            size: (height, width) of the image.
        """
        del outputs, size
        return None

    def for_images(self, height: int, width: int, slices: int = 0) -> Self:
        """The task ready to evaluate images of up to a size, or volumes of up to so many slices of it."""
        del height, width, slices
        return self

    def initialize(self, model: nn.Module, images: Callable[[], torch.Tensor]) -> None:
        """Set what of a new model follows from the data.

        Args:
            model: a new one.
            images: gives some of the data, as it is evaluated: uint8 (n, h, w, 3).
        """
        del model, images

    def seen(self, tensors: Tensors) -> Tensors:
        """A batch for drawing, with what is done to its images on the device done to them."""
        return tensors

    @abstractmethod
    def classes_of(self, record: Record) -> set[int]:
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
        """An image of one sample, with its label and, where there are outputs, the prediction: uint8 RGB.

        Args:
            arrays: the sample's.
            outputs: the model's for it, without a batch axis.
            record: where it is given, what is only padding around its image is left out.
        """

    def words(self, arrays: Mapping[str, NDArray[Any]], outputs: Any = None) -> tuple[str, ...]:
        """Lines to be written below what `draw` gives, such as the name of a class. Arguments: as for `draw`."""
        del arrays, outputs
        return ()

    def predict(
        self,
        model: nn.Module,
        pixels: NDArray[Any],
        *,
        device: torch.device,
        precision: str = "float32",
        window: Window | None = None,
    ) -> Prediction:
        """What a model says of one image of any size.

        Args:
            model: in evaluation mode, on `device`.
            pixels: the upright image in the task's format, by default uint8 RGB (height, width, 3).
            device: where the model is.
            precision: as in training.
            window: slides over the image; None shows the model the whole image.

        Raises:
            RecipeError: the task does not predict images.
        """
        del model, pixels, device, precision, window
        raise refusal(self, Ability.PREDICT_IMAGES, "penstock predict", "Name NIfTI volumes")

    def predict_volume(
        self,
        model: nn.Module,
        volume: Volume,
        *,
        device: torch.device,
        precision: str = "float32",
        window: Window | None = None,
    ) -> NDArray[np.uint8]:
        """The labels of a volume, in the order of its file's axes: uint8 (x, y, z).

        Args:
            model: in evaluation mode, on `device`.
            volume: with the modalities that the model was trained on.
            device: where the model is.
            precision: as in training.
            window: slides over the slices; None shows the model whole ones.

        Raises:
            RecipeError: the task does not predict volumes.
        """
        del model, volume, device, precision, window
        raise refusal(self, Ability.PREDICT_VOLUMES, "penstock predict", "Name images")

    def prediction_suffixes(self, style: Style) -> tuple[str, ...]:
        """What the names of the files of one image's prediction have behind the image's name."""
        del style
        return ()

    def written_ids(self, style: Style) -> list[list[str]]:
        """What the values in files of predictions mean: rows of id, name, red, green and blue; none where they are no
        ids.
        """
        del style
        return []

    def explain(self, table: str, rows: int, drawn: int, style: Style) -> str:
        """A sentence about the files of predictions.

        Args:
            table: the path of the table.
            rows: how many it has.
            drawn: how many things are drawn.
            style: how they are.
        """
        raise NotImplementedError

    def with_segments(self) -> Self:
        """The task with boundary IoU and panoptic quality among its scores.

        Raises:
            RecipeError: the task does not support them.
        """
        raise refusal(self, Ability.SEGMENT_SCORES, "--segments")

    def export_size(self, splits: Iterable[Split]) -> Size | None:
        """The (height, width) of the images that an exported model should take; None for training's crop."""
        del splits
        return None

    def check_export_size(self, size: Size) -> None:
        """Whether an exported model can take images of a size.

        Raises:
            RecipeError: it cannot.
        """
        del size

    def export_input(self, size: Size) -> str:
        """What an exported model must be given of an image, in words."""
        raise NotImplementedError

    def export_any_input(self) -> str:
        """The same, of a model whose images may have any height and width that it takes."""
        raise NotImplementedError

    def graph(self, model: nn.Module, size: Size) -> Graph:
        """What of a model is exported: by default images of one size, to classes and probabilities.

        Args:
            model: in evaluation mode, on the CPU.
            size: (height, width) of the images.
        """
        shape = (*size, self.pixel_format.channels)
        bits, values = self.pixel_format.bits, self.usual_values()
        return Graph(Predictor(self, model).eval(), Predictor.outputs, shape, bits=bits, values=values)

    def whole_graph(self, model: nn.Module, size: Size) -> Graph | None:
        """The same for one image of any size, padded inside; None where there is no such thing.

        Args:
            model: in evaluation mode, on the CPU.
            size: (height, width) of the image to try it with.
        """
        del model, size
        return None

    def usual_values(self) -> tuple[int, int] | None:
        """The lowest and the highest value that most pixels have; None where that is not known."""
        return None

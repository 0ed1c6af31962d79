"""A run's model in memory, and what it predicts."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from penstock import inference
from penstock.api.arguments import suggested
from penstock.errors import ImageError, RecipeError
from penstock.images.upright import encode_pillow, read_upright
from penstock.inference.inputs import find, left_out, other_depth, parsed
from penstock.inference.other_inputs import Written, find_others
from penstock.inference.predict import check_output, check_style
from penstock.models import TestTimeAugmentation
from penstock.progress import silent
from penstock.settings.predicting import SHOWN
from penstock.tasks import Style

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from torch import nn

    from penstock.inference.other_inputs import OtherInputs
    from penstock.tasks import Prediction
    from penstock.values import Pixels


_PALETTES: Final = ("auto", "distinct", "voc", "cityscapes", "ade20k")


@dataclass(frozen=True, repr=False)
class LoadedModel:
    """A run's model, ready to predict.

    Attributes:
        trained: the model with what it was trained for.
    """

    trained: inference.TrainedModel

    def __repr__(self) -> str:
        name, task = self.trained.parts.recipe.model.name, self.trained.parts.task.kind.name
        return f"<LoadedModel {name} for {task}, after step {self.trained.step:,}, on {self.trained.device}>"

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes, in the order of their ids."""
        return self.trained.parts.dataset.description.classes

    @property
    def network(self) -> nn.Module:
        """The network of PyTorch, in evaluation mode: float (n, channels, height, width) in, as it was trained on."""
        return self.trained.model

    @suggested
    def predict(self, image: str | Path | bytes | Pixels) -> Prediction:
        """What the model says of one image.

        Args:
            image: a file, the bytes of one, an image of Pillow of any mode, or uint8 RGB of shape (height, width, 3):
                an array or anything that NumPy makes one of. A model of images of other channels or bits takes those.

        Raises:
            ImageError: the file is missing or cannot be decoded, or the array is no such image.
            RecipeError: the task does not predict images.
        """
        wanted = self.trained.parts.task.pixel_format
        if isinstance(image, bytes):
            return self.trained.predict(read_upright(image, "the image", wanted))
        if not isinstance(image, str | Path):
            encoded = encode_pillow(image)
            pixels = read_upright(encoded, "the image", wanted) if encoded else np.asarray(image)
            return self.trained.predict(pixels)
        path = Path(image)
        if path.is_dir():
            raise ImageError(str(path), expected="an image file", found="a folder", remedy="Use predict_all")
        if not path.is_file():
            raise ImageError(str(path), expected="an image file", found="no such file", remedy="Check the path")
        return self.trained.predict(read_upright(path.read_bytes(), str(path), wanted))

    @suggested
    def with_tta(self, *, scales: Sequence[float] = (1.0,), flip: bool = False, shift: int = 0) -> LoadedModel:
        """The same model with test-time augmentation.

        Args:
            scales: factors of the image's size; the image is predicted at each.
            flip: whether each is predicted horizontally flipped too.
            shift: pixels by which a classifier's images are moved too.

        Raises:
            RecipeError: the task does not support it.
        """
        return LoadedModel(self.trained.with_tta(TestTimeAugmentation(tuple(scales), flip, shift)))

    def predict_all(self, *paths: str | Path) -> Iterator[tuple[str, Prediction]]:
        """The name and the prediction of every image behind some paths: images, folders, lists of images, videos.

        An image that cannot be read is left out; the logger `penstock.inference` says which.

        Raises:
            DatasetError: a path is not there, or there is no image.
        """
        for image in find([Path(path) for path in paths]):
            try:
                pixels = image.read(self.trained.parts.task.pixel_format)
            except (ImageError, OSError) as error:
                logging.getLogger("penstock.inference").warning("%s", error)
            else:
                yield image.name, self.trained.predict(pixels)

    @suggested
    def with_sliding_window(self, side: int | None = None, *, overlap: float | None = None) -> LoadedModel:
        """The same model with a window that slides over each image.

        Args:
            side: in pixels; None as in training, 0 shows the model whole images.
            overlap: fraction by which neighbouring windows overlap, 0 to below 1.

        Raises:
            RecipeError: the model did not learn to make masks, or there is an overlap and no window.
        """
        return LoadedModel(self.trained.with_sliding_window(side, overlap))

    def unit(self, *paths: str | Path) -> str:
        """The unit that `write` predicts for some paths: "volume" if they contain a volume, else "image"."""
        others = self._others([place for place in parsed([*map(str, paths)]) if isinstance(place, Path)])
        return others.unit if others else "image"

    def _others(self, paths: Sequence[Path]) -> OtherInputs | None:
        return find_others(paths, learnt=bool(self.trained.parts.dataset.description.modalities))

    @suggested
    def write(
        self,
        output: str | Path,
        *paths: str | Path,
        labels: str | Path = "",
        ids: Literal["classes", "original"] = "classes",
        palette: str = "auto",
        color: bool = False,
        score: float | None = None,
        progress: Callable[[int, int], None] = silent,
    ) -> Written:
        """Write the predictions for images or volumes as files, as `penstock predict` does.

        Args:
            output: the folder to write to.
            paths: images, their addresses, folders, lists of images, videos, cameras; or volumes and folders of them.
            labels: a folder of true labels of volumes, to score against.
            ids: ids to write into masks: "classes" for class ids, or "original" for the ids of the raw masks.
            palette: colours of the classes: auto, distinct, voc, cityscapes or ade20k.
            color: whether masks are written in colour too.
            score: above which boxes are drawn, 0 to 1; by default 0.3.
            progress: called with the images or volumes that are done, and those in all.

        Raises:
            DatasetError: there is nothing to predict, or a file that is no prediction would be overwritten.
            RecipeError: the task does not predict these inputs, or does not support an option.
        """
        _check_choice("ids", ids, ("classes", "original"))
        _check_choice("palette", palette, _PALETTES)
        places = parsed([*map(str, paths)])
        local = [place for place in places if isinstance(place, Path)]
        check_output(Path(output), local)
        described, task = self.trained.parts.dataset.description, self.trained.parts.task
        style = Style(
            described.original if ids == "original" else (), palette, color, SHOWN if score is None else score
        )
        others = self._others(local)
        check_style(task, style, original=ids == "original", others=others.inputs if others else "")
        if others:
            truth = Path(labels) if labels else None
            return others.write(self.trained, local, Path(output), truth, style, progress)
        if labels:
            raise RecipeError(
                "--labels",
                expected="NIfTI volumes to score",
                found="images",
                remedy="Use penstock evaluate for a split",
            )
        images = find(places)
        found = inference.predict_images(self.trained, images, Path(output), style, progress)
        notes = other_depth(images, task.pixel_format), left_out(places), *found.notes
        return replace(found, notes=tuple(filter(None, notes)))


def _check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        raise RecipeError(name, expected=f"one of {', '.join(choices)}", found=str(value), remedy="Choose one of them")

"""A run's model in memory, and what it predicts."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from penstock import inference
from penstock.api.arguments import suggested
from penstock.errors import ImageError
from penstock.images.upright import read_upright
from penstock.inference.inputs import find
from penstock.models import TestTimeAugmentation
from penstock.tasks import Style

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.inference import PredictedVolumes
    from penstock.tasks import Prediction
    from penstock.values import Pixels


@dataclass(frozen=True, repr=False)
class LoadedModel:
    """A run's model, ready to predict.

    Attributes:
        trained: the model with what it was trained for.
    """

    trained: inference.Trained

    def __repr__(self) -> str:
        name, task = self.trained.parts.recipe.model.name, self.trained.parts.task.kind.name
        return f"<LoadedModel {name} for {task}, after step {self.trained.step:,}, on {self.trained.device}>"

    @suggested
    def predict(self, image: str | Path | Pixels) -> Prediction:
        """What the model says of one image.

        Args:
            image: a file, or uint8 RGB of shape (height, width, 3): an array or anything that NumPy makes one of, such
                as an RGB image of Pillow. A model that was trained on images of other channels or bits takes those.

        Raises:
            ImageError: the file is missing or cannot be decoded, or the array is no such image.
            RecipeError: the task does not predict images.
        """
        if not isinstance(image, str | Path):
            return self.trained.predict(np.asarray(image))
        path = Path(image)
        if not path.is_file():
            raise ImageError(str(path), expected="an image file", found="no such file", remedy="Check the path")
        wanted = self.trained.parts.task.pixel_format
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

    def predict_volumes(
        self, paths: Sequence[str | Path], output: str | Path, labels: str | Path = ""
    ) -> PredictedVolumes:
        """Write the labels of NIfTI volumes, each in its own geometry, as `penstock predict` does.

        Args:
            paths: volumes and folders of them.
            output: the folder to write to.
            labels: a folder of true labels to score against; "" for none.

        Raises:
            DatasetError: there are no volumes, or a file would be overwritten that is no prediction.
            RecipeError: the task does not predict volumes.
        """
        found = [Path(path) for path in paths]
        return inference.predict_volumes(self.trained, found, Path(output), Path(labels) if labels else None)

    def predict_folder(self, folder: str | Path, output: str | Path, style: Style = Style()) -> inference.Predicted:  # noqa: B008 - frozen
        """Write the predictions for all images in a folder, as `penstock predict` does.

        Raises:
            DatasetError: there are no images, or a file would be overwritten that is no prediction.
        """
        return inference.predict_images(self.trained, find([Path(folder)]), Path(output), style)

"""A run's model, ready to predict and to be evaluated."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import torch
from numpy.typing import NDArray
from torch import nn

from penstock import devices
from penstock import ranks as ranking
from penstock.assembly.experiment import Experiment
from penstock.assembly.runs import described_run, load_checkpoint, weights
from penstock.errors import RecipeError
from penstock.images.pixels import check_format
from penstock.inference.other_inputs import others_of
from penstock.models import TestTimeAugmentation, TTAModel, Window, Windowed
from penstock.runs import RunFolder
from penstock.session.state import load_model as load_weights
from penstock.settings.predicting import OVERLAP
from penstock.tasks import Ability, Prediction, Predictor, ReadyModel, Task, refusal
from penstock.tasks.abilities import required

_LOGGER: Final = logging.getLogger("penstock.inference")
LARGEST_SIDE: Final = 1 << 16  # pixels of an image or a window


@dataclass(frozen=True)
class TrainedModel:
    """A run's model, ready to predict.

    Attributes:
        parts: what the run's recipe names.
        model: in evaluation mode, on `device`, with the moving average of the weights where there is one.
        device: where it is.
        step: after which its checkpoint was saved.
        tta: its test-time augmentation.
        window: of the sliding window; None where an image is seen whole.
    """

    parts: Experiment
    model: nn.Module
    device: torch.device
    step: int
    tta: TestTimeAugmentation = TestTimeAugmentation()  # noqa: RUF009 - frozen
    window: Window | None = None

    def with_tta(self, tta: TestTimeAugmentation) -> TrainedModel:
        """The same model, with test-time augmentation.

        Raises:
            RecipeError: the task does not support a part of it, or the shift is larger than the crop.
        """
        _check_tta(tta, self.parts.task, self.parts.recipe.augment.crop)
        return self if tta.single else replace(self, model=TTAModel(self.model, tta).eval(), tta=tta)

    def with_window(self, window: Window | None) -> TrainedModel:
        """The same model, with a sliding window over each image.

        Raises:
            RecipeError: the model did not learn to make masks.
        """
        if window is None:
            return self
        if Ability.SLIDING_WINDOW not in self.parts.task.supports:
            raise refusal(self.parts.task, Ability.SLIDING_WINDOW, "--sliding-window")
        return replace(self, window=window)

    def with_sliding_window(self, side: int | None, overlap: float | None) -> TrainedModel:
        """The same model, with a sliding window of a side in pixels: None as in training, 0 shows it whole images.

        Raises:
            RecipeError: an overlap is asked for where there is no window, or the model did not learn to make masks.
        """
        if not 0 <= (side or 0) <= LARGEST_SIDE or not 0 <= (overlap or 0) < 1:
            raise RecipeError(
                "--sliding-window, --overlap",
                expected=f"a side from 0 to {LARGEST_SIDE} pixels, and an overlap from 0 to below 1",
                found=f"{side} and {overlap}",
                remedy="Choose others",
            )
        side = self.parts.recipe.train.sliding_window if side is None else side
        if overlap is not None and not side:
            raise RecipeError(
                "--overlap",
                remedy="Add --sliding-window SIDE",
                message="--overlap has no effect without --sliding-window.",
            )
        return self.with_window(Window(side, OVERLAP if overlap is None else overlap) if side else None)

    @property
    def evaluated(self) -> nn.Module:
        """The model that whole images are given to: itself, or behind its sliding window."""
        return Windowed(self.model, self.window, self.device).eval() if self.window else self.model

    def predict(self, pixels: NDArray[Any]) -> Prediction:
        """What the model says of one image, upright: uint8 RGB (height, width, 3), or with the channels and bits that
        it was trained on; (height, width) is gray.

        Raises:
            ImageError: the array has another type or shape.
        """
        pixels = check_format(pixels, self.parts.task.pixel_format, "the image")
        return image_predictor(self.parts.task).predict(self.ready, pixels)

    @property
    def ready(self) -> ReadyModel:
        """The model as predictors take it."""
        return ReadyModel(self.model, self.device, self.parts.recipe.train.precision, self.window)


def image_predictor(task: Task) -> Predictor:
    """What predicts images, or a RecipeError."""
    others = others_of(task)
    remedy = f"Name {others}" if others else "Give the task a predictor (docs/own_task.md)"
    return required(task.predictor, task, "Prediction of images", "penstock predict", remedy)


def _check_tta(tta: TestTimeAugmentation, task: Task, crop: tuple[int, int]) -> None:
    if not tta.scales or not all(scale > 0 for scale in tta.scales) or tta.shift < 0:
        raise RecipeError(
            "--scales, --shift",
            expected="at least one scale, above 0, and a shift of at least 0 pixels",
            found=f"{', '.join(map(str, tta.scales)) or 'no scale'} and {tta.shift}",
            remedy="Choose others",
        )
    asked = {
        Ability.SCALE_TTA: ("--scales", tta.scales != (1.0,)),
        Ability.TTA: ("--flip", tta.flip),
        Ability.SHIFT_TTA: ("--shift", tta.shift > 0),
    }
    wanted = {ability: option for ability, (option, is_wanted) in asked.items() if is_wanted}
    if wanted and Ability.TTA not in task.supports:
        raise refusal(task, Ability.TTA, _listed(list(wanted.values())))
    for ability, option in wanted.items():
        if ability not in task.supports:
            raise refusal(task, ability, option)
    if tta.shift >= min(crop):
        raise RecipeError(
            "--shift",
            expected=f"fewer pixels than the crop's {min(crop)}, as the border is mirrored",
            found=str(tta.shift),
            remedy="Use a smaller shift, such as 1",
        )


def _listed(options: list[str]) -> str:
    """Options as a sentence has them: `--scales, --flip and --shift`."""
    *first, last = options
    return f"{', '.join(first)} and {last}" if first else last


def load_model(path: Path, checkpoint: str = "", device: str = "auto", parts: Experiment | None = None) -> TrainedModel:
    """A run's model. The run folder is all that it needs; to score it, give it the run opened with its dataset.

    Raises:
        PenstockError: the folder is no run, or its checkpoint is missing or damaged.
    """
    folder = RunFolder.open(path)
    if folder.is_edited:
        _LOGGER.warning("note: %s was edited since Penstock wrote it, and is used as it is now", path / "recipe.toml")
    parts = parts or described_run(path)
    loaded = load_checkpoint(folder, checkpoint)
    model = parts.model(blank=True)
    load_weights(model, weights(loaded), str(path))
    where = devices.choose(device, ranking.from_environment().local)
    return TrainedModel(parts, devices.place(model, where).eval(), where, loaded.step)

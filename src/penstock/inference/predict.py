"""Predictions for images of any size, in memory or as files."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.datasets.listing import files as list_files
from penstock.datasets.listing import is_packed
from penstock.errors import ImageError, RecipeError
from penstock.images import dicom
from penstock.images.volumes import is_volume
from penstock.inference.model import image_predictor
from penstock.inference.writing import Writer
from penstock.progress import counted, silent
from penstock.runs import RunFolder
from penstock.settings.predicting import SHOWN
from penstock.tasks import Ability, Style, refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from penstock.inference.inputs import InputImage
    from penstock.inference.model import TrainedModel
    from penstock.tasks import Task


@dataclass(frozen=True)
class Predicted:
    """What became of some images.

    Attributes:
        done: how many were predicted.
        skipped: a sentence for every one that could not be read.
        explanation: what the files are.
    """

    done: int
    skipped: tuple[str, ...]
    explanation: str


def are_volumes(paths: Sequence[Path], *, learnt: bool = False) -> bool:
    """Whether there is a NIfTI volume among some paths, or in folders among them."""
    found = [file for path in paths for file in (list_files(path) if path.is_dir() else [path])]
    is_slice = learnt and any(file.suffix.lower() == dicom.SUFFIX for file in found)
    return is_slice or any(is_volume(file) for file in found)


def check_style(task: Task, style: Style, *, original: bool, volumes: bool = False) -> None:
    """Options that a task's predictions do not know are refused.

    Raises:
        RecipeError: one is asked for.
    """
    plain = Style()
    asked = (
        (Ability.ORIGINAL_IDS, "--ids", original, True),
        (Ability.PALETTE, "--palette", style.palette != plain.palette, not volumes),
        (Ability.COLOR_MASKS, "--color", style.color, not volumes),
        (Ability.SCORE, "--score", style.score != SHOWN, not volumes),
    )
    for ability, option, is_asked, is_drawn in asked:
        if is_asked and not is_drawn:
            raise refusal("NIfTI volumes", ability, option)
        if is_asked and ability not in task.supports:
            raise refusal(task, ability, option)


def check_output(output: Path, paths: Sequence[Path]) -> None:
    """Whether predictions may lie in a folder: their images would be taken for images to predict there, or for records.

    Raises:
        RecipeError: it is one of those, or a run, or a packed dataset.
    """
    where = output.resolve()
    is_theirs = any(path.is_dir() and path.resolve() == where for path in paths)
    for is_there, kind in (
        (is_packed(output), "a packed dataset"),
        (RunFolder.is_run(output), "a run"),
        (is_theirs, "the folder of the images"),
    ):
        if is_there:
            raise RecipeError(
                f"-o {output}",
                expected="a folder for predictions",
                found=kind,
                remedy="Choose another folder, such as -o predictions",
            )


def check_images(trained: TrainedModel) -> None:
    """Whether a run predicts images.

    Raises:
        RecipeError: it learnt volumes, or slices of them.
    """
    task, many = trained.parts.task, trained.parts.dataset.description.modalities
    image_predictor(task)  # or a refusal
    if many > 1 or (many and not task.pixel_format.is_rgb):
        raise RecipeError(
            "penstock predict",
            expected=f"NIfTI volumes, as the run learnt slices of {counted(many, 'modality')}",
            found="images",
            remedy="Name volumes",
        )


def predict_images(
    trained: TrainedModel,
    images: Sequence[InputImage],
    output: Path,
    style: Style = Style(),  # noqa: B008 - frozen
    progress: Callable[[int, int], None] = silent,
) -> Predicted:
    """Write the predictions for some images into a folder.

    Raises:
        RecipeError: the run does not predict images.
        DatasetError: a file would take the place of another one.
    """
    check_images(trained)
    writer, skipped = Writer(trained.parts.task, output, style), []
    writer.claim(images)
    with contextlib.closing(writer):
        for done, image in enumerate(images, 1):
            try:
                pixels = image.read(trained.parts.task.pixel_format)
            except (ImageError, OSError) as error:
                skipped.append(str(error))
            else:
                writer.add(image, trained.predict(pixels))
            progress(done, len(images))
    return Predicted(len(images) - len(skipped), tuple(skipped), writer.explain())

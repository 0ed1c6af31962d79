"""Predictions for images of any size, in memory or as files."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path

from penstock.datasets.listing import is_packed
from penstock.errors import ImageError, RecipeError, is_out_of_memory
from penstock.inference.inputs import InputImage
from penstock.inference.model import TrainedModel, image_predictor
from penstock.inference.other_inputs import Written
from penstock.inference.writing import Writer
from penstock.progress import counted, silent
from penstock.runs import RunFolder
from penstock.settings.predicting import SHOWN
from penstock.tasks import Ability, Style, Task, refusal


def check_style(task: Task, style: Style, *, original: bool, others: str = "") -> None:
    """Refuse options that a task's predictions do not support. Nothing is drawn for `others`, the name of other inputs.

    Raises:
        RecipeError: such an option is given.
    """
    plain = Style()
    asked = (
        (Ability.ORIGINAL_IDS, "--ids", original, True),
        (Ability.PALETTE, "--palette", style.palette != plain.palette, not others),
        (Ability.COLOR_MASKS, "--color", style.color, not others),
        (Ability.SCORE, "--score", style.score != SHOWN, not others),
    )
    for ability, option, is_asked, is_drawn in asked:
        if is_asked and not is_drawn:
            raise refusal(others, ability, option)
        if is_asked and ability not in task.supports:
            raise refusal(task, ability, option)


def check_output(output: Path, paths: Sequence[Path]) -> None:
    """Refuse an output folder in which predictions would later be taken for images to predict, or for records.

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


def _too_large(image: InputImage) -> str:
    return (
        f"{image.where}: expected an image that is predicted in the memory of this machine, found a larger one. Use "
        "--sliding-window 512, or make the image smaller."
    )


def predict_images(
    trained: TrainedModel,
    images: Sequence[InputImage],
    output: Path,
    style: Style = Style(),  # noqa: B008 - frozen
    progress: Callable[[int, int], None] = silent,
) -> Written:
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
                prediction = trained.predict(image.read(trained.parts.task.pixel_format))
            except (ImageError, OSError) as error:
                skipped.append(str(error))
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                skipped.append(_too_large(image))
            else:
                writer.add(image, prediction)
            progress(done, len(images))
    done = len(images) - len(skipped)
    notes = (writer.explain(),) if done else ()
    return Written(done, len(images), problems=tuple(skipped), notes=notes)

"""predict."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter, validators

from penstock.cli.runs import Checkpoint, Device, Flip, Overlap, Run, Scales, Shift, Side, Trust, chosen_window
from penstock.errors import RecipeError
from penstock.progress import Progress, counted
from penstock.runs import RunFolder
from penstock.settings.predicting import OVERLAP, SHOWN

if TYPE_CHECKING:
    from penstock.inference import Trained
    from penstock.tasks import Style

Paths = Annotated[
    list[str],
    Parameter(
        help="Images, their addresses (https://...), folders of images, text files that list images (.txt), videos, "
        "cameras (camera:0 for an image, camera:0/300 for 300), NIfTI volumes and folders of DICOM slices, or - for an "
        "image from standard input. Folders of masks next to folders of images are skipped.",
    ),
]
Score = Annotated[
    float,
    Parameter(validator=validators.Number(gte=0, lt=1), help="Score above which boxes are drawn."),
]


def predict(
    run: Run, paths: Paths, /, *,
    output: Annotated[Path, Parameter(name=["--output", "-o"], help="Folder to write to.")],
    checkpoint: Checkpoint = "", device: Device = "auto",
    sliding_window: Side = None, overlap: Overlap = OVERLAP,
    scales: Scales = (1.0,), flip: Flip = False, shift: Shift = 0,
    labels: Annotated[Path | None, Parameter(help="Folder of true labels of NIfTI volumes, to score against.")] = None,
    ids: Annotated[
        Literal["classes", "original"], Parameter(help="Ids to write: class ids, or the original ids of the raw masks.")
    ] = "classes",
    palette: Annotated[
        Literal["auto", "distinct", "voc", "cityscapes", "ade20k"],
        Parameter(help="Colours of the classes. 'auto': those of the data's own legend, or distinct ones."),
    ] = "auto",
    color: Annotated[bool, Parameter(negative=(), help="Write NAME-color.png too: the mask in colour.")] = False,
    score: Score = SHOWN, trust: Trust = False,
) -> int:  # fmt: skip
    """Predict masks, alpha mattes, classes or boxes for images of any size, or labels for NIfTI volumes.

    Masks and mattes: NAME.png (class ids, or alpha) and NAME-overlay.png for each image; classes: predictions.csv;
    boxes and instances: predictions.csv, predictions.json (COCO) and NAME-boxes.png or NAME-instances.png; volumes:
    CASE.nii.gz in their own geometry, and CASE-slices.png. Prints the names of images that cannot be read, and then
    exits with 1.
    """
    RunFolder.open(run)
    from penstock.assembly import trust as trust_folder
    from penstock.inference import load_model
    from penstock.inference.inputs import parsed
    from penstock.inference.predict import are_volumes, check_output, check_style
    from penstock.models import TestTimeAugmentation
    from penstock.tasks import Style

    if trust:
        trust_folder(run)
    trained = load_model(run, checkpoint, device).with_tta(TestTimeAugmentation(scales, flip, shift))
    trained = trained.with_window(chosen_window(trained, sliding_window, overlap))
    original = trained.parts.dataset.description.original if ids == "original" else ()
    places = parsed(paths)
    local = [place for place in places if isinstance(place, Path)]
    check_output(output, local)
    learnt = bool(trained.parts.dataset.description.modalities)
    style, volumes = Style(original, palette, color, score), are_volumes(local, learnt=learnt)
    check_style(trained.parts.task, style, original=ids == "original", volumes=volumes)
    if volumes:
        return _volumes(trained, local, output, labels, style)
    if labels:
        raise RecipeError(
            "--labels", expected="NIfTI volumes to score", found="images", remedy="Use penstock evaluate for a split"
        )
    return _images(trained, places, output, style)


def _images(trained: Trained, places: list[Path | str], output: Path, style: Style) -> int:
    from penstock.inference import predict_images
    from penstock.inference.inputs import find, left_out, other_depth

    images = find(places)
    if note := other_depth(images, trained.parts.task.pixel_format):
        print(note)
    with Progress("predict", "images") as progress:
        found = predict_images(trained, images, output, style, progress)
    for sentence in found.skipped:
        print(sentence)
    print(f"predicted {found.done} of {counted(len(images), 'image')} into {output}")
    if others := left_out(places):
        print(others)
    if found.done:
        print(found.explanation)
    return 1 if found.skipped else 0


def _volumes(trained: Trained, paths: list[Path], output: Path, labels: Path | None, style: Style) -> int:
    from penstock.inference import predict_volumes

    with Progress("predict", "volumes") as progress:
        found = predict_volumes(trained, paths, output, labels, style, progress)
    for sentence in (*found.skipped, *found.wrong):
        print(sentence)
    print(f"predicted {found.done} of {counted(found.cases, 'volume')} into {output}, each in its own geometry")
    if found.images:
        print(f"left out, as they are no volumes: {counted(found.images, 'image')}")
    if found.unlabelled:
        print(f"no labels in {labels} for {found.unlabelled} of them")
    for line in found.table:
        print(line)
    return 1 if found.skipped or found.wrong else 0

"""predict."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter, validators

import penstock as ps
from penstock.cli.options import Trust
from penstock.cli.runs import Checkpoint, Device, Flip, Overlap, Run, Scales, Shift, Side
from penstock.progress import Progress, counted

Paths = Annotated[
    list[str],
    Parameter(
        help="Images, their addresses (https://...), folders of images, text files that list images (.txt), videos, "
        "cameras (camera:0 for an image, camera:0/300 for 300), NIfTI volumes and folders of DICOM slices, or - for an "
        "image from standard input. Folders of masks next to folders of images are skipped.",
    ),
]
Score = Annotated[
    float | None,
    Parameter(validator=validators.Number(gte=0, lt=1), help="Score above which boxes are drawn. By default 0.3."),
]


def predict(
    run: Run, paths: Paths, /, *,
    output: Annotated[Path, Parameter(name=["--output", "-o"], help="Folder to write to.")],
    checkpoint: Checkpoint = "", device: Device = "auto",
    sliding_window: Side = None, overlap: Overlap = None,
    scales: Scales = (1.0,), flip: Flip = False, shift: Shift = 0,
    labels: Annotated[Path | None, Parameter(help="Folder of true labels of NIfTI volumes, to score against.")] = None,
    ids: Annotated[
        Literal["classes", "original"], Parameter(help="Ids to write: class ids, or the original ids of the raw masks.")
    ] = "classes",
    palette: Annotated[
        Literal["auto", "distinct", "voc", "cityscapes", "ade20k"],
        Parameter(help="Colours of the classes. 'auto': those of the data's own legend, or distinct ones."),
    ] = "auto",
    color: Annotated[bool, Parameter(help="Write NAME-color.png too: the mask in colour.")] = False,
    score: Score = None, trust: Trust = False,
) -> int:  # fmt: skip
    """Predict masks, alpha mattes, classes or boxes for images of any size, or labels for NIfTI volumes.

    Masks and mattes: NAME.png (class ids, or alpha) and NAME-overlay.png for each image; classes: predictions.csv;
    boxes and instances: predictions.csv, predictions.json (COCO) and NAME-boxes.png or NAME-instances.png; volumes:
    CASE.nii.gz in their own geometry, and CASE-slices.png. Prints the names of images that cannot be read, and then
    exits with 1.
    """
    model = ps.load(run, checkpoint=checkpoint, device=device, trust=trust)
    model = model.with_tta(scales=scales, flip=flip, shift=shift).with_sliding_window(sliding_window, overlap=overlap)
    with Progress("predict", f"{model.unit(*paths)}s") as progress:
        found = model.write(
            output, *paths, labels=labels or "", ids=ids, palette=palette, color=color, score=score, progress=progress
        )
    for sentence in found.problems:
        print(sentence)
    print(f"predicted {found.done} of {counted(found.total, found.unit)} into {output}{found.manner}")
    for line in (*found.notes, *found.table):
        print(line)
    return 1 if found.problems else 0

"""export."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

import penstock as ps
from penstock.cli.options import Trust
from penstock.cli.runs import Checkpoint, Flip, Run, Scales, Shift
from penstock.progress import counted

Size = Annotated[
    tuple[int, int] | None,
    Parameter(
        help="Height and width of the input. By default: for classifiers the crop, for masks a size that holds every "
        "image of the dataset. Detectors take images of any size."
    ),
]
_CLOSE = 0.99


def export(
    run: Run, /, *,
    output: Annotated[
        Path,
        Parameter(name=["--output", "-o"], help="FILE.onnx, FILE.pt2 (torch.export) or FILE.mlpackage (Core ML)."),
    ],
    size: Size = None,
    dynamic: Annotated[
        bool, Parameter(help="Let height and width of images for masks be any multiples of 32.")
    ] = False,
    any_size: Annotated[
        bool,
        Parameter(
            help="For masks and classes: take one whole image of any size. Padding or resizing is inside. ONNX only.",
        ),
    ] = False,
    checkpoint: Checkpoint = "", scales: Scales = (1.0,), flip: Flip = False, shift: Shift = 0, trust: Trust = False,
) -> int:  # fmt: skip
    """Write a run's model as one file for other programs.

    The file takes images as they are decoded: uint8 RGB, or the channels and bits of the
    dataset. For masks, mattes, classes and patches of volumes it gives `classes` and
    `probabilities`; for objects in an image of any size, `boxes`, `scores`, `labels` and, for instances, `masks`. Class
    names, and what of an image to give it, are in its metadata. ONNX and .pt2 files are read again and compared with
    the model; exits with 1 if they differ.
    """
    found = ps.export(
        run, output, size=size, dynamic=dynamic, any_size=any_size, checkpoint=checkpoint, scales=scales, flip=flip,
        shift=shift, trust=trust,
    )  # fmt: skip
    print(f"exported step {found.step:,} to {found.path} ({_size(found.path) >> 10:,} KiB)")
    kind = ", RGB" if found.shape[-1] == "3" else ""
    print(f"takes: image, {found.dtype} ({', '.join(found.shape)}){kind}; gives: {', '.join(found.outputs)}")
    print(f"give it {found.input_note}")
    if found.comparison is None:
        print("not compared with the PyTorch model, because Core ML runs on macOS only")
        return 0
    print(f"compared with the PyTorch model on random images: {_compared(found)}")
    return 0 if found.comparison.agreement >= _CLOSE else 1


def _size(path: Path) -> int:
    """Bytes of a file, or of all files in a folder."""
    files = [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]
    return sum(file.stat().st_size for file in files)


def _compared(exported: ps.Exported) -> str:
    found = exported.comparison
    assert found is not None  # noqa: S101 - asked for where there is one
    if not found.count:
        return "both find no objects in them"
    what = "scores" if found.what == "object" else "probabilities"
    return (
        f"{100 * found.agreement:.2f} % of {counted(found.count, found.what)} are equal, {what} differ by at most "
        f"{found.largest:.1e}"
    )

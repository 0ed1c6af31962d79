"""export."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from penstock.cli.runs import Checkpoint, Flip, Run, Scales, Shift
from penstock.export import export as export_model
from penstock.models import Views
from penstock.recipe import load_model
from penstock.tasks import Segmentation

if TYPE_CHECKING:
    from penstock.recipe import Trained

Size = Annotated[
    tuple[int, int] | None,
    Parameter(help="Height and width of pictures; default: the crop of classes, else what holds all of the dataset's."),
]
_CLOSE = 0.99
_MOST = 1 << 26  # probabilities of a picture: a quarter of a gigabyte


def export(
    run: Run, /, *,
    output: Annotated[Path, Parameter(name=["--output", "-o"], help="FILE.onnx or FILE.pt2 (torch.export).")],
    size: Size = None,
    checkpoint: Checkpoint = "", scales: Scales = (1.0,), flip: Flip = False, shift: Shift = 0,
) -> int:  # fmt: skip
    """Write a run's model as one file for other programs.

    For masks, mattes and classes. The file takes uint8 pictures (n, height, width, 3) in RGB and gives `classes` and
    `probabilities`; class names, and what of a picture to give it, are in its metadata. It is read again and compared
    with the model; exits with 1 where they differ.
    """
    trained = load_model(run, checkpoint, "cpu").looking(Views(scales, flip, shift))
    found = export_model(trained.parts.task, trained.model, output, size or _holding(trained))
    print(f"exported step {trained.step:,} to {found.path} ({found.path.stat().st_size >> 10:,} KiB)")
    kind = ", RGB" if found.channels == 3 else ""  # noqa: PLR2004 - colours
    shape = f"(n, {found.size[0]}, {found.size[1]}, {found.channels})"
    print(f"takes: image, uint8 {shape}{kind}; gives: classes, probabilities")
    print(f"give it {found.shown}")
    print(
        f"on random pictures {100 * found.agreement:.2f} % of its answers are the model's own; probabilities differ by "
        f"at most {found.largest:.1e}"
    )
    return 0 if found.agreement >= _CLOSE else 1


def _holding(trained: Trained) -> tuple[int, int] | None:
    """The size that holds every picture of the dataset, where whole pictures are answered, it is known, and the answers
    are not too large.
    """
    splits, task = trained.parts.dataset.description.splits.values(), trained.parts.task
    height, width = (max(getattr(split, side) for split in splits) for side in ("height", "width"))
    if not isinstance(task, Segmentation) or not height:
        return None
    canvas = task.for_pictures(height, width).canvas
    return canvas if canvas[0] * canvas[1] * len(task.classes) <= _MOST else None

"""export."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from penstock.cli.runs import Checkpoint, Flip, Run, Scales, Shift, Trust
from penstock.inference import export as export_model
from penstock.inference import load_model
from penstock.models import TestTimeAugmentation
from penstock.runs import code

Size = Annotated[
    tuple[int, int] | None,
    Parameter(
        help="Height and width of the input. By default: for classifiers the crop, for other models a size "
        "that holds every image of the dataset."
    ),
]
_CLOSE = 0.99


def export(
    run: Run, /, *,
    output: Annotated[Path, Parameter(name=["--output", "-o"], help="FILE.onnx or FILE.pt2 (torch.export).")],
    size: Size = None,
    checkpoint: Checkpoint = "", scales: Scales = (1.0,), flip: Flip = False, shift: Shift = 0, trust: Trust = False,
) -> int:  # fmt: skip
    """Write a run's model as one file for other programs.

    For masks, mattes and classes. The file takes uint8 images (n, height, width, 3) in RGB and gives `classes` and
    `probabilities`; class names, and what of an image to give it, are in its metadata. It is read again and compared
    with the model; exits with 1 where they differ.
    """
    if trust:
        code.trust_folder(run)
    trained = load_model(run, checkpoint, "cpu").with_tta(TestTimeAugmentation(scales, flip, shift))
    splits = trained.parts.dataset.description.splits.values()
    size = size or trained.parts.task.export_size(splits) or trained.parts.recipe.augment.crop
    found = export_model(trained.parts.task, trained.model, output, size)
    print(f"exported step {trained.step:,} to {found.path} ({found.path.stat().st_size >> 10:,} KiB)")
    kind = ", RGB" if found.channels == 3 else ""  # noqa: PLR2004 - colours
    shape = f"(n, {found.size[0]}, {found.size[1]}, {found.channels})"
    print(f"takes: image, uint8 {shape}{kind}; gives: classes, probabilities")
    print(f"give it {found.input_note}")
    print(
        f"compared with the PyTorch model on random images: {100 * found.agreement:.2f} % of the predictions are "
        f"equal, probabilities differ by at most {found.largest:.1e}"
    )
    return 0 if found.agreement >= _CLOSE else 1

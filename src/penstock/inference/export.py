"""A trained model as one file for other programs: ONNX, or PyTorch's own exported program (.pt2).

What goes in are images as they are decoded, what comes out are classes and probabilities: normalising is inside, so
that nobody has to know what the backbone expects.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import nn

from penstock import files
from penstock.errors import RecipeError, is_out_of_memory, not_installed, reason_of
from penstock.tasks import Ability, refusal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.images.geometry import Size
    from penstock.tasks import Task

SUFFIXES: Final = (".onnx", ".pt2")
_OUTPUTS: Final = ["classes", "probabilities"]
_LOOKED_AT: Final = 2  # images that the export is compared on


class Predictor(nn.Module):
    """Images to predictions.

    From uint8 (n, height, width, 3) RGB: of masks `classes`, int32 (n, height, width), and `probabilities`, float32
    (n, classes, height, width); of classes `classes`, int32 (n,), and `probabilities`, float32 (n, classes).
    """

    def __init__(self, task: Task, model: nn.Module) -> None:
        super().__init__()
        self.task, self.model = task, model

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Classes and probabilities."""
        probabilities = self.model(self.task.inputs({"image": image})).float().softmax(dim=1)
        return probabilities.argmax(dim=1).to(torch.int32), probabilities


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written.

    Attributes:
        path: the file.
        size: (height, width) of the images that it takes, any number of them.
        channels: theirs.
        input_note: what of an image to give it, as it was trained; in the file's metadata too.
        agreement: the fraction of predictions on random images that are the model's own.
        largest: the largest difference of a probability.
    """

    path: Path
    size: Size
    channels: int
    input_note: str
    agreement: float
    largest: float


def export(task: Task, model: nn.Module, path: Path, size: Size) -> Exported:
    """Write a model, read the file again, and compare both on random images.

    Args:
        task: what it was trained for: masks or classes.
        model: in evaluation mode, on the CPU.
        path: FILE.onnx (needs penstock[export]) or FILE.pt2.
        size: (height, width) of the images. Sides of masks must divide by 32.

    Raises:
        RecipeError: the task, the ending or the size is not one that can be exported, or an extra is missing.
    """
    if Ability.EXPORT not in task.supports:
        raise refusal(task, Ability.EXPORT, "penstock export", "Use penstock predict, or load the run from Python")
    _check(task, path, size)
    predictor = Predictor(task, model).eval()
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (_LOOKED_AT, *size, task.channels), dtype=torch.uint8, generator=generator)
    _try(predictor, images, size)
    with _quiet():
        program = torch.export.export(predictor, (images,), dynamic_shapes=({0: torch.export.Dim("n")},))
    input_note = task.export_input(size)
    about = {"classes": list(task.classes), "height": size[0], "width": size[1], "input": input_note}
    write, read = (_write_onnx, _read_onnx) if path.suffix == ".onnx" else (_write_pt2, _read_pt2)
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / path.name
        write(program, made, about)
        found, probabilities = read(made, images)
        files.replace_whole(path, made.read_bytes())
    with torch.inference_mode():
        expected, own = predictor(images)
    agreement = (found == expected).float().mean().item()
    return Exported(path, size, task.channels, input_note, agreement, (probabilities - own).abs().max().item())


def _try(predictor: nn.Module, images: torch.Tensor, size: Size) -> None:
    """Every network has its own way to refuse a size."""
    try:
        with torch.inference_mode():
            predictor(images[:1])
    except Exception as error:
        if is_out_of_memory(error):
            raise
        raise RecipeError(
            "--size",
            expected="a size of images that the network takes",
            found=f"{size[0]} x {size[1]} ({reason_of(error)})",
            remedy="Choose another, for example that of training's crop",
        ) from error


def _check(task: Task, path: Path, size: Size) -> None:
    if path.suffix not in SUFFIXES:
        raise RecipeError(
            str(path), expected=f"a file that ends in {' or '.join(SUFFIXES)}", found=path.suffix or "no ending",
            remedy="Use .onnx for other programs, .pt2 for PyTorch",
        )  # fmt: skip
    if min(size) < 1:
        raise RecipeError(
            "--size", expected="sides of at least a pixel", found=f"{size[0]} x {size[1]}", remedy="Use larger sides"
        )
    task.check_export_size(size)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Exporters warn of their own coming changes, which no user of theirs can do anything about."""
    with warnings.catch_warnings(action="ignore"):
        yield


def _write_pt2(program: torch.export.ExportedProgram, path: Path, about: dict[str, Any]) -> None:
    with _quiet():
        torch.export.save(program, path, extra_files={"penstock.json": json.dumps(about)})


def _read_pt2(path: Path, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    with _quiet(), torch.inference_mode():
        classes, probabilities = torch.export.load(path).module()(images)
    return classes, probabilities


def _write_onnx(program: torch.export.ExportedProgram, path: Path, about: dict[str, Any]) -> None:
    _extra()
    with _quiet():
        made = torch.onnx.export(
            program, (), input_names=["image"], output_names=_OUTPUTS, dynamo=True, verbose=False, external_data=False
        )
    assert made is not None  # noqa: S101 - dynamo=True always gives a program
    made.model.metadata_props.update({name: json.dumps(value) for name, value in about.items()})
    made.save(path)


def _read_onnx(path: Path, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    session = _extra().InferenceSession(str(path), providers=["CPUExecutionProvider"])
    classes, probabilities = session.run(_OUTPUTS, {"image": images.numpy()})
    return torch.from_numpy(classes), torch.from_numpy(probabilities)


def _extra() -> Any:
    try:
        import onnxruntime  # noqa: PLC0415 - an extra
        import onnxscript  # noqa: F401, PLC0415 - torch.onnx needs it
    except ImportError:
        remedy = "Install penstock[export], or export to a .pt2 file"
        raise not_installed("Exporting to ONNX", "onnx, onnxscript and onnxruntime", remedy) from None
    return onnxruntime

"""Core ML models (.mlpackage) for Apple's devices, through coremltools, whose converter runs everywhere.

Core ML itself runs on macOS alone: what is written is not compared with the model.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import shutil
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import torch
from torch import nn

from penstock.errors import RecipeError, is_out_of_memory, not_installed, reason_of
from penstock.tasks import Graph

_COLORS: Final = 3
_BYTE: Final = 8


class _OfPlanes(nn.Module):
    """What a graph gives of an image as Core ML has it: float32 (1, 3, height, width), from 0 to 255."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.module = graph.module

    def forward(self, image: torch.Tensor) -> Any:
        """As the graph's module."""
        return self.module(image.permute(0, 2, 3, 1))


class CoreML:
    """The format, for `penstock export`."""

    def check(self, graph: Graph, path: Path, *, dynamic: bool) -> None:
        """Whether a graph can become a Core ML model.

        Raises:
            RecipeError: it takes no RGB images of one size and 8 bits.
        """
        if dynamic:
            raise RecipeError(
                "--dynamic", expected="a file that ends in .onnx or .pt2", found=path.name, remedy="Remove --dynamic"
            )
        if graph.any_size or len(graph.shape) != _COLORS or graph.shape[2] != _COLORS or graph.bits != _BYTE:
            raise RecipeError(
                str(path),
                remedy="Export to ONNX",
                message=f"{path}: a Core ML model takes RGB images of one size and 8 bits, and this one does not.",
            )

    def write(self, graph: Graph, path: Path, about: Mapping[str, Any]) -> None:
        """Write a Core ML model. It takes an RGB image of the graph's size and computes in float32.

        Raises:
            RecipeError: coremltools is not installed, or cannot convert the network.
        """
        tools = _extra()
        height, width, _ = graph.shape
        image = torch.zeros((1, _COLORS, height, width))
        model = _OfPlanes(graph).eval()
        try:
            with _quiet(), torch.inference_mode():
                made = tools.convert(
                    torch.jit.trace(model, image),  # type: ignore[no-untyped-call]
                    inputs=[tools.ImageType(name="image", shape=image.shape, color_layout=tools.colorlayout.RGB)],
                    outputs=[tools.TensorType(name=name) for name in graph.outputs],
                    convert_to="mlprogram",
                    compute_precision=tools.precision.FLOAT32,
                    minimum_deployment_target=tools.target.iOS16,
                    skip_model_load=True,
                )
        except Exception as error:
            # Every operator of the converter has its own way to refuse.
            if is_out_of_memory(error):
                raise
            raise RecipeError(
                str(path),
                expected="a network that coremltools can convert",
                found=f"one that it cannot ({reason_of(error)[:200]})",
                remedy="Export to ONNX",
            ) from error
        made.user_defined_metadata.update({name: json.dumps(value) for name, value in about.items()})
        with tempfile.TemporaryDirectory(dir=path.absolute().parent) as folder:
            made.save(str(Path(folder) / path.name))
            if path.exists():
                shutil.rmtree(path)
            (Path(folder) / path.name).rename(path)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without bars of its own, and without warnings of each release of PyTorch that it was not tested with."""
    logger = logging.getLogger("coremltools")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(action="ignore"), contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        logger.setLevel(level)


def _extra() -> Any:
    try:
        with _quiet():
            import coremltools  # noqa: PLC0415 - an extra
    except ImportError:
        remedy = "Install penstock[coreml], or export to ONNX"
        raise not_installed("Exporting to Core ML", "coremltools", remedy) from None
    return coremltools

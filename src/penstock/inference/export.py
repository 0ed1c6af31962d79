"""A trained model as one file for other programs: ONNX, PyTorch's own exported program (.pt2), or Core ML (.mlpackage).

What goes in are images as they are decoded, what comes out are predictions: normalising is inside, so that nobody has
to know what the backbone expects.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Protocol, cast

import torch

from penstock import outputs
from penstock.errors import RecipeError, is_out_of_memory, not_installed, reason_of
from penstock.extending import brought, loaded
from penstock.images.geometry import Size
from penstock.inference import comparing
from penstock.inference.comparing import Arrays, Comparison
from penstock.inference.model import LARGEST_SIDE, TrainedModel
from penstock.tasks import Exporter, Graph, Task
from penstock.tasks.abilities import required

_SUFFIXES: Final = (".onnx", ".pt2")
_LARGEST: Final = 1 << 14  # side of an image in pixels
_COMMAND: Final = "penstock export"
_DYNAMIC: Final = 64  # pixels, as the exporter takes a side of a single multiple of 32 for a constant
_OPSET: Final = 17  # of graphs that are traced


class Format(Protocol):
    """A format that an extension brings, by the ending of the file in its table `EXPORTS`."""

    def check(self, graph: Graph, path: Path, *, dynamic: bool) -> None:
        """Raise a RecipeError unless a graph can be written."""

    def write(self, graph: Graph, path: Path, about: Mapping[str, Any]) -> None:
        """Write a graph, with `about` in the file's metadata."""


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written.

    Attributes:
        path: the file.
        dtype: of the images that it takes: "uint8", "uint16", or for objects in images of 16 bits "int32".
        shape: of what it takes, with words for the axes that are free: `("n", "64", "96", "3")`.
        outputs: the names of what it gives.
        input_note: what of an image to give it, as it was trained; in the file's metadata too.
        step: of the weights.
        comparison: how its predictions on random images differ from the model's own; None of formats that extensions
            bring, such as Core ML, which runs on macOS alone.
    """

    path: Path
    dtype: str
    shape: tuple[str, ...]
    outputs: tuple[str, ...]
    input_note: str
    comparison: Comparison | None
    step: int = 0


def export_run(
    trained: TrainedModel, path: Path, size: Size | None = None, *, dynamic: bool = False, any_size: bool = False
) -> Exported:
    """Write a run's model, as `export` does.

    Args:
        trained: the run's model, on the CPU.
        path: FILE.onnx, FILE.pt2 or FILE.mlpackage.
        size: (height, width) of the images; by default what holds those of the dataset, or else training's crop.
        dynamic: whether height and width may differ from call to call.
        any_size: whether it takes one whole image of any size; padding, or resizing for classes, is inside.

    Raises:
        RecipeError: as `export`; or a size is given where images may be of any size.
    """
    task = trained.parts.task
    needless = {"--size": bool(size), "--dynamic": dynamic, "--any-size": any_size}
    exporter = exporter_of(task)
    if exporter.any_size and (given := [name for name, is_given in needless.items() if is_given]):
        options = " and ".join(given)
        raise RecipeError(
            options,
            remedy=f"Remove {options}",
            message=f"{options} has no effect: the exported file takes images of any size.",
        )
    splits = trained.parts.dataset.description.splits.values()
    if size is None:
        size = exporter.size(splits) or trained.parts.recipe.augment.crop
        size = (max(size[0], _DYNAMIC), max(size[1], _DYNAMIC)) if dynamic else size
    found = export(task, trained.model, path, size, dynamic=dynamic, any_size=any_size)
    return replace(found, step=trained.step)


def export(
    task: Task, model: torch.nn.Module, path: Path, size: Size, *, dynamic: bool = False, any_size: bool = False
) -> Exported:
    """Write a model, read the file again, and compare both on random images.

    Args:
        task: what it was trained for.
        model: in evaluation mode, on the CPU.
        path: FILE.onnx (needs penstock[export]), FILE.pt2, or FILE.mlpackage (needs penstock[coreml]).
        size: (height, width) of the images. Sides of masks must divide by 32.
        dynamic: whether height and width of masks may be any multiples of 32, and not only `size`.
        any_size: whether it takes one whole image of any size; padding, or resizing for classes, is inside.

    Raises:
        OutputError: another file is there, or one that was changed since it was exported.
        RecipeError: the task, the ending or the size is not one that can be exported, or an extra is missing.
    """
    exporter = exporter_of(task)
    _check(exporter, path, size)
    outputs.check(path, _COMMAND, (path.suffix,))
    graph = _whole(task, model, size, dynamic=dynamic) if any_size else exporter.graph(model, size)
    _check_graph(task, graph, path, dynamic=dynamic)
    images = comparing.random_images(graph, size, dynamic=dynamic)
    _try(graph, images[0], size)
    input_note = exporter.input_note(None if dynamic else size)
    input_note = "one whole image at a time, of any size" if graph.any_size else input_note
    about: dict[str, Any] = {"classes": list(task.classes), "input": input_note}
    if not (dynamic or graph.any_size):
        about |= {"height": size[0], "width": size[1]}
    if other := _brought(path):
        other.write(graph, path, about)
        outputs.remember(path, _COMMAND)
        shape = tuple(map(str, graph.shape))
        return Exported(path, graph.dtype, shape, graph.outputs, input_note, comparison=None)
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / path.name
        _write(graph, images[0], made, about, dynamic=dynamic)
        read = _read_onnx if path.suffix == ".onnx" else _read_pt2
        found = [read(made, each, graph.outputs) for each in images]
        outputs.write(path, made.read_bytes(), _COMMAND)
    with torch.inference_mode():
        expected = [graph.module(each) for each in images]
    comparison = comparing.compared(graph.outputs, found, expected)
    return Exported(path, graph.dtype, _graph_words(graph, dynamic=dynamic), graph.outputs, input_note, comparison)


def exporter_of(task: Task) -> Exporter:
    """What makes a task's graphs, or a RecipeError."""
    remedy = "Use penstock predict, or load the run from Python"
    return required(task.exporter, task, "Export", "penstock export", remedy)


def _whole(task: Task, model: torch.nn.Module, size: Size, *, dynamic: bool) -> Graph:
    graph = exporter_of(task).whole_graph(model, size)
    if graph is None or dynamic:
        raise RecipeError(
            "--any-size",
            expected="a model that predicts masks, or classes of resized images"
            if graph is None
            else "no --dynamic, which is for several images",
            found=task.kind.name if graph is None else "both",
            remedy="Remove --any-size" if graph is None else "Remove one of them",
        )
    return graph


def _graph_words(graph: Graph, *, dynamic: bool) -> tuple[str, ...]:
    """The shape of what a file takes."""
    shape = [str(side) for side in graph.shape]
    if dynamic or graph.any_size:
        shape[-3:-1] = ["height", "width"]
    return tuple(shape) if graph.any_size else ("n", *shape)


def _try(graph: Graph, images: torch.Tensor, size: Size) -> None:
    """Run the graph once; errors of the network other than a lack of memory become a RecipeError about the size."""
    try:
        with torch.inference_mode():
            graph.module(images if graph.any_size else images[:1])
    except Exception as error:
        if is_out_of_memory(error):
            raise
        raise RecipeError(
            "--size",
            expected="a size of images that the network takes",
            found=f"{size[0]} x {size[1]} ({reason_of(error)})",
            remedy="Choose another, for example that of training's crop",
        ) from error


def _check(exporter: Exporter, path: Path, size: Size) -> None:
    known = [*_SUFFIXES, *brought("EXPORTS")]
    if path.suffix not in known:
        raise RecipeError(
            str(path), expected=f"a file that ends in {', '.join(known[:-1])} or {known[-1]}",
            found=path.suffix or "no ending", remedy="Use .onnx for other programs, .pt2 for PyTorch",
        )  # fmt: skip
    if min(size) < 1 or max(size) > LARGEST_SIDE:
        raise RecipeError(
            "--size",
            expected=f"sides from 1 to {LARGEST_SIDE} pixels",
            found=f"{size[0]} x {size[1]}",
            remedy="Use others",
        )
    exporter.check_size(size)


def _check_graph(task: Task, graph: Graph, path: Path, *, dynamic: bool) -> None:
    if dynamic and graph.multiple and min(graph.shape[-3:-1]) < _DYNAMIC:
        raise RecipeError(
            "--size",
            expected=f"sides of at least {_DYNAMIC} pixels with --dynamic",
            found=" x ".join(map(str, graph.shape[-3:-1])),
            remedy=f"Use --size {_DYNAMIC} {_DYNAMIC} or larger; the file takes smaller images all the same",
        )
    if graph.any_size and path.suffix != ".onnx":
        raise RecipeError(
            str(path),
            expected="a file that ends in .onnx for images of any size",
            found=path.suffix,
            remedy="Use .onnx: other formats cannot hold graphs of any size",
        )
    if other := _brought(path):
        other.check(graph, path, dynamic=dynamic)
    if dynamic and not (graph.multiple or graph.any_size):
        raise RecipeError(
            "--dynamic",
            expected="a model that predicts masks or objects",
            found=task.kind.name,
            remedy="Remove --dynamic, and bring images to the size that is printed",
        )


def _brought(path: Path) -> Format | None:
    """The format of an extension that a file has by its ending."""
    place = brought("EXPORTS").get(path.suffix)
    return cast("Format", loaded(place)()) if place else None


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence warnings of exporters about coming changes in their own code, as users cannot act on them."""
    with warnings.catch_warnings(action="ignore"):
        yield


def _write(graph: Graph, images: torch.Tensor, path: Path, about: dict[str, Any], *, dynamic: bool) -> None:
    if graph.any_size:
        _write_traced(graph, images, path, about)
        return
    last = len(graph.shape)
    free = {0: "n", last - 2: "height", last - 1: "width"} if dynamic else {0: "n"}
    axes: dict[int, Any] = {0: torch.export.Dim("n")}
    for axis in sorted(free.keys() - axes.keys()):
        multiple = torch.export.Dim(f"axis{axis}", min=2, max=_LARGEST // graph.multiple)
        axes[axis] = graph.multiple * multiple
    with _quiet():
        program = torch.export.export(graph.module, (images,), dynamic_shapes=(axes,))
    if path.suffix == ".onnx":
        _write_onnx(program, path, graph.outputs, about, free)
    else:
        _write_pt2(program, path, about)


def _write_pt2(program: torch.export.ExportedProgram, path: Path, about: dict[str, Any]) -> None:
    with _quiet():
        torch.export.save(program, path, extra_files={"penstock.json": json.dumps(about)})


def _read_pt2(path: Path, images: torch.Tensor, names: tuple[str, ...]) -> Arrays:  # noqa: ARG001 - of its seam
    with _quiet(), torch.inference_mode():
        found: Arrays = torch.export.load(path).module()(images)
    return found


def _write_onnx(
    program: torch.export.ExportedProgram,
    path: Path,
    names: tuple[str, ...],
    about: dict[str, Any],
    free: Mapping[int, str],
) -> None:
    """`free`: the names of the axes that differ from call to call; the exporter's own are like s40."""
    _extra()
    with _quiet():
        made = torch.onnx.export(
            program,
            (),
            input_names=["image"],
            output_names=list(names),
            dynamo=True,
            verbose=False,
            external_data=False,
            dynamic_shapes=(dict(free),),
        )
    assert made is not None  # noqa: S101 - dynamo=True always gives a program
    made.model.metadata_props.update({name: json.dumps(value) for name, value in about.items()})
    made.save(path)


def _write_traced(graph: Graph, image: torch.Tensor, path: Path, about: dict[str, Any]) -> None:
    """How many objects there are is known only when the graph runs, which torch.export cannot express; tracing can."""
    _extra()
    import onnx  # noqa: PLC0415 - an extra

    free = {name: {i: axis for i, axis in enumerate(axes) if axis} for name, axes in graph.axes.items()}
    free |= {"image": {0: "height", 1: "width"}}
    try:
        with _quiet():
            torch.onnx.export(
                graph.module, (image,), path, dynamo=False, opset_version=_OPSET, input_names=["image"],
                output_names=list(graph.outputs), dynamic_axes=free,
            )  # fmt: skip
    except Exception as error:
        # Tracing and every operator of ONNX have their own ways to refuse.
        if is_out_of_memory(error):
            raise
        raise RecipeError(
            str(path),
            expected="a network that can be exported for images of any size",
            found=f"one that cannot ({reason_of(error)[:200]})",
            remedy="Export masks for one size, or with --dynamic for multiples of 32",
        ) from error
    made = onnx.load(path)
    onnx.helper.set_model_props(made, {name: json.dumps(value) for name, value in about.items()})
    onnx.save(made, path)


def _read_onnx(path: Path, images: torch.Tensor, names: tuple[str, ...]) -> Arrays:
    runtime = _extra()
    quiet = runtime.SessionOptions()
    quiet.log_severity_level = 3  # errors: the shapes of what a detector finds surprise it where there is nothing
    session = runtime.InferenceSession(str(path), quiet, providers=["CPUExecutionProvider"])
    return tuple(torch.from_numpy(each) for each in session.run(list(names), {"image": images.numpy()}))


def _extra() -> Any:
    try:
        import onnxruntime  # noqa: PLC0415 - an extra
        import onnxscript  # noqa: F401, PLC0415 - torch.onnx needs it
    except ImportError:
        remedy = "Install penstock[export], or export to a .pt2 file"
        raise not_installed("Exporting to ONNX", "onnx, onnxscript and onnxruntime", remedy) from None
    return onnxruntime

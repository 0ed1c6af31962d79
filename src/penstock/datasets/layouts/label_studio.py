"""Label Studio's exports in JSON: rectangles, polygons, ellipses, brushes and choices. Places are in per cent."""

from __future__ import annotations

import re
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

from penstock.datasets import listing
from penstock.datasets.layouts import annotated, jsons, shapes
from penstock.datasets.layouts.annotated import AnnotatedImage, Annotations
from penstock.datasets.layouts.brush import painted
from penstock.datasets.layouts.lookup import Images
from penstock.datasets.layouts.shapes import Bitmap, Shape
from penstock.errors import DatasetError
from penstock.kinds.items import named
from penstock.progress import counted

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from penstock.datasets.layout import Layout

_WHOLE: Final = (b'"annotations"', b'"result"', b'"data"')
_SHORT: Final = (b'"annotator"', b'"annotation_id"')  # the export JSON-MIN
_LABELS: Final = ("rectanglelabels", "polygonlabels", "ellipselabels", "brushlabels", "labels")
_UPLOADED: Final = re.compile(r"[0-9a-f]{8}-(.+)")  # what Label Studio puts before the name of an uploaded file
_PER_CENT: Final = 100


def recognise(folder: Path) -> Layout | None:
    """JSON files of annotated tasks in the folder; None where there are none."""
    paths = listing.plain(folder, "*.json")
    files = {path: tasks for path in paths if (tasks := _tasks(jsons.read_with(path, _WHOLE, _SHORT)))}
    if not files:
        return None
    names = ", ".join(named(path, folder) for path in files)
    found = Annotations("Label Studio", f"annotations of {counted(sum(map(len, files.values())), 'image')} in {names}")
    images = Images(folder)
    for path, tasks in files.items():
        for task in tasks:
            _add(found, folder, path, task, images)
    return found.layout(folder)


def _tasks(tree: Any) -> list[dict[str, Any]]:
    tasks = tree if isinstance(tree, list) else []
    return [task for task in tasks if isinstance(task, dict) and _image_of(task)]


def _image_of(task: dict[str, Any]) -> str:
    """What a task says of where its image is: the first of its data that names a file of an image."""
    data = task.get("data") if isinstance(task.get("data"), dict) else task
    texts = [value for value in (data or {}).values() if isinstance(value, str)]
    return next((text for text in texts if PurePosixPath(_path(text)).suffix.lower() in listing.IMAGES), "")


def _path(text: str) -> str:
    """The path in a URL: its `d` for files of local storage, else its own."""
    parts = urlsplit(text)
    return unquote(parse_qs(parts.query).get("d", [parts.path])[0])


def _find(text: str, images: Images) -> Path | None:
    """The file, under the name that Label Studio gave it or its own."""
    path = _path(text)
    name = PurePosixPath(path).name
    own = _UPLOADED.fullmatch(name)
    tried = [path.lstrip("/"), name, *([own[1]] if own else [])]
    return next(filter(None, map(images.find, tried)), None)


def _add(found: Annotations, folder: Path, path: Path, task: dict[str, Any], images: Images) -> None:
    name, wanted = named(path, folder), _image_of(task)
    image = _find(wanted, images)
    if image is None:
        found.problems.append(annotated.image_missing(name, _path(wanted), images.among(_path(wanted))))
        return
    results = _results(task)
    where = f"{name} (task {task.get('id', '?')})"
    drawn = [each for each in results if _label(each)]
    read = annotated.read_shapes(found, drawn, _shape, image=named(image, folder), where=where)
    size = next(((int(e["original_height"]), int(e["original_width"])) for e in drawn if "original_width" in e), (1, 1))
    own, relative = shapes.beside_painted(read, size)
    tags = tuple(tag for each in results for tag in _choices(each))
    split = annotated.split_of(image, folder, path)
    found.images.append(AnnotatedImage(split, image.stem, image, path, own, tags, relative=relative))


def _results(task: dict[str, Any]) -> list[dict[str, Any]]:
    """What the last annotation that was not cancelled says; in JSON-MIN it lies in the task itself."""
    if isinstance(task.get("annotations"), list):
        kept = [each for each in task["annotations"] if isinstance(each, dict) and not each.get("was_cancelled")]
        values = kept[-1].get("result") or [] if kept else []
        return [{**each, **(each.get("value") or {})} for each in values if isinstance(each, dict)]
    found: list[dict[str, Any]] = []
    for key, value in task.items():
        if isinstance(value, list):
            found += [each for each in value if isinstance(each, dict)]
        elif key == "choice" and isinstance(value, str):
            found.append({"choices": [value]})
    return found


def _choices(each: dict[str, Any]) -> list[str]:
    choices = each.get("choices") or []
    return [str(choice) for choice in choices] if isinstance(choices, list) else [str(choices)]


def _label(each: dict[str, Any]) -> str:
    labels: Any = next((each[key] for key in _LABELS if each.get(key)), [])
    return str(labels[0]) if isinstance(labels, list) and labels else ""


def _shape(each: dict[str, Any], where: str) -> Shape | None:
    """A shape in fractions of the image's size, or painted pixels."""
    label = _label(each)
    if "points" in each:
        return shapes.polygon(label, [(x / _PER_CENT, y / _PER_CENT) for x, y in each["points"]])
    if each.get("rotation"):
        return _turned(each, label)
    if "radiusX" in each:
        middle, radii = ([each[key] / _PER_CENT for key in keys] for keys in (("x", "y"), ("radiusX", "radiusY")))
        return shapes.ellipse(label, middle, (radii[0], radii[1]))
    if "rle" in each:
        size = int(each["original_height"]), int(each["original_width"])
        return Shape(label, bitmap=Bitmap(0, 0, partial(_painted, each["rle"], size, where)))
    left, top, width, height = (each[key] / _PER_CENT for key in ("x", "y", "width", "height"))
    return shapes.rectangle(label, [(left, top), (left + width, top + height)])


def _turned(each: dict[str, Any], label: str) -> Shape:
    """An ellipse that was turned around its middle, or a box around its left top corner, in fractions."""
    width, height = int(each["original_width"]), int(each["original_height"])
    x, y = each["x"] * width / _PER_CENT, each["y"] * height / _PER_CENT
    if "radiusX" in each:
        radii = each["radiusX"] * width / _PER_CENT, each["radiusY"] * height / _PER_CENT
        shape = shapes.ellipse(label, (x, y), radii, each["rotation"])
    else:
        opposite = x + each["width"] * width / _PER_CENT, y + each["height"] * height / _PER_CENT
        shape = shapes.turned(label, [(x, y), opposite], each["rotation"], around=(x, y))
    return shapes.in_pixels(shape, (1 / height, 1 / width))


def _painted(lengths: list[int], size: tuple[int, int], where: str) -> NDArray[np.bool_]:
    """The pixels of a brush.

    Raises:
        DatasetError: they are damaged.
    """
    try:
        return painted(lengths, size)
    except (ValueError, TypeError) as error:
        raise DatasetError(
            where, expected="a brush's pixels", found=str(error), remedy="Draw it again, or export as COCO"
        ) from None

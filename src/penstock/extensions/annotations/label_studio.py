"""Label Studio's exports in JSON: rectangles, polygons, ellipses, brushes and choices. Places are in per cent."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec
import numpy as np
from numpy.typing import NDArray

from penstock.datasets import listing
from penstock.datasets.layout import Layout
from penstock.datasets.layouts import annotated, jsons, shapes, typed
from penstock.datasets.layouts.annotated import AnnotatedImage, Annotations
from penstock.datasets.layouts.lookup import Images
from penstock.datasets.layouts.shapes import Bitmap, Shape
from penstock.errors import DatasetError
from penstock.extensions.annotations.brush import painted
from penstock.images.header import MAX_PIXELS
from penstock.kinds.items import Problem, named
from penstock.progress import counted

_WHOLE: Final = (b'"annotations"', b'"result"', b'"data"')
_SHORT: Final = (b'"annotator"', b'"annotation_id"')  # the export JSON-MIN
_LABELS: Final = ("rectanglelabels", "polygonlabels", "ellipselabels", "brushlabels", "labels")
_UPLOADED: Final = re.compile(r"[0-9a-f]{8}-(.+)")  # what Label Studio puts before the name of an uploaded file
_PER_CENT: Final = 100
_OBJECTS: Final = list[dict[str, Any]] | None
_Bytes = list[Annotated[int, msgspec.Meta(ge=0, le=255)]]
_Side = Annotated[int, msgspec.Meta(ge=1, le=MAX_PIXELS)]


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
        for task in filter(_is_annotated, tasks):
            _add(found, folder, path, task, images)
    return found.layout(folder)


def _tasks(tree: Any) -> list[dict[str, Any]]:
    tasks = tree if isinstance(tree, list) else []
    return [task for task in tasks if isinstance(task, dict) and _image_of(task)]


def _is_annotated(task: dict[str, Any]) -> bool:
    """Whether a task has an annotation that was not cancelled; that of JSON-MIN has its id. What has none is not known
    to be empty.
    """
    annotations = task.get("annotations")
    if isinstance(annotations, list):
        return not all(isinstance(each, dict) and each.get("was_cancelled") for each in annotations)
    return "annotations" in task or "annotation_id" in task or any(isinstance(each, list) for each in task.values())


def _image_of(task: dict[str, Any]) -> str:
    """What a task says of where its image is: the first of its data that names a file of an image."""
    data = task.get("data") if isinstance(task.get("data"), dict) else task
    texts = [value for value in (data or {}).values() if isinstance(value, str)]
    return next((text for text in texts if PurePosixPath(_path(text)).suffix.lower() in listing.IMAGES), "")


def _path(text: str) -> str:
    """The path in a URL: its `d` for files of local storage, else its own."""
    try:
        parts = urlsplit(text)
    except ValueError:  # "http://[", whose host is none
        return text
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
    where, shown = f"{name} (task {task.get('id', '?')})", named(image, folder)
    results = _results(found, task, shown, where)
    drawn = [each for each in results if _label(each)]
    found.problems.extend(_several_labels(shown, where, each) for each in drawn if len(_labels(each)) > 1)
    read = annotated.read_shapes(found, drawn, _shape, image=shown, where=where)
    sizes = [typed.size(each.get("original_height"), each.get("original_width")) for each in drawn]
    own, relative = shapes.beside_painted(read, next(filter(all, sizes), (1, 1)))
    tags = tuple(tag for each in results for tag in _choices(each))
    split, group = annotated.split_and_group(data if isinstance(data := task.get("data"), dict) else task)
    split = split or annotated.split_of(image, folder, path)
    found.images.append(AnnotatedImage(split, image.stem, image, path, own, tags, relative=relative, group=group))


def _annotation_words(annotation: dict[str, Any]) -> str:
    """What an annotation says, to be compared: each result has an id of its own, and the time that it took."""
    results = annotation.get("result")
    parts = [each for each in results if isinstance(each, dict)] if isinstance(results, list) else []
    return repr(sorted(repr((each.get("type"), each.get("from_name"), each.get("value"))) for each in parts))


def _two_annotations(image: str, where: str, count: int) -> Problem:
    message = (
        f"{image}: expected one annotation, found {count} in {where} that differ. Cancel or delete all but one of them "
        "and export again, or leave the image out with --skip-bad."
    )
    return Problem("two annotations", image, message)


def _results(found: Annotations, task: dict[str, Any], image: str, where: str) -> list[dict[str, Any]]:
    """What the last annotation that was not cancelled says; in JSON-MIN it lies in the task itself."""
    if "annotations" in task:
        read = partial(annotated.entry_of, found, file=image, where=where)
        kept = [each for each in read(task, "annotations", _OBJECTS) or () if not each.get("was_cancelled")]
        if len({_annotation_words(each) for each in kept}) > 1:
            found.problems.append(_two_annotations(image, where, len(kept)))
        results = read(kept[-1], "result", _OBJECTS) if kept else None
        return [{**each, **(read(each, "value", dict[str, Any] | None) or {})} for each in results or ()]
    rest: list[dict[str, Any]] = []
    for key, value in task.items():
        if isinstance(value, list):
            rest += [each for each in value if isinstance(each, dict)]
        elif key == "choice" and isinstance(value, str):
            rest.append({"choices": [value]})
    return rest


def _choices(each: dict[str, Any]) -> list[str]:
    choices = each.get("choices") or []
    return [str(choice) for choice in choices] if isinstance(choices, list) else [str(choices)]


def _labels(each: dict[str, Any]) -> list[str]:
    labels: Any = next((each[key] for key in _LABELS if each.get(key)), [])
    return [*map(str, labels)] if isinstance(labels, list) else []


def _label(each: dict[str, Any]) -> str:
    return next(iter(_labels(each)), "")


def _several_labels(image: str, where: str, each: dict[str, Any]) -> Problem:
    message = (
        f"{image}: expected one label of each region, found {', '.join(_labels(each))} in {where}. Leave one, or leave "
        "the image out with --skip-bad."
    )
    return Problem("region of several labels", image, message)


def _shape(each: dict[str, Any], where: str) -> Shape | None:
    """A shape in fractions of the image's size, or painted pixels."""
    label = _label(each)
    if "points" in each:
        points = typed.get(each, "points", typed.Points)
        return shapes.polygon(label, [(x / _PER_CENT, y / _PER_CENT) for x, y in points])
    if "rle" in each:
        return Shape(label, bitmap=Bitmap(0, 0, partial(_painted, typed.get(each, "rle", _Bytes), _size(each), where)))
    angle = typed.get(each, "rotation", typed.Coordinate | None) or 0
    height, width = _size(each) if angle else (1, 1)
    keys = ("x", "y", "radiusX", "radiusY") if "radiusX" in each else ("x", "y", "width", "height")
    left, top, wide, high = (
        number * side / _PER_CENT for number, side in zip(typed.numbers(each, keys), (width, height) * 2, strict=True)
    )
    if "radiusX" in each:
        shape = shapes.ellipse(label, (left, top), (wide, high), angle)
    else:
        corners = [(left, top), (left + wide, top + high)]
        shape = shapes.turned(label, corners, angle, (left, top)) if angle else shapes.rectangle(label, corners)
    return shapes.in_pixels(shape, (1 / height, 1 / width))


def _size(each: dict[str, Any]) -> tuple[int, int]:
    """(height, width) of the image that something was drawn in."""
    height, width = (typed.get(each, key, _Side) for key in ("original_height", "original_width"))
    return height, width


def _painted(lengths: list[int], size: tuple[int, int], where: str) -> NDArray[np.bool_]:
    try:
        return painted(lengths, size)
    except ValueError as error:
        raise DatasetError(
            where, expected="a brush's pixels", found=str(error), remedy="Draw it again, or export as COCO"
        ) from None

"""FiftyOne's exports: `data/` and `labels.json` with classes or boxes by the names of the images, or `samples.json`.

Samples may have a mask for the whole image, in a file or in the JSON itself, and objects masks that fill their boxes.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import cv2
import msgspec
import numpy as np
from numpy.typing import NDArray

from penstock.datasets import listing
from penstock.datasets.layout import Layout
from penstock.datasets.layouts import annotated, jsons, shapes, typed
from penstock.datasets.layouts.annotated import AnnotatedImage, Annotations
from penstock.datasets.layouts.lookup import Images
from penstock.datasets.layouts.shapes import Bitmap, Shape
from penstock.errors import DatasetError, reason_of
from penstock.images import codecs, probe
from penstock.images.formats import stored, stored_mask
from penstock.kinds.items import FilePart, Item, named
from penstock.progress import counted

_MASKS: Final = frozenset({"mask", "mask_path"})
_Fraction = Annotated[float, msgspec.Meta(ge=-1, le=2)]
"""A place or a length that may leave the image, though not by far, as its mask takes memory."""
_Box = tuple[_Fraction, _Fraction, _Fraction, _Fraction]
_LABELS: Final = frozenset({"label", "detections", "polylines"}) | _MASKS


def recognise(folder: Path) -> Layout | None:
    """`labels.json` or `samples.json` beside `data/`, in the folder or in its splits; None where there are none."""
    places = [path for path in (folder, *listing.splits(folder).values()) if (path / "data").is_dir()]
    files = {path: tree for place in places for path in _files(place) if (tree := _entries(path))}
    if not files:
        return None
    if masks := _masks(folder, files):
        return masks
    names = ", ".join(named(path, folder) for path in files)
    count = sum(len(entries) for entries, _ in files.values())
    classes = next((classes for _, classes in files.values() if classes), ())
    found = Annotations("FiftyOne", f"labels of {counted(count, 'image')} in {names}", classes=classes)
    for path, (entries, names_by_id) in files.items():
        images = Images(path.parent / "data")
        splits = _splits(path)
        for wanted, said in entries.items():
            _add(found, folder, path, wanted, said, names_by_id, images, splits.get(wanted, ""))
    return found.layout(folder)


def _files(place: Path) -> list[Path]:
    return listing.plain(place, "labels.json", "samples.json")


def _entries(path: Path) -> tuple[dict[str, Any], tuple[str, ...]] | None:
    """What is said of each image by its name, and the classes by id; None for other JSON."""
    tree = jsons.read(path)
    if not isinstance(tree, dict):
        return None
    if isinstance(tree.get("labels"), dict):
        try:
            classes = typed.get(tree, "classes", list[typed.Name] | None) or ()
        except ValueError as error:
            fix = "Export the dataset again"
            raise DatasetError(str(path), expected="FiftyOne's classes", found=str(error), remedy=fix) from None
        return tree["labels"], tuple(map(str, classes))
    samples = tree.get("samples")
    if not isinstance(samples, list) or not all(isinstance(each, dict) and "filepath" in each for each in samples):
        return None
    return {str(each["filepath"]): _label_field(each) for each in samples}, ()


def _splits(path: Path) -> dict[str, str]:
    """The split of each sample that a tag of it names."""
    samples = jsons.read(path).get("samples")
    held = [each for each in samples if isinstance(each, dict)] if isinstance(samples, list) else []
    tags = {str(each.get("filepath")): each.get("tags") for each in held}
    named_so = {name: map(listing.split_of, map(str, each)) for name, each in tags.items() if isinstance(each, list)}
    return {name: next(filter(None, splits), "") for name, splits in named_so.items()}


def _label_field(sample: dict[str, Any]) -> Any:
    """The labels of a sample: its ground truth, or the first field that has some."""
    fields = [sample.get("ground_truth"), *sample.values()]
    labelled = [each for each in fields if isinstance(each, dict) and _LABELS & set(each)]
    if not labelled:
        return None
    first = labelled[0]
    if _MASKS & set(first):
        return first
    return first.get("detections") or first.get("polylines") or first.get("label")


def _add(
    found: Annotations, folder: Path, path: Path, wanted: str, said: Any, classes: tuple[str, ...], images: Images,
    split: str,
) -> None:  # fmt: skip
    image = images.find(wanted) or images.find(wanted.replace("\\", "/").rpartition("/")[2])
    if image is None:
        found.problems.append(annotated.image_missing(named(path, folder), wanted, images.among(wanted)))
        return
    own: tuple[Shape, ...] = ()
    relative = True
    tags: tuple[str, ...] = ()
    where = f"{named(path, folder)} ({wanted})"
    if isinstance(said, list):
        read_shape = partial(_shape, classes, image, path.parent)
        read = annotated.read_shapes(found, said, read_shape, image=named(image, folder), where=where)
        own, relative = shapes.beside_painted(read, _size_of(image) if any(each.bitmap for each in read) else (1, 1))
    elif said is not None:
        label = annotated.entry_of(found, {"label": said}, "label", typed.Name, file=named(image, folder), where=where)
        tags = () if label is None else (annotated.class_name(label, classes),)
    split = split or annotated.split_of(path, folder)
    found.images.append(AnnotatedImage(split, image.stem, image, path, own, tags, relative=relative))


def _shape(classes: tuple[str, ...], image: Path, folder: Path, each: dict[str, Any], where: str) -> Shape:
    """An object in fractions of the image's size: a box as x, y, width, height, or outlines; a mask fills its box."""
    label = annotated.class_name(typed.get(each, "label", typed.Name), classes)
    if not (each.get("mask") or each.get("mask_path")) and each.get("points"):
        outer, *holes = typed.get(each, "points", list[typed.Points])
        return shapes.polygon(label, outer, holes)
    left, top, wide, high = typed.get(each, "bounding_box", _Box)
    if each.get("mask") or each.get("mask_path"):
        height, width = _size_of(image)
        size = max(1, round(high * height)), max(1, round(wide * width))
        draw = partial(_object_mask, each, folder, size, where)
        return Shape(label, bitmap=Bitmap(round(left * width), round(top * height), draw))
    return shapes.rectangle(label, [(left, top), (left + wide, top + high)])


def _size_of(image: Path) -> tuple[int, int]:
    """(height, width) of the upright image."""
    return probe(stored(image.read_bytes(), str(image)), str(image)).size


def _object_mask(each: dict[str, Any], folder: Path, size: tuple[int, int], where: str) -> NDArray[np.bool_]:
    bits = (_ids(each, folder, where) > 0).astype(np.uint8)
    return np.asarray(cv2.resize(bits, size[::-1], interpolation=cv2.INTER_NEAREST_EXACT) > 0)


def _ids(said: dict[str, Any], folder: Path, where: str) -> NDArray[np.uint8]:
    """A mask that lies in the JSON, as a compressed array of NumPy, or in a file beside it."""
    try:
        if said.get("mask_path"):
            where = typed.get(said, "mask_path", str)
            data = (folder / where).read_bytes()
        else:
            held = said.get("mask")
            inner = held.get("$binary", held) if isinstance(held, dict) else held
            text = typed.get(inner, "base64", str) if isinstance(inner, dict) else typed.read(inner, str)
            data = typed.unpacked(text)
    except (OSError, ValueError) as error:
        raise DatasetError(
            where, expected="a mask of FiftyOne", found=reason_of(error), remedy="Export the dataset again"
        ) from None
    return codecs.decode_mask(stored_mask(data, where), where)


def _masks(folder: Path, files: dict[Path, tuple[dict[str, Any], tuple[str, ...]]]) -> Layout | None:
    """Masks of whole images; None where there are none."""
    items = []
    for path, (entries, _) in files.items():
        images = Images(path.parent / "data")
        for wanted, said in entries.items():
            image = images.find(wanted) or images.find(wanted.replace("\\", "/").rpartition("/")[2])
            if image is not None and isinstance(said, dict) and _MASKS & set(said):
                mask = FilePart(path, wanted, partial(_encoded, said, path.parent, named(path, folder)))
                items.append(Item(annotated.split_of(path, folder), image.stem, image, label=mask))
    if not items:
        return None
    names = ", ".join(named(path, folder) for path in files)
    return Layout(
        "segmentation", "FiftyOne, masks", (f"masks of {counted(len(items), 'image')} in {names}",), tuple(items)
    )


def _encoded(said: dict[str, Any], folder: Path, where: str) -> bytes:
    return codecs.plain_mask(_ids(said, folder, where))

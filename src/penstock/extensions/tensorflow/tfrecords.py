"""TFRecord files of others, to be packed again: TensorFlow Datasets', the Object Detection API's, DeepLab's, slim's.

What a record holds is told from the names of the fields in the first one. TensorFlow Datasets (feature `image`): a PNG
`segmentation_mask`, `objects/bbox` as (ymin, xmin, ymax, xmax) in fractions of the image, or a `label`. The others
(`image/encoded`): `image/segmentation/class/encoded`, `image/object/bbox/*` with perhaps `image/object/mask`, or
`image/class/label`. Of records with other names somebody says which fields are wanted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.datasets import class_lists, listing
from penstock.datasets.layout import Layout
from penstock.errors import DatasetError
from penstock.extensions.tensorflow.tfrecord_files import (
    Entry,
    described,
    entries,
    read_again,
    read_field,
    shards_in,
    values,
)
from penstock.images import codecs
from penstock.images.formats import stored_mask
from penstock.kinds.items import Box, FilePart, Instance, Item, Labels, Problem
from penstock.progress import counted
from penstock.records.example import Fields

_MAP_ITEM: Final = re.compile(r"item\s*\{([^{}]*)")
_MAP_ID: Final = re.compile(r"\bid\s*:\s*(\d+)")
_MAP_NAME: Final = re.compile(r"\b(?:display_name|name)\s*:\s*[\"']([^\"']*)[\"']")
_RELATIVE: Final = 1.5  # edges of boxes up to this are fractions of the image
_NUMBERED: Final = re.compile(r"(\d+):(.+)")


class _Kind(NamedTuple):
    """One way of writing records, by its fields' names; `label` counts objects where there are boxes.

    Boxes are in four fields of `edges` (left, top, right, bottom), or in one field `corners`, which holds top, left,
    bottom, right of every object one after the other. `objects` holds a PNG for every object, with its pixels.
    """

    task: str
    name: str
    image: str
    label: str
    edges: tuple[str, ...] = ()
    corners: str = ""
    objects: str = ""
    text: str = ""
    masked: bool = False

    def fits(self, there: set[str]) -> bool:
        """Whether records that have some fields are written so; one without objects lacks some."""
        telling = {self.label, self.corners, *self.edges[:1]} & there
        return self.image in there and bool(telling) and (not self.objects or self.objects in there)

    @property
    def inferred_from(self) -> str:
        """The field that people know this way of writing by."""
        return self.objects or self.corners or (self.edges[0].rpartition("/")[0] if self.edges else self.label)


_EDGES: Final = tuple(f"image/object/bbox/{edge}" for edge in ("xmin", "ymin", "xmax", "ymax"))
_WANTED: Final = (
    "image and label for classes; image and mask for masks of ids; or image, label, xmin, ymin, xmax and ymax for boxes"
)
_KINDS: Final = (
    _Kind("segmentation", "DeepLab's TFRecords", "image/encoded", "image/segmentation/class/encoded", masked=True),
    _Kind("segmentation", "TensorFlow Datasets", "image", "segmentation_mask", masked=True),
    _Kind(
        "detection", "Object Detection API's TFRecords", "image/encoded", "image/object/class/label", _EDGES,
        text="image/object/class/text",
    ),
    _Kind(
        "instances", "Object Detection API's TFRecords with masks", "image/encoded", "image/object/class/label", _EDGES,
        objects="image/object/mask", text="image/object/class/text",
    ),
    _Kind("detection", "TensorFlow Datasets", "image", "objects/label", corners="objects/bbox"),
    _Kind("classification", "slim's TFRecords", "image/encoded", "image/class/label", text="image/class/text"),
    _Kind("classification", "TensorFlow Datasets", "image", "label"),
)  # fmt: skip


def recognise(folder: Path) -> Layout | None:
    """Files NAME-SPLIT.tfrecord-00000-of-00001, SPLIT.record and the like, in the folder or below it."""
    shards, first = shards_in(folder)
    kinds = [kind for kind in _KINDS if first and kind.fits(set(first.fields.names()))]
    if not kinds:
        return None
    taken = _layout(folder, shards, kinds[0])
    others = [_layout(folder, shards, kind) for kind in kinds[1:] if kind.objects]
    return replace(taken, others=tuple(others))


def recognise_fields(folder: Path, fields: Mapping[str, str]) -> Layout | None:
    """TFRecord files whose fields somebody names; None where there is no such file.

    Args:
        folder: where the files are.
        fields: the names of the fields by what they hold: "image", "label", "mask", "xmin", "ymin", "xmax", "ymax",
            "text" (names of classes).

    Raises:
        DatasetError: there is no such field, or they are not those of any kind of record.
    """
    shards, first = shards_in(folder)
    if first is None:
        return None
    there = set(first.fields.names())
    absent = [f"{name}={field}" for name, field in fields.items() if field not in there]
    edges = tuple(fields[edge] for edge in ("xmin", "ymin", "xmax", "ymax") if edge in fields)
    known = {"image", "label", "mask", "xmin", "ymin", "xmax", "ymax", "text"}
    whole = "image" in fields and ("mask" in fields or "label" in fields) and len(edges) in (0, len(_EDGES))
    if absent or not whole or not set(fields) <= known:
        found = ", ".join(absent or [f"{name}={field}" for name, field in fields.items()])
        raise DatasetError(
            f"{folder}: --field",
            expected=_WANTED,
            found=found,
            remedy=f"The records have the fields {described(first)}",
        )
    masked = "mask" in fields
    task = "segmentation" if masked else "detection" if edges else "classification"
    label = fields["mask"] if masked else fields["label"]
    kind = _Kind(task, "TFRecords", fields["image"], label, edges, text=fields.get("text", ""), masked=masked)
    return _layout(folder, shards, kind)


def unknown_fields(folder: Path) -> DatasetError | None:
    """The error for TFRecord files whose fields have unknown names; None where there is no such file."""
    shards, first = shards_in(folder)
    if first is None:
        return None
    found = f"{counted(len(shards), 'TFRecord file')} with the fields {described(first)}"
    remedy = f"Say which fields hold {_WANTED}: for example --field image=NAME --field label=NAME"
    message = f"{folder}: {found}, whose meaning is not known."
    return DatasetError(str(folder), expected="fields of known names", found=found, remedy=remedy, message=message)


def _layout(folder: Path, shards: list[Path], kind: _Kind) -> Layout:
    stated = _named_ids(folder, kind)
    names = stated or _class_texts(shards, kind)
    ids = {number: label for label, number in enumerate(sorted(names))}
    items: list[Item] = []
    problems: list[Problem] = []
    taken: set[tuple[str, str]] = set()
    for path in shards:
        for entry in entries(path):
            try:
                item = _item(folder, entry, kind, ids)
            except _UnfitError as error:
                problems.append(error.problem)
                continue
            again = (item.split, item.name) in taken
            items.append(_renamed(item, entry) if again else item)
            taken.add((item.split, item.name))
    nameless = not stated and all(name == f"class{number}" for number, name in names.items())
    classes = class_lists.check_names([names[number] for number in sorted(names)], str(folder))
    reason = f"{len(shards)} TFRecord files whose records have {kind.image} and {kind.inferred_from}"
    return Layout(kind.task, kind.name, (reason,), tuple(items), Labels(classes), tuple(problems), nameless=nameless)


def _split(path: Path) -> str:
    """The split that a file's name (`val.record`), or else the nearest folder's (`valid/a.record`), says."""
    words = (word for part in reversed(path.parts) for word in re.split(r"[^a-z]+", part.lower()))
    return next(filter(None, map(listing.split_of, words)), "train")


class _UnfitError(Exception):
    """A record that cannot be packed."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


def _item(folder: Path, entry: Entry, kind: _Kind, ids: dict[int, int]) -> Item:
    fields, split = entry.fields, _split(entry.path.relative_to(folder))
    image = _part(entry, kind.image)
    named = fields.all_bytes("image/filename") or fields.all_bytes("file_name") or fields.all_bytes("image/source_id")
    name = re.sub(r"\.(jpe?g|png)$", "", named[0].decode(errors="replace"), flags=re.IGNORECASE) if named else ""
    name = name or f"{entry.path.name}-{entry.number:06d}"
    if kind.masked:
        return Item(split, name, image, label=_part(entry, kind.label))
    labels = [_known(folder, entry, number, ids) for number in fields.ints(kind.label)]
    if kind.objects:
        return Item(split, name, image, label=_instances(folder, entry, kind, labels))
    if kind.edges or kind.corners:
        boxes = _boxes(folder, entry, kind, labels)
        return Item(split, name, image, label=boxes, relative=max((b.right for b in boxes), default=0) <= _RELATIVE)
    return Item(split, name, image, label=labels[0] if labels else _known(folder, entry, -1, ids))


def _boxes(folder: Path, entry: Entry, kind: _Kind, labels: list[int]) -> tuple[Box, ...]:
    """Every label with its edges, in fractions of the image, or in pixels where somebody names the fields of such."""
    fields = entry.fields
    if kind.corners:
        flat = fields.floats(kind.corners)
        top, left, bottom, right = (flat[edge::4] for edge in range(4))
    else:
        left, top, right, bottom = (list(_numbers(fields, edge)) for edge in kind.edges)
    crowds = fields.ints("objects/is_crowd") or fields.ints("image/object/is_crowd") or [0] * len(labels)
    hard = fields.ints("objects/is_difficult") or fields.ints("image/object/difficult") or [0] * len(labels)
    lengths = [len(each) for each in (left, top, right, bottom, crowds, hard)]
    if set(lengths) != {len(labels)}:
        place = f"{entry.path.relative_to(folder).as_posix()}#{entry.number}"
        message = (
            f"{place}: expected four edges for each of {len(labels)} objects, found "
            f"{', '.join(map(str, lengths[:4]))}. Write the record again, or leave it out."
        )
        raise _UnfitError(Problem("boxes without labels", place, message))
    rows = zip(labels, left, top, right, bottom, map(bool, crowds), map(bool, hard), strict=True)
    return tuple(Box(*row) for row in rows)


def _numbers(fields: Fields, name: str) -> Sequence[float]:
    """Edges, which some write as whole numbers."""
    return values(fields.floats, name) or [float(each) for each in values(fields.ints, name)]


def _instances(folder: Path, entry: Entry, kind: _Kind, labels: list[int]) -> tuple[Instance, ...]:
    """Every label with the pixels of its PNG."""
    count = len(entry.fields.all_bytes(kind.objects))
    crowds = entry.fields.ints("image/object/is_crowd") or [0] * len(labels)
    if (count, len(crowds)) != (len(labels), len(labels)):
        place = f"{entry.path.relative_to(folder).as_posix()}#{entry.number}"
        message = (
            f"{place}: expected a mask for each of {len(labels)} objects, found {count}. Write the record again, or "
            "leave it out."
        )
        raise _UnfitError(Problem("objects without masks", place, message))
    return tuple(
        Instance(label, partial(_pixels, entry, kind.objects, number), bool(crowds[number]))
        for number, label in enumerate(labels)
    )


def _pixels(entry: Entry, field: str, number: int, size: tuple[int, int]) -> NDArray[np.bool_]:
    where = f"{entry.path.name}#{entry.number}, object {number}"
    found = read_again(entry.path, entry.number, entry.offset, entry.length).all_bytes(field)[number]
    pixels = codecs.decode_mask(stored_mask(found, where), where) > 0
    if pixels.shape != size:
        raise DatasetError(
            where,
            expected=f"a mask of {size[0]} x {size[1]}, like its image",
            found=f"{pixels.shape[0]} x {pixels.shape[1]}",
            remedy="Write the record again, or leave it out",
        )
    return pixels


def _known(folder: Path, entry: Entry, number: int, ids: dict[int, int]) -> int:
    if number in ids:
        return ids[number]
    place = f"{entry.path.relative_to(folder).as_posix()}#{entry.number}"
    message = (
        f"{place}: expected the id of a class ({', '.join(map(str, sorted(ids)[:8]))}, ...), found "
        f"{'none' if number < 0 else number}. Add it to the names beside the files, or leave the record out."
    )
    raise _UnfitError(Problem("label outside the classes", place, message))


def _part(entry: Entry, field: str) -> FilePart:
    make = partial(read_field, entry.path, entry.number, entry.offset, entry.length, field)
    return FilePart(entry.path, f"{entry.number}:{field}", make)


def _renamed(item: Item, entry: Entry) -> Item:
    return replace(item, name=f"{item.name}-{entry.path.name}-{entry.number:06d}")


def _named_ids(folder: Path, kind: _Kind) -> dict[int, str]:
    """Names by id: TensorFlow Datasets' FEATURE.labels.txt, a label map (.pbtxt), or slim's labels.txt (`0:name`)."""
    own = f"{kind.label.replace('/', '-')}.labels.txt"
    beside = {} if kind.masked else {path.suffix: path for path in listing.files(folder)}
    for path in listing.files(folder):
        if path.name == own:
            return dict(enumerate(class_lists.names_in_file(path)))
        if path.name == "labels.txt" and beside:
            return _numbered(path)
    if ".pbtxt" in beside:
        return _label_map(beside[".pbtxt"])
    return dict(enumerate(class_lists.read_classes(folder)))


def _numbered(path: Path) -> dict[int, str]:
    found = [_NUMBERED.fullmatch(line.strip()) for line in listing.text_of(path).rstrip().splitlines()]
    if all(found):
        return {int(match[1]): match[2] for match in found if match}
    return dict(enumerate(class_lists.names_in_file(path)))


def _label_map(path: Path) -> dict[int, str]:
    """Source: object_detection/protos/string_int_label_map.proto."""
    found = {}
    for item in _MAP_ITEM.findall(listing.text_of(path)):
        number, names = _MAP_ID.search(item), _MAP_NAME.findall(item)
        if number and names:
            found[int(number[1])] = names[-1]
    return found


def _class_texts(shards: list[Path], kind: _Kind) -> dict[int, str]:
    """Names that the records themselves say, or class0, class1, ... by id; of masks nothing is known."""
    found: dict[int, str] = {}
    if kind.masked:
        return found
    for path in shards:
        for entry in entries(path):
            numbers = entry.fields.ints(kind.label)
            texts = [text.decode(errors="replace") for text in entry.fields.all_bytes(kind.text)] if kind.text else []
            texts += [""] * (len(numbers) - len(texts))
            for number, text in zip(numbers, texts, strict=False):
                found[number] = found.get(number) or text
    found = {number: text for number, text in found.items() if number >= 0}  # -1: TensorFlow Datasets' "no label"
    return {number: text or f"class{number}" for number, text in found.items()}

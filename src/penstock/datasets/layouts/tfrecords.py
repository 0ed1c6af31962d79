"""TFRecord files of others, to be packed again: TensorFlow Datasets', the Object Detection API's, DeepLab's, slim's.

What a record holds is told from the names of the fields in the first one. TensorFlow Datasets (feature `image`): a PNG
`segmentation_mask`, `objects/bbox` as (ymin, xmin, ymax, xmax) in fractions of the image, or a `label`. The others
(`image/encoded`): `image/segmentation/class/encoded`, `image/object/bbox/*`, or `image/class/label`.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.datasets import listing
from penstock.datasets.layout import Layout
from penstock.kinds.items import Box, FilePart, Item, Labels, Problem
from penstock.records import framing
from penstock.records.example import Fields
from penstock.records.framing import HEADER, OVERHEAD, Place

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


_SHARD: Final = re.compile(r"[.-]\d{5}-of-\d{5}$")
_ENDS: Final = (".tfrecord", ".tfrecords", ".record", ".records")
_MAP_ITEM: Final = re.compile(r"item\s*\{(.*?)\}", re.DOTALL)
_MAP_ID: Final = re.compile(r"\bid\s*:\s*(\d+)")
_MAP_NAME: Final = re.compile(r"\b(?:display_name|name)\s*:\s*[\"']([^\"']*)[\"']")
_NUMBERED: Final = re.compile(r"(\d+):(.+)")


class _Kind(NamedTuple):
    """One way of writing records, by its fields' names; `label` counts objects where there are boxes."""

    task: str
    name: str
    image: str
    label: str
    boxes: str = ""
    text: str = ""
    masked: bool = False


_KINDS: Final = (
    _Kind("segmentation", "DeepLab's TFRecords", "image/encoded", "image/segmentation/class/encoded", masked=True),
    _Kind("segmentation", "TensorFlow Datasets", "image", "segmentation_mask", masked=True),
    _Kind(
        "detection", "Object Detection API's TFRecords", "image/encoded", "image/object/class/label",
        "image/object/bbox", "image/object/class/text",
    ),
    _Kind("detection", "TensorFlow Datasets", "image", "objects/label", "objects/bbox"),
    _Kind("classification", "slim's TFRecords", "image/encoded", "image/class/label", text="image/class/text"),
    _Kind("classification", "TensorFlow Datasets", "image", "label"),
)  # fmt: skip


@dataclass(frozen=True)
class _Entry:
    """One record: where it lies, and its fields."""

    path: Path
    number: int
    offset: int
    length: int
    fields: Fields


def recognise(folder: Path) -> Layout | None:
    """Files NAME-SPLIT.tfrecord-00000-of-00001, SPLIT.record and the like, in the folder or below it."""
    shards = [path for path in listing.files(folder) if _is_shard(path)]
    first = next((entry for path in shards for entry in _entries(path)), None)
    kind = _kind_of(first.fields) if first else None
    if kind is None:
        return None
    names = _named_ids(folder, kind) or _said(shards, kind)
    ids = {number: label for label, number in enumerate(sorted(names))}
    items: list[Item] = []
    problems: list[Problem] = []
    taken: set[tuple[str, str]] = set()
    for path in shards:
        for entry in _entries(path):
            try:
                item = _item(folder, entry, kind, ids)
            except _UnfitError as error:
                problems.append(error.problem)
                continue
            again = (item.split, item.name) in taken
            items.append(_renamed(item, entry) if again else item)
            taken.add((item.split, item.name))
    classes = listing.check_names([names[number] for number in sorted(names)], str(folder))
    reason = f"{len(shards)} TFRecord files whose records have {kind.image} and {kind.boxes or kind.label}"
    return Layout(kind.task, kind.name, (reason,), tuple(items), Labels(classes), tuple(problems))


def _is_shard(path: Path) -> bool:
    whole = _SHARD.sub("", path.name)
    return whole.endswith(_ENDS) or (whole != path.name and path.suffix != ".index")


def _split(path: Path) -> str:
    """`mnist-train.tfrecord-00000-of-00001` and `train-00000-of-00004` are train, `val.record` and `valid/a.record`
    val: the file's name says it, or the nearest folder below the one that was given.
    """
    words = (word for part in reversed(path.parts) for word in re.split(r"[^a-z]+", part.lower()))
    return next(filter(None, map(listing.split_of, words)), "train")


def _entries(path: Path) -> Iterator[_Entry]:
    """All records of a file, verified."""
    with _opened(path) as file:
        offset = number = 0
        while header := file.read(HEADER.size):
            place = Place(str(path), number, offset)
            length = framing.read_header(header, place)
            body = file.read(length + OVERHEAD - HEADER.size)
            if len(body) < length + OVERHEAD - HEADER.size:
                raise framing.cut_short(place, length, len(body))
            payload = framing.unframe(header + body, length, place)
            yield _Entry(path, number, offset, length, Fields(payload, f"{path.name}#{number}"))
            offset += length + OVERHEAD
            number += 1


def _opened(path: Path) -> io.BufferedIOBase:
    """A file of plain records, or what a compressed one holds."""
    with path.open("rb") as file:
        compressed = framing.is_compressed(file.read(HEADER.size))
    return io.BytesIO(_content(path, path.stat().st_mtime_ns)) if compressed else path.open("rb")


@lru_cache(maxsize=2)
def _content(path: Path, changed: int) -> bytes:
    """The last compressed files are kept, as their records are read one by one."""
    del changed
    with path.open("rb") as handle:
        return framing.decompress(handle, str(path))


def _kind_of(fields: Fields) -> _Kind | None:
    there = set(fields.names())
    return next((k for k in _KINDS if k.image in there and (k.label in there or k.boxes + "/xmin" in there)), None)


class _UnfitError(Exception):
    """A record that cannot be packed."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


def _item(folder: Path, entry: _Entry, kind: _Kind, ids: dict[int, int]) -> Item:
    fields, split = entry.fields, _split(entry.path.relative_to(folder))
    image = _part(entry, kind.image)
    named = fields.all_bytes("image/filename") or fields.all_bytes("file_name") or fields.all_bytes("image/source_id")
    name = re.sub(r"\.(jpe?g|png)$", "", named[0].decode(errors="replace"), flags=re.IGNORECASE) if named else ""
    name = name or f"{entry.path.name}-{entry.number:06d}"
    if kind.masked:
        return Item(split, name, image, mask=_part(entry, kind.label))
    labels = [_known(folder, entry, number, ids) for number in fields.ints(kind.label)]
    if kind.boxes:
        return Item(split, name, image, boxes=_boxes(folder, entry, kind, labels), relative=True)
    return Item(split, name, image, label=labels[0] if labels else _known(folder, entry, -1, ids))


def _boxes(folder: Path, entry: _Entry, kind: _Kind, labels: list[int]) -> tuple[Box, ...]:
    """Every label with its edges, in fractions of the image."""
    fields = entry.fields
    if kind.image == "image":  # TensorFlow Datasets: four numbers for each box, one after the other
        flat = fields.floats(kind.boxes)
        top, left, bottom, right = (flat[edge::4] for edge in range(4))
    else:
        left, top, right, bottom = (fields.floats(f"{kind.boxes}/{edge}") for edge in ("xmin", "ymin", "xmax", "ymax"))
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


def _known(folder: Path, entry: _Entry, number: int, ids: dict[int, int]) -> int:
    if number in ids:
        return ids[number]
    place = f"{entry.path.relative_to(folder).as_posix()}#{entry.number}"
    message = (
        f"{place}: expected the id of a class ({', '.join(map(str, sorted(ids)[:8]))}, ...), found "
        f"{'none' if number < 0 else number}. Add it to the names beside the files, or leave the record out."
    )
    raise _UnfitError(Problem("label outside the classes", place, message))


def _part(entry: _Entry, field: str) -> FilePart:
    make = partial(_read, entry.path, entry.number, entry.offset, entry.length, field)
    return FilePart(entry.path, f"{entry.number}:{field}", make)


def _read(path: Path, number: int, offset: int, length: int, field: str) -> bytes:
    """A field of a record, which is read and verified again: all of them would not fit into memory."""
    with _opened(path) as file:
        file.seek(offset)
        payload = framing.unframe(file.read(length + OVERHEAD), length, Place(str(path), number, offset))
    return Fields(payload, f"{path.name}#{number}").first_bytes(field)


def _renamed(item: Item, entry: _Entry) -> Item:
    return replace(item, name=f"{item.name}-{entry.path.name}-{entry.number:06d}")


def _named_ids(folder: Path, kind: _Kind) -> dict[int, str]:
    """Names by id: TensorFlow Datasets' FEATURE.labels.txt, a label map (.pbtxt), or slim's labels.txt (`0:name`)."""
    own = f"{kind.label.replace('/', '-')}.labels.txt"
    beside = {} if kind.masked else {path.suffix: path for path in listing.files(folder)}
    for path in listing.files(folder):
        if path.name == own:
            return dict(enumerate(listing.names_in_file(path)))
        if path.name == "labels.txt" and beside:
            return _numbered(path)
    if ".pbtxt" in beside:
        return _label_map(beside[".pbtxt"])
    return dict(enumerate(listing.read_classes(folder)))


def _numbered(path: Path) -> dict[int, str]:
    found = [_NUMBERED.fullmatch(line.strip()) for line in listing.text_of(path).rstrip().splitlines()]
    if all(found):
        return {int(match[1]): match[2] for match in found if match}
    return dict(enumerate(listing.names_in_file(path)))


def _label_map(path: Path) -> dict[int, str]:
    """Source: object_detection/protos/string_int_label_map.proto."""
    found = {}
    for item in _MAP_ITEM.findall(listing.text_of(path)):
        number, names = _MAP_ID.search(item), _MAP_NAME.findall(item)
        if number and names:
            found[int(number[1])] = names[-1]
    return found


def _said(shards: list[Path], kind: _Kind) -> dict[int, str]:
    """Names that the records themselves say, or class0, class1, ... by id; of masks nothing is known."""
    found: dict[int, str] = {}
    if kind.masked:
        return found
    for path in shards:
        for entry in _entries(path):
            numbers = entry.fields.ints(kind.label)
            texts = [text.decode(errors="replace") for text in entry.fields.all_bytes(kind.text)] if kind.text else []
            texts += [""] * (len(numbers) - len(texts))
            for number, text in zip(numbers, texts, strict=False):
                found[number] = found.get(number) or text
    found = {number: text for number, text in found.items() if number >= 0}  # -1: TensorFlow Datasets' "no label"
    return {number: text or f"class{number}" for number, text in found.items()}

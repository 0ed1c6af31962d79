"""`unpack`: a dataset's records as a folder of images and labels again, in a layout that other tools read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from penstock import files, outputs
from penstock.datasets.description import Description, FolderDataset
from penstock.datasets.locations import Dataset
from penstock.errors import DatasetError, OutputError
from penstock.images import probe
from penstock.kinds.fields import decode_name
from penstock.progress import silent
from penstock.records.example import Fields
from penstock.unpacked import FolderWriter, LabelledImage
from penstock.values import Record

_BEGUN: Final = ".unpacking"
"""Lies in a folder that is not whole yet."""


@dataclass(frozen=True)
class Unpacked:
    """What was written.

    Attributes:
        layout: its name.
        records: how many, by split.
        lost: what the layout cannot say, counted by name.
    """

    layout: str
    records: dict[str, int]
    lost: dict[str, int]


def unpack(
    dataset: Dataset, output: Path, layout: str = "", *, progress: Callable[[int, int], None] = silent
) -> Unpacked:
    """Write every record as its image, byte for byte as it was packed, and its label beside it.

    Args:
        dataset: in a folder or in topics.
        output: a new or empty folder, or one in which an earlier call was interrupted.
        layout: "masks" or "voc" of masks, "classes" of classes, "coco", "yolo" or "voc" of boxes, "coco" of instances;
            "" takes the first of these.
        progress: called with the offsets done and the offsets in all.

    Raises:
        DatasetError: the kind of record has no such layout, or the layout cannot hold a class's name.
        OutputError: the folder holds something.
        DataError: a record is damaged.
    """
    description = dataset.description
    layout, writer_class = _chosen(description, layout)
    begun, what = output / _BEGUN, f"{description.content} as {layout}\n".encode()
    outputs.check_folder(output, "an interrupted penstock unpack", own=_is_begun(begun, what))
    _check_outside(dataset, output)
    writer = writer_class(output, description.classes, description.colors, description.ignore_label)
    writer.check_classes()
    files.replace_whole(begun, what)
    total = sum(len(dataset.source(split).snapshot()) for split in dataset.splits)
    written: Counter[str] = Counter()
    for done, (split, record) in enumerate(_records(dataset), 1):
        writer.add(_taken_apart(split, record, description))
        written[split] += 1
        progress(done, total)
    writer.close()
    begun.unlink()
    progress(total, total)
    return Unpacked(layout, dict(written), {name: count for name, count in writer.lost.items() if count})


def _is_begun(note: Path, what: bytes) -> bool:
    """Whether the same dataset was being unpacked in the same way."""
    return not note.is_symlink() and note.is_file() and note.read_bytes() == what


def _check_outside(dataset: Dataset, output: Path) -> None:
    """Refuse a folder within the dataset's own."""
    if isinstance(dataset, FolderDataset) and output.resolve().is_relative_to(dataset.folder.resolve()):
        raise OutputError(
            f"-o {output}",
            expected="a folder outside the dataset",
            found="one within it",
            remedy="Choose another folder",
        )


def _chosen(description: Description, layout: str) -> tuple[str, type[FolderWriter]]:
    writers = description.kind.writers
    if not writers:
        raise DatasetError(
            "penstock unpack",
            expected="images with masks, classes, boxes or instances",
            found=description.task,
            remedy="Read the records in Python: penstock.open(PATH)[SPLIT]",
        )
    name = layout or next(iter(writers))
    if name not in writers:
        raise DatasetError(
            "--layout",
            expected=f"{' or '.join(writers)} for {description.task}",
            found=name,
            remedy="Choose one of them",
        )
    return name, writers[name]


def _records(dataset: Dataset) -> Iterator[tuple[str, Record]]:
    for split in dataset.splits:
        source = dataset.source(split)
        for partition in source.snapshot().partitions:
            for record in source.read(partition.name, partition.start, partition.stop):
                yield split, record


def _taken_apart(split: str, record: Record, description: Description) -> LabelledImage:
    data = Fields(record.payload, record.origin).first_bytes("image/encoded")
    info = probe(data, record.origin)
    suffix = {"jpeg": ".jpg", "png": ".png"}[info.format]
    label = description.kind.label_of(record, description)
    return LabelledImage(split, decode_name(record), data, suffix, info.size, label)

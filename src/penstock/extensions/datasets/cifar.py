"""CIFAR-10 and CIFAR-100 in their binary format (Krizhevsky 2009, www.cs.toronto.edu/~kriz/cifar.html).

A record is a label byte (CIFAR-100: the coarse one, then the fine one) and 3,072 bytes of a 32 x 32 image: the red
plane, the green and the blue one, row by row. There is no header.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from penstock.datasets import class_lists, listing
from penstock.datasets.layout import Layout
from penstock.images import codecs
from penstock.kinds.items import FilePart, Item, Labels, Problem

_SIDE: Final = 32
_PIXELS: Final = 3 * _SIDE**2


class _Kind(NamedTuple):
    """One of the formats: its folder, its files by split, the files of names, and which label byte of how many."""

    name: str
    folder: str
    files: dict[str, tuple[str, ...]]
    names: str
    label: int
    labels: int


_TEN: Final = _Kind(
    "CIFAR-10", "cifar-10-batches-bin",
    {"train": tuple(f"data_batch_{number}.bin" for number in range(1, 6)), "test": ("test_batch.bin",)},
    "batches.meta.txt", 0, 1,
)  # fmt: skip
_FINE: Final = _Kind(
    "CIFAR-100", "cifar-100-binary", {"train": ("train.bin",), "test": ("test.bin",)}, "fine_label_names.txt", 1, 2
)
_COARSE: Final = _FINE._replace(name="CIFAR-100, coarse labels", names="coarse_label_names.txt", label=0)


def recognise_ten(folder: Path) -> Layout | None:
    """CIFAR-10, in the folder or in `cifar-10-batches-bin` in it."""
    return _recognise(folder, _TEN)


def recognise_hundred(folder: Path) -> Layout | None:
    """CIFAR-100 with its 100 fine labels, in the folder or in `cifar-100-binary` in it."""
    return _recognise(folder, _FINE)


def recognise_coarse(folder: Path) -> Layout | None:
    """CIFAR-100 with its 20 coarse labels."""
    return _recognise(folder, _COARSE)


def _recognise(folder: Path, kind: _Kind) -> Layout | None:
    root = folder / kind.folder if (folder / kind.folder).is_dir() else folder
    there = [(split, root / name) for split, names in kind.files.items() for name in names if (root / name).is_file()]
    if not there or not (root / kind.names).is_file():
        return None
    classes = tuple(line.strip() for line in listing.text_of(root / kind.names).splitlines() if line.strip())
    items: list[Item] = []
    problems: list[Problem] = []
    for split, path in there:
        found, wrong = _read(folder, path, split, kind, len(classes))
        items += found
        problems += wrong
    missing = [name for names in kind.files.values() for name in names if not (root / name).is_file()]
    problems += [_missing(name, there[0][1].relative_to(folder).as_posix()) for name in missing]
    reason = f"{', '.join(path.name for _, path in there)} and the names in {kind.names}"
    return Layout(
        "classification",
        kind.name,
        (reason,),
        tuple(items),
        Labels(class_lists.check_names(list(classes), str(root / kind.names))),
        tuple(problems),
    )


def _read(folder: Path, path: Path, split: str, kind: _Kind, classes: int) -> tuple[list[Item], list[Problem]]:
    """The records of a file; those that are cut short or have no class are problems."""
    size, name = kind.labels + _PIXELS, path.relative_to(folder).as_posix()
    total = path.stat().st_size
    whole = total // size
    labels = np.memmap(path, np.uint8, "r", shape=(whole, size))[:, kind.label] if whole else np.empty(0, np.uint8)
    items = [
        Item(
            split,
            f"{path.stem}-{number:05d}",
            FilePart(path, str(number), partial(_png, path, number, kind.labels)),
            label=int(label),
        )
        for number, label in enumerate(labels)
        if label < classes
    ]
    problems = [_label(name, int(number), int(labels[number]), classes) for number in np.flatnonzero(labels >= classes)]
    if total % size or not total:
        problems.append(_size(name, total, size))
    return items, problems


def _png(path: Path, number: int, labels: int) -> bytes:
    """A record's image, without loss."""
    with path.open("rb") as file:
        file.seek(number * (labels + _PIXELS) + labels)
        planes = np.frombuffer(file.read(_PIXELS), np.uint8).reshape(3, _SIDE, _SIDE)
    return codecs.encode_png(np.ascontiguousarray(planes.transpose(1, 2, 0)))


def _label(name: str, number: int, label: int, classes: int) -> Problem:
    message = (
        f"{name}#{number}: expected a label from 0 to {classes - 1}, found {label}. "
        "The file is damaged, or of another data set: download it again."
    )
    return Problem("label outside the classes", f"{name}#{number}", message)


def _size(name: str, total: int, size: int) -> Problem:
    message = (
        f"{name}: expected whole records of {size:,} bytes, found {total:,} bytes, which is {total // size:,} and "
        f"{total % size:,} bytes more. The file was cut short, or is of another format: download it again."
    )
    return Problem("file cut short", name, message, whole=True)


def _missing(missing: str, there: str) -> Problem:
    message = f"{missing}: expected it beside {there}, found nothing. Without it some images are missing."
    return Problem("file missing", there, message, fatal=False, whole=True)

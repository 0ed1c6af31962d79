"""MNIST and its like (Fashion, KMNIST, EMNIST) in IDX files (yann.lecun.com/exdb/mnist), plain or gzipped."""

from __future__ import annotations

import gzip
import math
import zlib
from functools import cache, partial
from gzip import GzipFile
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from penstock.datasets import class_lists, listing
from penstock.datasets.layout import Layout
from penstock.errors import DatasetError
from penstock.images import codecs
from penstock.kinds.items import FilePart, Item, Labels, Problem

_FILES: Final = {"train": ("train-images", "train-labels"), "test": ("t10k-images", "t10k-labels")}
_EMNIST: Final = {
    "train": ("emnist-*-train-images", "emnist-*-train-labels"),
    "test": ("emnist-*-test-images", "emnist-*-test-labels"),
}
_BYTES: Final = 8  # the code of unsigned bytes in an IDX file
_MAX: Final = 1 << 30  # bytes of all images; those of EMNIST are 0.6 GB
_GZIP: Final = b"\x1f\x8b"


def recognise(folder: Path) -> Layout | None:
    """Pairs of `...-images-idx3-ubyte` and `...-labels-idx1-ubyte`, in the folder or in `raw` in it.

    Raises:
        DatasetError: a file is no IDX file, is cut short, or its pair has another number of records.
    """
    places = [(place, files) for files in (_FILES, _EMNIST) for place in (folder, folder / "raw", folder / "gzip")]
    root, files = next(((place, files) for place, files in places if _of(place, files["train"][0])), (folder, _FILES))
    sets = _sets(root) if files is _EMNIST else [""]
    pairs = {split: [_of(root, name.replace("*", sets[0])) for name in names] for split, names in files.items()}
    items: list[Item] = []
    problems = [_second(root, folder, sets[0], other) for other in sets[1:]]
    problems += [_alone(folder, *pair) for pair in pairs.values() if len([path for path in pair if path]) == 1]
    for split, (images, labels) in pairs.items():
        if images and labels:
            items += _read(split, images, labels)
    if not items:
        return None
    stated = class_lists.read_classes(root)
    known = _letters(root, sets[0]) if files is _EMNIST else {}
    classes = stated or tuple(known.get(i, str(i)) for i in range(1 + max(item.label or 0 for item in items)))
    reason = f"IDX files of {', '.join(dict.fromkeys(item.split for item in items))}"
    return Layout("classification", "MNIST (IDX files)", (reason,), tuple(items), Labels(classes), tuple(problems))


def _sets(root: Path) -> list[str]:
    """The sets of EMNIST that are there: balanced, byclass, bymerge, digits, letters, mnist."""
    return sorted({path.name.split("-")[1] for path in root.glob("emnist-*-train-images*idx*-ubyte*")})


def _second(root: Path, folder: Path, chosen: str, other: str) -> Problem:
    there = (root / f"emnist-{other}-train-images-idx3-ubyte").relative_to(folder).as_posix()
    message = (
        f"{there}: expected one of EMNIST's sets, found {chosen} too. Move the one you want into a folder of its own."
    )
    return Problem("two sets", there, message, whole=True)


def _letters(root: Path, chosen: str) -> dict[int, str]:
    """EMNIST's `emnist-...-mapping.txt`: a label, and the codes of the characters that it stands for."""
    path = root / f"emnist-{chosen}-mapping.txt"
    rows = [line.split() for line in listing.text_of(path).splitlines()] if path.is_file() else []
    return {int(row[0]): chr(int(row[1])) for row in rows if len(row) > 1}


def _alone(folder: Path, images: Path | None, labels: Path | None) -> Problem:
    there = (images or labels or folder).relative_to(folder).as_posix()
    wanted = "labels" if images else "images"
    message = f"{there}: expected its {wanted} beside it, found none: all of that split is left out. Add them."
    return Problem("file missing", there, message, whole=True)


def _of(folder: Path, stem: str) -> Path | None:
    return next(iter(sorted(folder.glob(f"{stem}*idx*-ubyte*"))), None) if folder.is_dir() else None


def _read(split: str, images: Path, labels: Path) -> list[Item]:
    pixels, ids = _load(images), _load(labels)
    if pixels.ndim != 3 or ids.ndim != 1 or len(pixels) != len(ids):  # noqa: PLR2004 - the axes of images
        raise DatasetError(
            str(images),
            expected="images of two axes, and as many labels",
            found=f"shapes {pixels.shape} and {ids.shape}",
            remedy="Download both files again",
        )
    return [
        Item(
            split,
            f"{split}-{number:05d}",
            FilePart(images, str(number), partial(_png, images, number)),
            label=int(label),
        )
        for number, label in enumerate(ids)
    ]


@cache
def _load(path: Path) -> NDArray[np.uint8]:
    with path.open("rb") as plain:
        zipped = plain.read(len(_GZIP)) == _GZIP
        plain.seek(0)
        with gzip.open(plain) if zipped else plain as file:
            try:
                return _array(file, path)
            except (OSError, EOFError, zlib.error) as error:
                raise DatasetError(
                    str(path), expected="a whole gzip file", found=str(error), remedy="Download it again"
                ) from None


def _array(file: GzipFile | BinaryIO, path: Path) -> NDArray[np.uint8]:
    """The array of an IDX file, of which no more is unpacked than its header announces."""
    magic = file.read(4)
    axes = magic[3] if magic[:3] == bytes((0, 0, _BYTES)) and len(magic) > 3 else 0  # noqa: PLR2004 - the magic number
    sides = file.read(4 * axes)
    shape = tuple(np.frombuffer(sides, ">u4").tolist()) if len(sides) == 4 * axes else ()
    wanted = math.prod(shape)
    values = file.read(min(wanted, _MAX) + 1) if shape else b""
    if not shape or len(values) != wanted:
        raise DatasetError(
            str(path),
            expected=f"an IDX file of bytes of shape {shape}" if shape else "an IDX file of bytes",
            found=f"{'more' if len(values) > wanted else 'fewer'} bytes than that" if shape else "another header",
            remedy="Download it again",
        )
    return np.frombuffer(values, np.uint8).reshape(shape)


def _png(path: Path, number: int) -> bytes:
    pixels = _load(path)[number]
    pixels = pixels.T if path.name.startswith("emnist") else pixels  # which was written column by column
    return codecs.encode_png(np.repeat(pixels[..., np.newaxis], 3, axis=2))

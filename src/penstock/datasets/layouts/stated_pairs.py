"""Lists and tables beside the data that pair images with other masks than those of the same names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

from penstock.datasets import listing
from penstock.datasets.layout import Layout
from penstock.datasets.layouts.csv_files import read_rows
from penstock.datasets.layouts.lookup import Images, plain
from penstock.datasets.layouts.roles import LABELS
from penstock.datasets.layouts.split_lists import tree_of
from penstock.errors import DatasetError
from penstock.kinds.items import FilePart, Problem, named

_LISTS: Final = frozenset({".txt", ".lst", ".list"})
_TABLES: Final = frozenset({".csv", ".tsv"})
_TREES: Final = frozenset({".json", ".yaml", ".yml"})
_DEEPEST: Final = 3  # folders
_MAX: Final = 200  # files
_LARGEST: Final = 16 << 20  # bytes
_NESTED: Final = 8  # lists and maps in each other
_MASK: Final = re.compile(r"mask|seg|target", re.IGNORECASE)


class _Word(NamedTuple):
    """A word of an entry, with the name of its column or key; "" where it has none."""

    name: str
    text: str


def problems(folder: Path, found: Layout) -> Iterator[Problem]:
    """A problem of each file whose entries name another mask of an image than the one that was found by its name."""
    masks = {_file(item.image): _file(item.label) for item in found.items if isinstance(item.label, Path | FilePart)}
    known, read = set(masks.values()), " ".join(found.reasons)
    if (
        not masks or len(known) < len(masks) or masks.keys() & known
    ):  # they are drawn from annotations, or from parts of one file
        return
    images = Images(folder)
    for path in islice((path for path in _paths(folder) if path not in known), _MAX):
        other = next((each for entry in _entries(path) if (each := _other(entry, images, masks, known))), None)
        if other and not re.search(rf"(^|[\s/]){re.escape(path.name)}:", read):
            name, own = named(path, folder), masks[other[0]]
            message = (
                f"{name}: expected the pairs of images and masks that are found by their names, found others: "
                f"{named(other[1], folder)} instead of {named(own, folder)}. Rename the masks as their images, or "
                f"remove {path.name}."
            )
            yield Problem("list of other pairs", name, message, whole=True)


def _file(place: Path | FilePart) -> Path:
    return place.file if isinstance(place, FilePart) else place


def _paths(folder: Path) -> Iterator[Path]:
    for path in listing.files(folder):
        inside = path.relative_to(folder)
        of_text = path.suffix.lower() in _LISTS | _TABLES | _TREES and len(inside.parts) <= _DEEPEST
        if of_text and listing.is_there(path) and path.stat().st_size <= _LARGEST:
            yield path


def _other(entry: list[_Word], images: Images, masks: dict[Path, Path], known: set[Path]) -> tuple[Path, Path] | None:
    """An image of an entry and the mask that it names for it; None where it names the same one, or none."""
    files = [
        (word.name, place)
        for word in entry
        if (PurePosixPath(plain(word.text)).suffix or "/" in word.text) and (place := images.find(word.text))
    ]
    image = next((place for _, place in files if place in masks), None)
    for name, place in files if image else ():
        is_mask = place in known or (
            place not in masks and (bool(LABELS.search(name) or _MASK.search(name)) if name else len(files) == 2)  # noqa: PLR2004
        )
        if image and is_mask and place not in {image, masks[image]}:
            return None if masks[image] in {each for _, each in files} else (image, place)
    return None


def _entries(path: Path) -> Iterator[list[_Word]]:
    """What stands together in a file: the words of a line, the cells of a row, the values of a map."""
    suffix = path.suffix.lower()
    if suffix in _TREES:
        yield from _in_tree(tree_of(path), _NESTED, set())
        return
    try:
        if suffix in _TABLES:
            rows, header = read_rows(path)
            for row in rows.values():
                yield [_Word(name, row.get(name.lower(), "")) for name in header]
            return
        lines = listing.text_of(path).splitlines()
    except DatasetError:
        return
    for line in lines:
        yield [_Word("", text) for text in re.split(r"[\s,;]+", line.strip()) if text]


def _in_tree(tree: object, depth: int, seen: set[int]) -> Iterator[list[_Word]]:
    """The entries of what JSON or YAML holds, each once: aliases of YAML may stand for the same one a billion times."""
    if id(tree) in seen or not isinstance(tree, dict | list):
        return
    seen.add(id(tree))
    if isinstance(tree, dict):
        named_so = [_Word(str(key), value) for key, value in tree.items() if isinstance(value, str)]
        yield named_so
        yield from ([_Word("", str(key)), _Word("", value)] for key, value in named_so)
    elif all(isinstance(each, str) for each in tree):
        yield [_Word("", each) for each in tree]
    for value in (tree.values() if isinstance(tree, dict) else tree) if depth else ():
        yield from _in_tree(value, depth - 1, seen)

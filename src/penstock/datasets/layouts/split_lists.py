"""Lists of images beside the data that divide it: `train.txt` and `val.txt`, `ImageSets/Main/train.txt`, `splits/`, and
the two tables of CUB-200 (Wah et al. 2011) and NABirds.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import yaml

from penstock.datasets import listing
from penstock.datasets.layout import Layout
from penstock.datasets.layouts import label_lists, split_problems
from penstock.datasets.layouts.csv_files import read_rows
from penstock.datasets.layouts.lookup import plain
from penstock.datasets.layouts.split_columns import SPLIT, read_partition, with_splits
from penstock.errors import DatasetError
from penstock.kinds.items import Item, Problem, named, unlabelled_split

_FOLDERS: Final = (
    "", "imagesets", "splits", "split", "lists", "list", "data", "sets", "meta", "segmentation", "main", "layout"
)  # fmt: skip
_TABLES: Final = frozenset({".csv", ".tsv"})
LISTS: Final = frozenset({".txt", ".lst", ".csv", ".tsv", ".list", ".json"})
_DEEPEST: Final = 3  # folders
_LARGEST: Final = 64 << 20  # bytes
_SEVERAL: Final = 2  # splits
_BEGINS: Final = re.compile(r"(train|test|val)(?=[A-Z]?[-_ ]?\d)")  # train_1, testA_2: the images of GlaS
_TREES: Final = frozenset({".json", ".yaml", ".yml"})
_AFTER: Final = re.compile(r"(?<=[a-z])(set|list|names|files|ids)\d*$", re.IGNORECASE)  # trainset.txt, testlist01.txt
_IMAGE: Final = ("image", "filename", "file_name", "filepath", "file_path", "file", "path", "img")
_ONE_FILE: Final = ("*split*.json", "*split*.y*ml", "*dataset*.json", "*datalist*.json")
_SIDES: Final = {"1": "train", "0": "test"}
_MOSTLY: Final = 0.5  # of the lines of a list name an image


def divide(folder: Path, found: Layout) -> Layout:
    """The layout with the splits of the lists that lie beside it; as it is where it has splits, or there are no lists.

    Raises:
        DatasetError: a list is no text in UTF-8.
    """
    if {item.split for item in found.items} != {"train"} or any(item.slices for item in found.items):
        return replace(found, problems=(*found.problems, *_contradictions(folder, found)))
    if divided := _by_folders(folder, found):
        return divided
    names, inside = names_of(folder, found.items), _folders(folder, found.items)
    anywhere = [*_paths(folder)]
    paths = [path for path in anywhere if is_among_lists(path.relative_to(folder))]
    near = {path: there for path in paths if (there := _of_itself(folder, path, found.items))}
    notes = [unlabelled_split(folder, there, path) for path, there in near.items()]
    lists = {path: lines for path in paths if path not in near and (lines := lines_of(path, names, inside))}
    if len({*map(split_of_list, lists)}) < _SEVERAL:
        others = (path for path in anywhere if path not in paths)
        lists |= {path: lines for path in others if (lines := lines_of(path, names, inside))}
    parts = {split: (path, lists[path]) for split, path in _chosen([*lists]).items()}
    if len({*map(split_of_list, lists)}) >= _SEVERAL > len(parts):
        notes.append(split_problems.rivals(folder, [*lists]))
    if len(parts) < _SEVERAL:
        parts = _numbered(folder)
    if len(parts) < _SEVERAL:
        parts = _of_one_file(folder, names) or _with_the_rest(paths, names)
    if len(parts) < _SEVERAL:
        notes += [split_problems.folds(folder, path, len(tree)) for path, tree in _several_folds(folder)]
        notes += [
            split_problems.of_numbers(folder, path)
            for path in listing.plain(folder, "*.txt")
            if label_lists.is_of_splits(path) and lines_of(path, names)
        ]
        plainly = (path for path in paths if path.suffix.lower() not in _TABLES | _TREES)
        notes += [
            split_problems.unread(folder, path, split_of_list(path))
            for path in plainly
            if path not in near and path not in lists
        ]
        return replace(found, problems=(*found.problems, *notes))
    return _divided(folder, replace(found, problems=(*found.problems, *notes)), parts, names)


def _contradictions(folder: Path, found: Layout) -> Iterator[Problem]:
    """The problem of a list that says other splits than folders do."""
    names, read = names_of(folder, found.items), " ".join(found.reasons)
    among = (path for path in _paths(folder) if is_among_lists(path.relative_to(folder)))
    paths = [path for path in among if path.name not in read]
    lists = {path: lines for path in paths if "trainval" not in path.stem.lower() and (lines := lines_of(path, names))}
    parts = {split: (path, lists[path]) for split, path in _chosen([*lists]).items()}
    for split, (path, lines) in (parts or _of_one_file(folder, names)).items():
        for line, word in lines:
            number = find(word, names)
            item = found.items[number] if number is not None and number >= 0 else None
            if item and item.split != split:
                yield split_problems.contradiction(folder, path, line, split, item.image, item.split)
                return


def _divided(
    folder: Path, found: Layout, parts: Mapping[str, tuple[Path, list[tuple[int, str]]]], names: Mapping[str, int]
) -> Layout:
    assigned: dict[int, str] = {}
    problems: list[Problem] = []
    for split, (path, lines) in parts.items():
        problems += _assign(folder, path, split, lines, names, assigned, found.items)
    items = tuple(replace(each, split=assigned[n]) for n, each in enumerate(found.items) if n in assigned)
    left = [named(each.image, folder) for n, each in enumerate(found.items) if n not in assigned]
    problems += [split_problems.unlisted(name) for name in left]
    files = dict.fromkeys(named(path, folder) for path, _ in parts.values())
    about = f"the splits are those of {', '.join(files)}"
    return replace(found, items=items, problems=(*found.problems, *problems), reasons=(*found.reasons, about))


def _of_itself(folder: Path, path: Path, items: Sequence[Item]) -> Path | None:
    """The folder of a split without labels whose files its list names, as those of train may be called too."""
    there = listing.splits(folder).get(split_of_list(path))
    if there is None or any(isinstance(each.image, Path) and each.image.is_relative_to(there) for each in items):
        return None
    own = {name for each in listing.files(there) if listing.is_image(each) for name in (each.name, each.stem)}
    words = [_first_word(line) for line in listing.text_of(path).splitlines() if line.strip()]
    return there if words and all(word in own for word in words[1:]) else None


def _by_folders(folder: Path, found: Layout) -> Layout | None:
    """The layout with the splits that the folders of its images, or these themselves, are called for; None for none."""
    ways: dict[str, Callable[[str], str]] = {
        "the splits are those of the folders that the images lie in": listing.split_of,
        "the splits are those in the names of the folders": lambda name: listing.role_of(name)[1],
    }
    above = [named(item.image, folder).split("/")[:-1] for item in found.items]
    every = {about: [{split for name in names if (split := of(name))} for names in above] for about, of in ways.items()}
    begins = [_BEGINS.match(item.name.rpartition("/")[2]) for item in found.items]
    every["the splits are those that the names of the images begin with"] = [
        {each[1]} if each else set() for each in begins
    ]
    for about, splits in every.items():
        if all(len(each) == 1 for each in splits) and len(set().union(*splits)) >= _SEVERAL:
            items = tuple(replace(item, split=min(each)) for item, each in zip(found.items, splits, strict=True))
            return replace(found, items=items, reasons=(*found.reasons, about))
    return None


def _paths(folder: Path) -> Iterator[Path]:
    """The files that are named for a split."""
    for path in listing.files(folder):
        above = path.relative_to(folder).parts[:-1]
        is_list = len(above) <= _DEEPEST and path.suffix.lower() in LISTS and split_of_list(path)
        if is_list and path.stat().st_size <= _LARGEST:
            yield path


def is_among_lists(path: Path) -> bool:
    """Whether a file lies where lists are kept: beside the data, or in a folder of lists."""
    return all(name.lower() in _FOLDERS for name in path.parts[:-1])


def _chosen(paths: Sequence[Path]) -> dict[str, Path]:
    """The list of every split: the one that is called so alone, else the only one."""
    found: dict[str, list[Path]] = {}
    for path in paths:
        found.setdefault(split_of_list(path), []).append(path)
    plainly = {split: [path for path in each if listing.split_of(path.stem)] or each for split, each in found.items()}
    exact = {split: [path for path in each if path.stem.lower() == split] or each for split, each in plainly.items()}
    return {split: each[0] for split, each in exact.items() if len(each) == 1}


def _numbered(folder: Path) -> dict[str, tuple[Path, list[tuple[int, str]]]]:
    """The lines by split of `train_test_split.txt`, whose 1 is train and 0 test; `images.txt` numbers the images."""
    images, sides = folder / "images.txt", folder / "train_test_split.txt"
    if not images.is_file() or not sides.is_file():
        return {}
    paths = dict(line.split(maxsplit=1) for line in listing.text_of(images).splitlines() if len(line.split()) > 1)
    found: dict[str, tuple[Path, list[tuple[int, str]]]] = {}
    for number, line in enumerate(listing.text_of(sides).splitlines(), 1):
        image, _, side = line.strip().partition(" ")
        if image not in paths or side not in _SIDES:
            expected = f"the number of an image in {images.name}, and 1 for train or 0 for test"
            raise DatasetError(f"{sides}, line {number}", expected=expected, found=line[:80], remedy="Fix the line")
        found.setdefault(_SIDES[side], (sides, []))[1].append((number, paths[image].strip()))
    return found


def _of_one_file(folder: Path, names: Mapping[str, int]) -> dict[str, tuple[Path, list[tuple[int, str]]]]:
    """The lines by split of a table with a column of images and one of splits, or of a JSON file of lists by split."""
    for path in listing.plain(folder, "*.csv", "*.tsv", "*partition*.txt", "*split*.txt", *_ONE_FILE):
        lines = [*(_in_tree(path) if path.suffix in _TREES else _in_table(path, names))]
        known = sum(find(word, names) is not None for _, _, word in lines)
        if known > _MOSTLY * len(lines):
            found: dict[str, tuple[Path, list[tuple[int, str]]]] = {}
            for split, number, word in lines:
                found.setdefault(split, (path, []))[1].append((number, word))
            return found
    return {}


def _in_tree(path: Path) -> Iterator[tuple[str, int, str]]:
    """The entries of a file of lists by split, as MONAI's data lists are too: each a name, or a table that has one."""
    tree = tree_of(path)
    tree = tree[0] if isinstance(tree, list) and len(tree) == 1 else tree  # nnU-Net's list of a single fold
    lists = {key: value for key, value in tree.items() if isinstance(value, list)} if isinstance(tree, dict) else {}
    by_key = [(split, word) for key, value in lists.items() if (split := listing.split_of(str(key))) for word in value]
    rows = tree if isinstance(tree, list) else [word for value in lists.values() for word in value]
    by_row = [(listing.split_of(str(row.get("split", ""))), row) for row in rows if isinstance(row, dict)]
    words = by_key or [(split, row) for split, row in by_row if split]
    yield from ((split, number, _name_in(word)) for number, (split, word) in enumerate(words, 1))


def tree_of(path: Path) -> Any:
    """What a file of JSON or YAML holds; None where it is damaged, or too large for a list of images."""
    with contextlib.suppress(OSError, ValueError, RecursionError, yaml.YAMLError):
        if path.stat().st_size <= _LARGEST:
            data = path.read_bytes()
            return json.loads(data) if path.suffix == ".json" else yaml.load(data, yaml.BaseLoader)
    return None


def _name_in(entry: object) -> str:
    image = next((entry[key] for key in _IMAGE if key in entry), "") if isinstance(entry, dict) else entry
    name = image[0] if isinstance(image, list) and image else image
    return str(name) if isinstance(name, str | int) else ""  # what aliases of YAML nest may be written out to gigabytes


def _in_table(path: Path, names: Mapping[str, int]) -> Iterator[tuple[str, int, str]]:
    try:
        rows, header = read_partition(path) if path.suffix == ".txt" else read_rows(path)
    except DatasetError:
        return
    if any(find(cell, names) is not None for cell in header):  # which is the first row
        rows = {1: {name.lower(): name for name in header}, **rows}
    if len({split for name in header if (split := listing.split_of(name))}) >= _SEVERAL:
        by_column = [
            (listing.split_of(name), number, row.get(name.lower(), ""))
            for name in header
            for number, row in rows.items()
        ]
        yield from (line for line in by_column if line[0] and line[2])
        return
    rows, column = with_splits(rows, header, "")
    cells = {name: [row.get(name.lower(), "") for row in rows.values()] for name in header if name != column}
    images = {name: sum(find(cell, names) is not None for cell in each) for name, each in cells.items()}
    best = max(images, key=lambda name: images[name], default="")
    if column and best:
        yield from ((row[SPLIT], number, row.get(best.lower(), "")) for number, row in rows.items() if row[SPLIT])


def _with_the_rest(paths: Sequence[Path], names: Mapping[str, int]) -> dict[str, tuple[Path, list[tuple[int, str]]]]:
    """The only list, of val or test, as fastai's `valid.txt` is; what it does not name is train."""
    if len(paths) != 1 or split_of_list(paths[0]) == "train" or not (lines := lines_of(paths[0], names)):
        return {}
    own = {find(word, names) for _, word in lines}
    longest = {number: name for name, number in sorted(names.items(), key=lambda each: len(each[0])) if number >= 0}
    rest = [(0, name) for number, name in longest.items() if number not in own]
    return {split_of_list(paths[0]): (paths[0], lines), "train": (paths[0], rest)}


def split_of_list(path: Path) -> str:
    """The split that a list is named for; "" for none."""
    return listing.role_of(_AFTER.sub("", path.stem))[1]


def names_of(folder: Path, items: Sequence[Item]) -> Mapping[str, int]:
    """What lists call an image: its path or the end of it, with or without suffix; -1 marks names of several."""
    found: dict[str, int] = {}
    for number, item in enumerate(items):
        path = listing.composed(named(item.image, folder).replace("#", "/"))
        parts = path.split("/")
        for start in range(len(parts)):
            end = "/".join(parts[start:])
            for name in {end, end.rpartition(".")[0] or end}:
                found[name] = number if found.get(name, number) == number else -1
    return found


def _folders(folder: Path, items: Sequence[Item]) -> Mapping[str, list[str]]:
    """The images of each folder, by its path or the end of it: lists of videos name those."""
    found: dict[str, list[str]] = {}
    for item in items:
        path = listing.composed(named(item.image, folder))
        above = path.split("/")[:-1]
        for start in range(len(above)):
            found.setdefault("/".join(above[start:]), []).append(path)
    return found


def lines_of(
    path: Path, names: Mapping[str, int], folders: Mapping[str, list[str]] = MappingProxyType({})
) -> list[tuple[int, str]]:
    """The lines with what each calls an image, those of a folder once for each of its images; none where few of them
    name one.
    """
    try:
        text = listing.text_of(path) if path.suffix.lower() != ".json" else ""
    except DatasetError:
        return []
    tree = tree_of(path) if path.suffix.lower() == ".json" else None
    said = [*map(_name_in, tree)] if isinstance(tree, list) else [_first_word(line) for line in text.splitlines()]
    words = [(number, word) for number, word in enumerate(said, 1) if word]
    lines = [
        (number, each)
        for number, word in words
        for each in ([word] if find(word, names) is not None else folders.get(plain(word).strip("/"), [word]))
    ]
    known = sum(find(word, names) is not None for _, word in lines)
    if known and lines and find(lines[0][1], names) is None and path.suffix.lower() in _TABLES:
        lines = lines[1:]  # the names of the columns
    return lines if known > _MOSTLY * len(lines) else []


def _first_word(line: str) -> str:
    """A line that names a file with spaces is not divided at them."""
    line = line.strip()
    for sign in (",", "\t"):
        line = line.partition(sign)[0]
    return line


def find(word: str, names: Mapping[str, int]) -> int | None:
    """The image that a line names, by its path or by ends of it; -1 where several are called so, None where none is."""
    several = None
    for text in (word, word.split(" ", maxsplit=1)[0]):
        parts = plain(text).removeprefix("./").split("/")
        for start in range(len(parts)):
            number = names.get("/".join(parts[start:]))
            if number is not None and number >= 0:
                return number
            several = number if several is None else several
    return several


def _assign(
    folder: Path,
    path: Path,
    split: str,
    lines: Sequence[tuple[int, str]],
    names: Mapping[str, int],
    assigned: dict[int, str],
    items: Sequence[Item],
) -> Iterator[Problem]:
    """Give the images of a list its split; what does not fit is a problem."""
    for line, word in lines:
        place = f"{named(path, folder)}, line {line}"
        number = find(word, names)
        if number is None or number < 0:
            found = f"{word[:80]}, which is none. Add the image, or remove the line"
            if number is not None:
                found = f"{word[:80]}, as several are called. Write its path from the folder of the data"
            yield Problem("image missing", place, f"{place}: expected an image, found {found}.")
        elif assigned.setdefault(number, split) != split:
            name = named(items[number].image, folder)
            found = f"{name}, which is in {assigned[number]} too"
            message = f"{place}: expected an image of one split, found {found}. Remove one of the two lines."
            yield Problem("image in two lists", name, message)


def _several_folds(folder: Path) -> Iterator[tuple[Path, list[Any]]]:
    """Files of several ways to divide the images, as nnU-Net's splits_final.json is."""
    for path in listing.plain(folder, *_ONE_FILE):
        tree = tree_of(path)
        if (
            isinstance(tree, list)
            and len(tree) > 1
            and all(isinstance(each, dict) and "train" in each for each in tree)
        ):
            yield path, tree

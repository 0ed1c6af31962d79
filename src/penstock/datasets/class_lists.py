"""Names of classes in a file beside the data."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from penstock.datasets import listing
from penstock.errors import DatasetError

CLASS_FILES: Final = (
    "classes.txt", "class_names.txt", "label_names.txt", "labels.txt", "classes.names", "obj.names", "synsets.txt",
    "codes.txt", "classes.csv", "class_names.csv", "train/_classes.csv", "classes.json",
    "class_names.json", "label_names.json", "labels.json", "notes.json", "id2label.json", "label2id.json",
    "label_map.json", "class_map.json", "cat_to_name.json", "label_num_to_disease_map.json", "classes.yaml",
    "classes.yml",
)  # fmt: skip
"""Files of class names beside the data: one a line, perhaps with its id; a list of JSON or YAML, or a map of ids to
names or of names to ids.
"""
_NUMBERED: Final = re.compile(r"(\d{1,9})(?:[:;,\t]\s*|\s+)(\S.*)")
_NAMED: Final = re.compile(r"(\S(?:[^;,\t]*[^;,\t:\s])?)(?:[:;,\t]\s*|\s+)(\d{1,9})(?:\.0)?")
_OF_NAMES: Final = frozenset({"name", "names", "class", "class_name", "label"})  # the only column of a table
_SURE: Final = re.compile(r"class|id2label|label2id|label_map")  # in the name of a file that holds nothing else
_MAX_JSON: Final = 1 << 20  # bytes of a file of class names
_LONGEST: Final = 120  # letters of what a parser says
_SHOWN: Final = 8  # names in a line
_MAX_DIGITS: Final = 18  # of an id
_IGNORED: Final = 255  # an id that means no class
NAMELESS: Final = "class0"
"""Class 0 of a list whose ids begin with 1."""
_NO_CLASS: Final = "__ignore__"  # LabelMe's first line, of the id -1


def read_classes(folder: Path) -> tuple[str, ...]:
    """The names in the folder's `classes.txt`, or a file of another usual name; empty where there is none.

    A `labels.txt` of lines `id:name`, as TF-slim writes it, or of images with their labels is no such file, nor is JSON
    of another form.

    Raises:
        DatasetError: ids have gaps, two files have the same names in another order, or as `names_in_file` does.
    """
    found: dict[Path, tuple[str, ...]] = {}
    for path in (folder / name for name in CLASS_FILES):
        if not path.is_file() or _is_no_list_of_classes(path):
            continue
        try:
            names = _names_in(path)
        except DatasetError:
            if not found:  # the first list is the one that is read
                raise
            continue
        if names:
            found[path] = names
    first, names = next(iter(found.items()), (folder, ()))
    for path, others in found.items():
        if others != names and sorted(others) == sorted(names):
            raise DatasetError(
                str(path),
                expected=f"the classes of {first.name}, {', '.join(names[:_SHOWN])}, in the same order",
                found=", ".join(others[:_SHOWN]),
                remedy="Remove the list whose ids are not those of the labels",
            )
    return names


def _names_in(path: Path) -> tuple[str, ...]:
    if path.suffix in {".json", ".yaml", ".yml"}:
        return names_in_json(path)
    if path.suffix != ".csv":
        return names_in_file(path)
    lines = [line for each in listing.text_of(path).splitlines() if (line := each.strip())]
    if lines and lines[0].lower() in _OF_NAMES:
        return check_names([*map(listing.composed, lines[1:])], str(path))
    return _numbered(lines, str(path))


def _numbered(lines: Sequence[str], where: str) -> tuple[str, ...]:
    """The names of lines that each have an id too, perhaps below the names of the columns; none where some have another
    form. Ids that begin with 1 leave id 0 to a class without a name.

    Raises:
        DatasetError: ids have gaps, or one has two names.
    """
    for rows in (lines, lines[1:]):
        pairs = [(int(each[1]), each[2].strip()) for line in rows if (each := _NUMBERED.fullmatch(line))]
        if len(pairs) < len(rows):
            pairs = [(int(each[2]), each[1].strip()) for line in rows if (each := _NAMED.fullmatch(line))]
        ids = [number for number, _ in pairs]
        if not rows or len(pairs) < len(rows):
            continue
        if len({*ids}) < len(ids) and _are_ids(ids):
            raise DatasetError(
                where, expected="a name for each id", found=f"two of id {_twice(ids)}", remedy="Correct the ids"
            )
        names = dict(pairs)
        if len(names) == len(rows) == len({*names.values()}) and _are_in_order(ids):
            names.setdefault(0, NAMELESS)
            _check_gaps(sorted(names), where)
            return check_names([listing.composed(names[number]) for number in sorted(names)], where)
    return ()


def _are_in_order(ids: Sequence[int]) -> bool:
    """Whether numbers are ids, and not parts of names: all from 0 on, or rising ones from 0 or 1 on."""
    return sorted(ids) == [*range(len(ids))] or (sorted(ids) == [*ids] and min(ids, default=2) < 2)  # noqa: PLR2004


def _are_ids(numbers: Sequence[int]) -> bool:
    """Whether numbers of which some occur twice are ids all the same: they rise from 0 or 1, and few are missing."""
    rising = sorted(numbers) == [*numbers] and min(numbers) < 2  # noqa: PLR2004 - 0 or 1
    return rising and max(numbers) <= len(numbers) and 2 * len({*numbers}) > len(numbers)


def _twice(ids: Sequence[int]) -> int:
    return next(number for place, number in enumerate(ids) if number in ids[:place])


def _check_gaps(ids: list[int], where: str) -> None:
    if ids != [*range(len(ids))]:
        raise DatasetError(
            where,
            expected="class names for the ids from 0 on, without gaps",
            found=f"ids {', '.join(map(str, ids[:12]))}{', ...' if len(ids) > 12 else ''}",  # noqa: PLR2004 - a line
            remedy="Name every id, or write classes.txt with a line for each",
        )


def _is_no_list_of_classes(path: Path) -> bool:
    if path.name == "notes.json":  # Label Studio's; others write anything into one
        return b'"categories"' not in path.read_bytes()
    lines = path.read_bytes().split(b"\n") if path.name == "labels.txt" else []
    return any(re.match(rb"\s*\d+\s*:|.*\.(jpe?g|png|tiff?|bmp)\s", line, re.IGNORECASE) for line in lines)


def names_in_json(path: Path) -> tuple[str, ...]:
    """Class names of a list, of a map of ids to names (Hugging Face's `id2label`) or of names to ids, in the order of
    their ids; empty where the file holds something else. Id 255 behind a gap is no class, and ids that begin with 1
    leave id 0 to a class without a name.

    Raises:
        DatasetError: ids have gaps, or `check_names` refuses a name.
    """
    if path.stat().st_size > _MAX_JSON:
        return ()
    try:
        found = json_or_yaml(path)
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        if not _SURE.search(path.stem):
            return ()
        raise DatasetError(
            str(path),
            expected="names of classes",
            found=" ".join(str(error).split())[:_LONGEST] or "values nested too deeply",
            remedy="Fix the file, or remove it",
        ) from None
    listed = (found.get(key) for key in ("names", "categories", "classes")) if isinstance(found, dict) else ()
    names = _by_id(next(filter(None, listed), found))
    if not names or any(listing.is_image(Path(name)) for name in names.values()):
        return ()
    if sorted(names) == [*range(1, len(names) + 1)]:
        names[0] = NAMELESS
    ids = sorted(names)
    if ids[-1] == _IGNORED and len(ids) <= _IGNORED:
        ids.pop()  # of fewer classes than that id counts
    _check_gaps(ids, str(path))
    return check_names([listing.composed(names[number]) for number in ids], str(path))


def json_or_yaml(path: Path) -> Any:
    """The value in a file, by its ending; texts for all values of YAML.

    Raises:
        ValueError: it cannot be read, or a key of JSON or YAML occurs twice.
    """
    if path.suffix == ".json":
        return json.loads(path.read_bytes(), object_pairs_hook=_unique)
    tree = yaml.compose(path.read_bytes(), yaml.BaseLoader)
    if isinstance(tree, yaml.MappingNode):
        _unique([(str(key.value), None) for key, _ in tree.value])
    return yaml.load(path.read_bytes(), yaml.BaseLoader)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        message = f"{next(name for place, name in enumerate(names) if name in names[:place])!r} twice"
        raise ValueError(message)
    return found


def id_in(text: str) -> int:
    """The id that a text states; -1 where it states none, or a number of more digits than ids have."""
    return int(text) if text.isdecimal() and len(text) <= _MAX_DIGITS else -1


def by_number(name: str) -> tuple[float, str]:
    """What names are sorted by: numbers in their order, words by their letters."""
    return float(name) if re.fullmatch(r"\d{1,18}\.\d{1,18}", name) else id_in(name), name


def _by_id(found: Any) -> dict[int, str]:
    """Names by their ids, of a list of JSON, of a map of ids to names or of names to ids; empty where it is none."""
    if isinstance(found, list) and all(isinstance(name, str) for name in found):
        return dict(enumerate(found))
    if isinstance(found, list) and all(isinstance(each, dict) and isinstance(each.get("name"), str) for each in found):
        names = {id_in(str(each["id"])): each["name"] for each in found if isinstance(each.get("id"), str | int)}
        return names if len(names) == len(found) and min(names, default=-1) >= 0 else {}
    if not isinstance(found, dict):
        return {}
    if all(id_in(key) >= 0 and isinstance(name, str) for key, name in found.items()):
        return {id_in(key): name for key, name in found.items()}
    ids = [id_in(str(number)) if type(number) in {int, str} else -1 for number in found.values()]
    names = dict(zip(ids, found, strict=True)) if min(ids, default=-1) >= 0 else {}
    return names if len(names) == len(found) else {}  # images with their labels share some


def names_in_file(path: Path) -> tuple[str, ...]:
    """Class names, one a line, in the order of their ids.

    Raises:
        DatasetError: the file is no UTF-8 text, or `check_names` refuses it.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise DatasetError(
            str(path), expected="class names in UTF-8", found=str(error), remedy="Save the file as UTF-8"
        ) from None
    lines = [line.strip() for line in text.rstrip().split("\n")]
    if lines[0] == _NO_CLASS:
        lines = lines[1:]
    lines = [line for line in lines if not line.startswith("# ")]
    return _numbered(lines, str(path)) or check_names([*map(listing.composed, lines)], str(path))


def check_names(names: list[str], where: str) -> tuple[str, ...]:
    """Class names in the order of their ids.

    Raises:
        DatasetError: one is empty, which would shift all ids behind it, occurs twice, or cannot be printed.
    """
    first: dict[str, int] = {}
    for number, name in enumerate(names):
        if not name or first.setdefault(name, number) != number:
            raise DatasetError(
                where,
                expected="a class name for every id, each of them once",
                found=f"{name!r} for the ids {first[name]} and {number}" if name else f"no name for id {number}",
                remedy="Give every class a name of its own",
            )
    check_letters(names, where)
    return tuple(names)


def check_letters(names: Iterable[str], where: str) -> None:
    """Class names are printed and kept, so they must be text, and not tell a terminal what to do.

    Raises:
        DatasetError: one is no text, or holds a control character.
    """
    for number, name in enumerate(names):
        if not listing.is_text(name):
            raise DatasetError(
                where,
                expected="class names in UTF-8, without control characters",
                found=f"{name!a} for id {number}",
                remedy="Rename the class",
            )

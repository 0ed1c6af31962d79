"""The legend of masks in colour: which colour is which class.

Formats: `class_dict.csv` with columns name, r, g, b; CVAT's `labelmap.txt` with lines `name:r,g,b:parts:actions`; a
JSON table of names and `[r, g, b]` or "#rrggbb". Classes have the order of the file.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from penstock.datasets import class_lists, listing
from penstock.errors import DatasetError, ImageError
from penstock.images import probe
from penstock.images.drawing import palette_of
from penstock.kinds.items import MAX_IDS, FilePart, Labels

Color = tuple[int, int, int]

_FILES: Final = ("class_dict.csv", "class_dict_seg.csv", "labelmap.txt", "label_colors.txt", "colors.json")
_CALLED: Final = re.compile(r"colou?r|palette|legend|label_?map|classes", re.IGNORECASE)
_ENDS: Final = frozenset({".txt", ".csv", ".json"})
_BORDER: Final = (224, 224, 192)
"""Of the edges of objects in Pascal VOC's masks, which are ignored."""
_IGNORED: Final = 255
_NNUNET: Final = ("dataset.json", "dataset*.json", "datalist*.json")
_NAME: Final = ("name", "class", "label", "class_name")
_ID: Final = ("id", "class_id", "label_id", "index", "value")
_CHANNELS: Final = (("r", "red"), ("g", "green"), ("b", "blue"))


def find(folder: Path) -> Labels | None:
    """The classes and colours of the folder's legend; None where there is none. A file that only its name makes one,
    such as `colour_key.txt`, is passed over if it holds something else.

    Raises:
        DatasetError: as `read`.
    """
    path = next((path for name in _FILES if (path := folder / name).is_file()), None)
    if path:
        return read(path)
    for other in listing.plain(folder, "*"):
        if other.suffix.lower() in _ENDS and _CALLED.search(other.stem):
            try:
                found = read(other)
            except DatasetError:
                continue
            if found.colors:
                return found
    return None


def in_colormap(labels: Labels, mask: Path | FilePart | None) -> Labels:
    """Labels of palette PNGs or of images in the colours of a legend or of VOC, whose border colour is ignored."""
    colors = labels.colors
    if not colors and isinstance(mask, Path) and _is_rgb(mask):
        voc = palette_of("voc", _IGNORED)[: len(labels.classes)].tolist()
        colors = {(red, green, blue): number for number, (red, green, blue) in enumerate(voc)}
    if not colors:
        return replace(labels, palette=True)
    return replace(labels, palette=not labels.colors, colors={_BORDER: _IGNORED, **colors})


def _is_rgb(mask: Path) -> bool:
    try:
        info = probe(mask.read_bytes(), mask.name)
    except (ImageError, OSError):
        return False
    return info.channels >= 3 and not info.palette  # noqa: PLR2004 - RGB


def nnunet(folder: Path) -> Labels | None:
    """The classes that nnU-Net's dataset.json names by id, or whose ids it gives by name; None where there are none."""
    path = next((path for name in _NNUNET for path in listing.plain(folder, name)), folder)
    try:
        tree = json.loads(listing.text_of(path)) if path.is_file() else {}
        labels = tree["labels"]
        lists = {str(name): label for name, label in labels.items() if isinstance(label, list)}
        regions = [name for name, ids in lists.items() if all(isinstance(each, int) for each in ids)]
        plain = {} if regions else labels
        ids = {int(key): str(name) for key, name in plain.items() if str(key).isdigit()}
        ids = ids or {int(label): str(name) for name, label in plain.items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, DatasetError):
        return None
    if regions:
        raise _of_regions(path, regions)
    highest = max(ids, default=0)
    ignored = {highest: _IGNORED} if ids.get(highest) == "ignore" else {}  # which nnU-Net wants to be the last one
    names = [ids[number] for number in sorted(ids) if number not in ignored]
    if not names or sorted(ids) != [*range(len(ids))]:
        return None
    return Labels(class_lists.check_names(names, str(path)), mapping=ignored)


def _of_regions(path: Path, regions: Sequence[str]) -> DatasetError:
    return DatasetError(
        f"{path}: labels",
        expected="an id for each class",
        found=f"regions of several ids: {', '.join(regions)}",
        remedy="Write the class of each id that the masks hold",
    )


def read(path: Path) -> Labels:
    """The classes and their colours.

    Raises:
        DatasetError: the file is no legend, or names a class or a colour twice.
    """
    text = listing.text_of(path)
    try:
        pairs: Sequence[tuple[str, Color | None]]
        if path.suffix == ".json":
            pairs = _json(text)
        elif path.suffix == ".csv":
            pairs = _csv(text)
        else:
            pairs = _lines(text)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, csv.Error) as error:
        raise DatasetError(
            str(path),
            expected="a name and the three numbers of a colour, 0 to 255, for every class",
            found=str(error) or "another format",
            remedy="Write a CSV file with the columns name, r, g and b",
        ) from None
    return _labels(path, pairs)


def _labels(path: Path, pairs: Sequence[tuple[str, Color | None]]) -> Labels:
    names = class_lists.check_names([name for name, _ in pairs], str(path))
    colors = [color for _, color in pairs if color]
    if names and not colors:
        return Labels(names)
    twice = next((color for number, color in enumerate(colors) if color in colors[:number]), None)
    if twice or not 0 < len(names) <= MAX_IDS:
        raise DatasetError(
            str(path),
            expected=f"1 to {MAX_IDS} classes, each of a colour of its own",
            found=f"the colour {twice} twice" if twice else f"{len(names)} classes",
            remedy="Fix the file",
        )
    return Labels(names, colors={color: label for label, color in enumerate(colors)})


def _color(values: Sequence[Any]) -> Color:
    red, green, blue = (int(value) for value in values)
    if not all(0 <= value <= 255 for value in (red, green, blue)):  # noqa: PLR2004 - a byte
        message = f"{red}, {green}, {blue}"
        raise ValueError(message)
    return red, green, blue


def _csv(text: str) -> list[tuple[str, Color]]:
    rows = [
        {str(key).strip().lower(): str(cell or "").strip() for key, cell in row.items()}
        for row in csv.DictReader(io.StringIO(text), delimiter=max(",;\t", key=text.partition("\n")[0].count))
    ]
    name = next(name for name in (*_NAME, "") if not name or (rows and name in rows[0]))
    numbered = next((key for key in _ID if rows and key in rows[0]), "")
    if numbered and sorted(row[numbered] for row in rows) == sorted(map(str, range(len(rows)))):
        rows = sorted(rows, key=lambda row: int(row[numbered]))
    if colored := next((key for key in ("color", "colour", "hex") if rows and key in rows[0]), ""):
        return [(row[name], _color(_hexadecimal(row[colored]))) for row in rows]
    channels = [next((key for key in keys if rows and key in rows[0]), keys[0]) for keys in _CHANNELS]
    return [(row[name], _color([row[key] for key in channels])) for row in rows]


def _lines(text: str) -> list[tuple[str, Color | None]]:
    """Lines `name:r,g,b:...`, or `r g b name` as CamVid's authors write them; or names alone, `name:::` or `name`."""
    found: list[tuple[str, Color | None]] = []
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        if match := re.fullmatch(r"\s*(\d+)[\s,]+(\d+)[\s,]+(\d+)\s+(.+?)\s*", line):
            found.append((match[4], _color([match[1], match[2], match[3]])))
        else:
            name, color, *_ = (*line.split(":"), "")
            found.append((name.strip(), _color(color.split(",")) if color.strip() else None))
    if len({color is None for _, color in found}) > 1:
        message = "classes with a colour and classes without one"
        raise ValueError(message)
    return found


def _json(text: str) -> list[tuple[str, Color]]:
    tree = json.loads(text)
    if isinstance(tree, list) and all(isinstance(each, dict) for each in tree):
        tree = {each[next((key for key in _NAME if key in each), "name")]: each["color"] for each in tree}
    return [(name, _color(_hexadecimal(color) if isinstance(color, str) else color)) for name, color in tree.items()]


def _hexadecimal(text: str) -> tuple[int, ...]:
    return tuple(bytes.fromhex(text.strip().removeprefix("#")))

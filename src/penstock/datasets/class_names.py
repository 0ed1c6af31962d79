"""Names of classes that are probably one class, or several."""

from __future__ import annotations

import contextlib
import difflib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from penstock.kinds.base import Kind
from penstock.kinds.items import InspectedItem, Labels, Problem, named
from penstock.progress import counted

_RARE: Final = 0.1  # of the images of the class with nearly the same name
_NEARLY: Final = 0.8  # of two words is the same, as difflib measures it
_SHORTEST: Final = 4  # letters of a word that could be another one misspelt
_MOST, _NEARLY_ALL = 0.5, 0.9  # of the pixels
_BACKGROUND: Final = re.compile(r"back|\bbg\b|void|none|no_|not|other|unlabel|ground|class_?0", re.IGNORECASE)
_ABSENT: Final = re.compile(r"<?n/?a>?|#n/?a|null|none|nil|missing|unknown|\?+|-+|\.", re.IGNORECASE)
_SEPARATORS: Final = re.compile(r"\s*[,;|]\s*")


def doubts(items: Sequence[InspectedItem], labels: Labels, folder: Path, kind: Kind) -> Iterator[Problem]:
    """Problems of names that are one number, and notes of names that look misspelt or joined."""
    if not items:
        return
    place = named(items[0].item.image, folder)
    yield from (Problem("numbers alike", place, message, whole=True) for message in _equal(labels.classes))
    yield from _without_background(items, labels, place, kind)
    for message in (
        *_negative(labels.classes),
        *_missing(labels.classes),
        *_alike(labels.classes),
        *_misspelt(items, labels.classes, kind),
        *_joined(labels.classes),
        *_of_two_kinds(labels.classes),
    ):
        yield Problem("classes alike", place, message, fatal=False, whole=True)


def from_one(place: str, thing: str, names: Sequence[str]) -> Problem:
    """A note of ids among which 0 is missing, as where they are counted from 1."""
    message = (
        f"{place}: no {thing} has the id 0, {names[0]}. If ids are counted from 1, every {thing} has the name of the "
        "next class: subtract 1 from the ids."
    )
    return Problem("id 0 is not used", place, message, fatal=False, whole=True)


def _without_background(items: Sequence[InspectedItem], labels: Labels, place: str, kind: Kind) -> Iterator[Problem]:
    """A note of masks whose class 0 covers nearly all pixels, or most while the last class covers none, as where the
    background has no name.
    """
    counts = kind.count(items, len(labels.classes))
    if not kind.reads_masks or len(counts) <= 1 or not sum(counts) or _BACKGROUND.search(labels.classes[0]):
        return
    covered = counts[0] / sum(counts)
    if covered <= (_NEARLY_ALL if counts[-1] else _MOST):
        return
    message = (
        f"{place}: the id 0, {labels.classes[0]}, covers {covered:.0%} of the pixels. If 0 is the background, write "
        "background in front of the other names."
    )
    yield Problem("no background", place, message, fatal=False, whole=True)


def _equal(classes: Sequence[str]) -> Iterator[str]:
    """Classes such as 1 and 1.0, as tables of several programs have them."""
    first: dict[float, str] = {}
    for name in classes:
        with contextlib.suppress(ValueError):
            if name.strip()[-1:].isdigit() and (other := first.setdefault(float(name), name)) != name:
                yield f"classes {other!r} and {name!r} are one number: write it in the same way everywhere."


def _negative(classes: Sequence[str]) -> Iterator[str]:
    """Classes such as -1 beside numbers from 0 on, as some tables mark what has no label."""
    numbers = [name for name in classes if re.fullmatch(r"-?\d+", name)]
    if len(numbers) == len(classes) > 1:
        for name in (name for name in numbers if name.startswith("-")):
            yield f"class {name!r} is a class of its own: if it marks what has no label, remove its rows."


def _missing(classes: Sequence[str]) -> Iterator[str]:
    """Classes such as NA or null, as R, Excel and databases write a value that is missing."""
    for name in classes if len(classes) > 1 else ():
        if _ABSENT.fullmatch(name):
            yield f"class {name!r} is a class of its own: if it stands for a label that is missing, remove its rows."


def _of_two_kinds(classes: Sequence[str]) -> Iterator[str]:
    """Numbers from 0 or 1 on beside as many words or more, as where some rows have the id and others the name."""
    numbers = sorted(int(name) for name in classes if re.fullmatch(r"\d{1,3}", name))
    words = [name for name in classes if name.isalpha() and len(name) > 1]
    if numbers and numbers[0] <= 1 and numbers == [*range(numbers[0], numbers[-1] + 1)] and len(words) >= len(numbers):
        first, last = numbers[0], numbers[-1]
        yield f"classes {first} to {last} are numbers and others are words: if they are ids, write the names."


def _alike(classes: Sequence[str]) -> Iterator[str]:
    first: dict[str, str] = {}
    for name in (name for name in classes if len(name) > 1):  # letters may be classes
        other = first.setdefault(_plain(name), name)
        if other != name:
            yield f"classes {other!r} and {name!r} differ in capitals and spaces alone: if they are one, write it once."


def _misspelt(items: Sequence[InspectedItem], classes: Sequence[str], kind: Kind) -> Iterator[str]:
    """Rare classes whose name is nearly that of a frequent one, numbers aside: `type1` and `type2` are two."""
    counts = dict(zip(classes, kind.count(items, len(classes)), strict=True))
    words = [name for name in classes if name.isalpha() and len(name) >= _SHORTEST]
    for name in words:
        often = (other for other in words if counts[name] <= _RARE * counts[other] and counts[other])
        frequent = [other for other in often if _plain(other) != _plain(name)]
        for other in difflib.get_close_matches(name, frequent, n=1, cutoff=_NEARLY):
            yield (
                f"class {name!r} with {counted(counts[name], kind.unit)} is spelt nearly like {other!r} with "
                f"{counts[other]:,}: if they are one, write it once."
            )


def _joined(classes: Sequence[str]) -> Iterator[str]:
    """Classes such as `red,round` beside `red` and `round`, or `a|b`: several labels in one cell."""
    for name in classes:
        words = name.split()
        parts = words if len(words) > 1 and set(words) <= set(classes) else _SEPARATORS.split(name)
        if len(parts) > 1 and ("|" in name or set(parts) & set(classes)):
            yield (
                f"class {name!r} looks like the classes {' and '.join(parts)} together. Each combination is a class of "
                "its own: images of several classes are not supported."
            )


def _plain(name: str) -> str:
    return "".join(name.split()).casefold()

"""Data sets that are known by the names of their folders, which other data may have too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from penstock.kinds.items import Item, Problem
from penstock.progress import counted


def doubt(folder: Path, name: str, items: Sequence[Item], *published: int) -> Iterator[Problem]:
    """A note that the classes are those of a published data set, whose training split has other numbers of images."""
    count = sum(item.split == "train" for item in items)
    if count not in published:
        message = (
            f"{folder}: the classes are those of {name}, as the folders are called so, but train has "
            f"{counted(count, 'image')} instead of {published[-1]:,}. If these are not its classes, list them in "
            "classes.txt."
        )
        yield Problem("classes of a published data set", str(folder), message, fatal=False, whole=True)

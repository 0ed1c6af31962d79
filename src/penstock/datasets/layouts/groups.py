"""Which images belong together, and are never divided between splits: frames of a video, images of a patient."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from penstock.datasets import listing
from penstock.errors import DatasetError
from penstock.kinds.items import Problem, named
from penstock.progress import counted

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.datasets.layout import Layout

_SEVERAL: Final = 2


def of_name(name: str) -> str:
    """The folders in the name of an item; "" where there is none."""
    return name.rpartition("/")[0]


def by_folder(found: Layout) -> Layout:
    """The layout with the groups that its items have, but for those of a split with a single group."""
    if found.modalities:
        return found
    groups: dict[str, set[str]] = defaultdict(set)
    for item in found.items:
        groups[item.split].add(item.group)
    alone = {split for split, names in groups.items() if len(names) < _SEVERAL}
    items = tuple(replace(item, group="") if item.split in alone else item for item in found.items)
    sizes = Counter(item.group for item in items if item.group)
    count = len(sizes)
    if max(sizes.values(), default=0) < _SEVERAL:
        return replace(found, items=items)
    about = f"images of a group stay together when train is divided: {counted(count, 'group')} by folder or table"
    return replace(found, items=items, reasons=(*found.reasons, about))


def perhaps_splits(folder: Path, found: Layout) -> list[Problem]:
    """A note of two or three folders that hold all images and are no classes: they may be splits of other names."""
    if {item.split for item in found.items} != {"train"}:
        return []
    above = [named(item.image, folder).split("/")[:-1] for item in found.items]
    columns = (list(names) for names in zip_longest(*above, fillvalue=""))
    names = next((sorted({*column}) for column in columns if len({*column}) > 1), [])
    words = {match[0] for name in names if (match := re.match(r"[^\W\d_]{2,}[^\d]*", name))}  # no dates or numbers
    if not _SEVERAL <= len(names) == len(words) <= len(listing.SPLITS) or {*names} <= {*found.labels.classes}:
        return []
    shown = ", ".join(f"{name}/" for name in names)
    message = f"{shown}: all images are in train. If these folders are splits, call them train/, val/ or test/."
    return [Problem("folders that may be splits", names[0], message, fatal=False, whole=True)]


def by_pattern(folder: Path, found: Layout, pattern: str) -> Layout:
    """The layout with the groups that a regular expression finds in the names of images.

    Args:
        folder: of the data.
        found: the layout.
        pattern: its group named `group`, else its first group, else all that it finds, is what images have in common.

    Raises:
        DatasetError: it is no regular expression, or fits no name.
    """
    try:
        expression = re.compile(pattern)
    except re.error as error:
        raise DatasetError(
            f"--group {pattern}", expected="a regular expression", found=str(error), remedy="Fix it"
        ) from None
    names = [named(item.image, folder) for item in found.items]
    groups = [_found(expression.search(name)) for name in names]
    if not any(groups):
        raise DatasetError(
            f"--group {pattern}",
            expected="a regular expression that fits the names of images",
            found=f"none that it fits, such as {names[0]}" if names else "no image",
            remedy="Write for example --group '(?P<group>patient\\d+)'",
        )
    items = tuple(replace(item, group=group) for item, group in zip(found.items, groups, strict=True))
    missing = [name for name, group in zip(names, groups, strict=True) if not group]
    about = f"--group finds {counted(len({*groups} - {''}), 'group')} of images, which stay together"
    notes = [_groupless(missing, pattern)] if missing else []
    return replace(found, items=items, reasons=(*found.reasons, about), problems=(*found.problems, *notes))


def _found(match: re.Match[str] | None) -> str:
    if match is None:
        return ""
    return str((match.groupdict().get("group") or match[1] if match.re.groups else match[0]) or "")


def _groupless(names: list[str], pattern: str) -> Problem:
    message = (
        f"{names[0]}: --group {pattern} does not fit the names of {counted(len(names), 'image')}. Each is by itself."
    )
    return Problem("image without a group", names[0], message, fatal=False, whole=True)

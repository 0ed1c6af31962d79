"""Which images belong together, and are never divided between splits: frames of a video, images of a patient."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Final

from penstock.datasets import listing
from penstock.datasets.layout import Layout
from penstock.datasets.layouts.columns import group_column, image_column
from penstock.datasets.layouts.csv_files import json_tables, read_rows, readable
from penstock.datasets.layouts.lookup import Images
from penstock.errors import DatasetError
from penstock.kinds.items import InspectedItem, Item, Problem, named
from penstock.progress import counted

_SEVERAL: Final = 2
_MOSTLY: Final = 0.9  # of the labels in the folder of a class are that class


def by_table(folder: Path, found: Layout, fields: Mapping[str, str]) -> Layout:
    """The layout with the groups that tables name, such as patients beside the names of their images.

    Args:
        folder: of the data.
        found: the layout.
        fields: columns by what they hold, as the user names them; the one of images counts.
    """
    if found.modalities or any(item.group for item in found.items):
        return found
    chosen = fields.get("image", "").lower()
    images, about = Images(folder), []
    groups: dict[Path, str] = {}
    for place in (folder, *listing.folders(folder)):
        others = ((path, *read_rows(path)) for path in json_tables(place))
        for path, rows, header in (*readable(place, "*.csv", "*.tsv", "*.jsonl"), *others):
            named_so = (each for each in header if each.lower() == chosen)
            column = next(named_so, "") or image_column(rows, header, images)
            name = group_column([each for each in header if each != column])
            if not name or not column:
                continue
            held = {images.find(row.get(column.lower(), "")): row.get(name.lower(), "") for row in rows.values()}
            groups |= {image.resolve(): group for image, group in held.items() if image and group}
            about.append(_of_column(name, column, named(path, folder), header, found))
    items = tuple(
        replace(item, group=groups.get(item.image.resolve(), "")) if groups and isinstance(item.image, Path) else item
        for item in found.items
    )
    is_used = any(item.group for item in items)
    return replace(found, items=items, reasons=(*found.reasons, *about)) if is_used else found


def _of_column(name: str, image: str, table: str, header: Sequence[str], found: Layout) -> str:
    """Where groups are from, and the columns of a table that is read for nothing else."""
    left = [each for each in header if each not in {name, image}]
    is_known = any(table in reason for reason in found.reasons)
    rest = f", of which {', '.join(left)} {'is' if len(left) == 1 else 'are'} not read" if left and not is_known else ""
    return f"groups are those of column {name} of {table}{rest}"


def by_folder(folder: Path, found: Layout) -> Layout:
    """The layout with the groups that its items have, else those of its folders, but for a split with a single one."""
    if found.modalities:
        return found
    items = found.items if all(item.group for item in found.items) else _grouped(folder, found)
    groups: dict[str, set[str]] = defaultdict(set)
    for item in items:
        groups[item.split].add(item.group)
    alone = {split for split, names in groups.items() if len(names) < _SEVERAL}
    items = tuple(replace(item, group="") if item.split in alone else item for item in items)
    sizes = Counter(item.group for item in items if item.group)
    count = len(sizes)
    if max(sizes.values(), default=0) < _SEVERAL:
        return replace(found, items=items)
    about = f"images of a group stay together when train is divided: {counted(count, 'group')} by folder or table"
    return replace(found, items=items, reasons=(*found.reasons, about))


def _grouped(folder: Path, found: Layout) -> tuple[Item, ...]:
    """Items without a group grouped by the folder of their image, or by one further above where each image has a folder
    of its own.

    Folders of a class are left out: a class would be in one split alone.
    """
    above = []
    for item in found.items:
        label = found.kind.class_of(item)
        own = "".join(found.labels.classes[label : label + 1]) if label is not None else ""
        above.append([name for name in named(item.image, folder).split("/")[:-1] if name != own])
    while any(above) and len({*map(tuple, above)}) == len(above):
        above = [names[:-1] for names in above]
    groups = ["/".join(names) for names in above]
    if len({*groups}) < _SEVERAL or _are_classes(found, groups):
        return found.items
    return tuple(replace(item, group=item.group or group) for item, group in zip(found.items, groups, strict=True))


def _are_classes(found: Layout, groups: Sequence[str]) -> bool:
    """Whether each group is of one class, and each of another one, such as the folders of breeds beside boxes."""
    members: dict[str, list[InspectedItem]] = defaultdict(list)
    for item, group in zip(found.items, groups, strict=True):
        members[group].append(InspectedItem(item))
    counts = [found.kind.count(each, len(found.labels.classes)) for each in members.values()]
    labelled = [count for count in counts if any(count)]
    usual = {count.index(max(count)) for count in labelled}
    return len(usual) == len(labelled) > 1 and all(max(count) >= _MOSTLY * sum(count) for count in labelled)


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

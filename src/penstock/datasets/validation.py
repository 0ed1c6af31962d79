"""Which images are set aside to evaluate on."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from penstock.errors import DatasetError
from penstock.kinds.base import Kind
from penstock.kinds.items import InspectedItem
from penstock.progress import counted

_PARTS: Final = 5  # of all images a chain of alike ones may hold one


def chosen(
    train: Sequence[InspectedItem],
    fraction: float,
    where: str,
    splits: Mapping[str, int],
    kind: Kind,
    alike: Iterable[tuple[InspectedItem, InspectedItem]] = (),
) -> set[str]:
    """Choose training images for validation, as keys of `together`: by content, so that the same ones are chosen
    at every call, and equal, nearly equal and grouped images stay together. Each class contributes its fraction.

    Args:
        train: the training images.
        fraction: of them, 0 to 1.
        where: named in errors.
        splits: how many images each split has.
        kind: of the records.
        alike: pairs of training images that look nearly the same.

    Raises:
        DatasetError: there is a val split, or no training data to take from.
    """
    unit_of = _units(train, alike)
    classes: dict[str, int | None] = {}
    for each in train:
        if each.content:
            classes.setdefault(unit_of[together(each)], kind.class_of(each.item))
    if held := splits.get("val"):
        raise DatasetError(
            "--validation",
            remedy="Remove --validation",
            message=f"{where} already has a split val, of {counted(held, 'image')}.",
        )
    if len(classes) < 2:  # noqa: PLR2004 - one for each
        raise DatasetError(
            where,
            expected="at least two different training images",
            found=f"{len(classes)} of them in the splits {', '.join(splits)}",
            remedy="Remove --validation",
        )
    strata: dict[int | None, list[str]] = {}
    for content in sorted(classes):
        strata.setdefault(classes[content], []).append(content)
    total = min(len(classes) - 1, max(1, round(fraction * len(classes))))
    parts = _parts({label: len(contents) for label, contents in strata.items()}, total)
    units = {unit for label, contents in strata.items() for unit in contents[: parts[label]]}
    return {key for key, unit in unit_of.items() if unit in units}


def _units(train: Sequence[InspectedItem], alike: Iterable[tuple[InspectedItem, InspectedItem]]) -> dict[str, str]:
    """Groups of alike images, which are never divided. Chains of more than a fifth of all images are no groups."""
    sizes = Counter(together(each) for each in train if each.content)
    first = {key: key for key in sorted(sizes)}
    most = sum(sizes.values()) / _PARTS
    members = {key: [key] for key in first}
    for one, other in alike:
        low, high = sorted((first[together(one)], first[together(other)]))
        if low != high and sizes[low] + sizes[high] <= most:
            sizes[low] += sizes.pop(high)
            members[low] += members.pop(high)
            first.update(dict.fromkeys(members[low], low))
    return first


def together(inspected: InspectedItem) -> str:
    """What images that must stay together have in common: their group, else their content."""
    return hashlib.blake2b(inspected.item.group.encode()).hexdigest() if inspected.item.group else inspected.content


def as_val(inspected: InspectedItem) -> InspectedItem:
    """An image of train as one of val."""
    key = hashlib.blake2b(f"{inspected.key} as val".encode(), digest_size=16).hexdigest()
    return replace(inspected, item=replace(inspected.item, split="val"), key=key)


def _parts(sizes: Mapping[int | None, int], total: int) -> dict[int | None, int]:
    """How many images each class gives by its size: at least one if there are enough, and never its last one."""
    whole = sum(sizes.values())
    shares = {label: total * size / whole for label, size in sizes.items()}
    least = 1 if total >= len(sizes) else 0
    most = {label: max(0, size - 1) for label, size in sizes.items()} if len(sizes) > 1 else dict(sizes)
    parts = {label: min(most[label], max(least, int(shares[label]))) for label in sizes}
    while (left := total - sum(parts.values())) != 0:
        step = 1 if left > 0 else -1
        able = [label for label in sizes if (parts[label] < most[label] if step > 0 else parts[label] > least)]
        if not able:
            break
        furthest = max(able, key=lambda label: step * (shares[label] - parts[label]))
        parts[furthest] += step
    return parts

"""Which layout is taken of those that fit a folder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from penstock.datasets.layout import Layout
from penstock.datasets.layouts import folders, label_lists, numbered
from penstock.datasets.layouts.catalogue import layouts
from penstock.errors import DatasetError
from penstock.kinds.items import Problem

_ON_EVIDENCE: Final = {"numbered-masks": numbered.is_evident}
"""Layouts that others fit as well: taken where the files show it, or where a task is named that no other one has."""


def named(folder: Path, name: str, task: str) -> Layout | None:
    """The layout of a name; None where the folder has another one, or it is for another task."""
    known = layouts()[name]
    found = known.recognise(folder)
    if found is not None and known.rank == "last":  # which the user has confirmed
        left = (each for each in found.problems if each.kind not in folders.DOUBTS)
        sure = (replace(each, fatal=each.fatal and each.kind != folders.MASKS_INSIDE) for each in left)
        found = replace(found, problems=tuple(sure))
    return next((each for each in _ways(name, found) if task in {"", each.kind.name}), None)


def chosen(folder: Path, task: str) -> Layout | None:
    """The layout that is taken of those that a folder has, which name the others; None where it has none.

    The first that fits is taken, unless another one has the splits train and val and it has not, or another one has
    labels for more than twice as many images.

    Raises:
        DatasetError: a file of the first layout that fits is damaged.
    """
    pairs = [(name, each) for name, each in _fitting(folder) if task in {"", each.kind.name}]
    if task and not pairs:
        pairs = [(name, each) for name in _ON_EVIDENCE if (each := named(folder, name, task))]
    if not pairs:
        return None
    taken = _best(pairs)
    best = {kind: _best([(name, each) for name, each in pairs if each.kind.name == kind]) for kind in _kinds(pairs)}
    others = tuple(
        replace(each, option=f"--task {each.kind.name}")
        if each is best[each.kind.name] and each.kind.name != taken.kind.name
        else each
        for _, each in pairs
        if each is not taken
    )
    masks = next((each for each in others if each.kind.reads_masks and each.labelled >= taken.labelled), None)
    if masks and taken.name == label_lists.NAME and not task:
        taken = replace(taken, problems=(*taken.problems, _two_readings(folder, taken, masks)))
    if not task:
        taken = replace(taken, problems=(*taken.problems, *numbered.doubts(folder, taken)))
    return replace(taken, others=others)


def _two_readings(folder: Path, lists: Layout, masks: Layout) -> Problem:
    """A list beside masks may say anything of an image: where it is from, or how good it is."""
    message = (
        f"{lists.reasons[0].partition(' ')[0]}: expected one kind of labels, found words of a list and masks of the "
        f"same images ({masks.name}). Choose with --task {lists.kind.name} or --task {masks.kind.name}."
    )
    return Problem("two kinds of labels", str(folder), message, whole=True)


def _kinds(pairs: list[tuple[str, Layout]]) -> set[str]:
    return {each.kind.name for _, each in pairs}


def _best(pairs: list[tuple[str, Layout]]) -> Layout:
    """The layout that is taken of several, given with their names in the order of `layouts`."""
    (first, taken), *rest = pairs
    for _, each in () if layouts()[first].rank == "published" else rest:
        taken = each if _explains_more(each, taken) else taken
    return taken


def _fitting(folder: Path) -> Iterator[tuple[str, Layout]]:
    """The name and the layout of all that the folder has. The first reports problems; later ones may fail."""
    first = True
    for name, known in layouts().items():
        if (not first and known.rank == "last") or not _ON_EVIDENCE.get(name, _always)(folder):
            continue
        try:
            found = known.recognise(folder)
        except DatasetError:
            if first:
                raise
            continue
        for each in _ways(name, found):
            if first or each.labelled:
                yield name, each
                first = False


def _ways(name: str, found: Layout | None) -> tuple[Layout, ...]:
    """A layout, and the same data for other tasks, each with the option that chooses it."""
    if found is None:
        return ()
    if not found.others:
        return (replace(found, option=f"--layout {name}"),)
    return tuple(
        replace(each, others=(), option=f"--layout {name} --task {each.kind.name}") for each in (found, *found.others)
    )


def _always(_: Path) -> bool:
    return True


def _explains_more(other: Layout, taken: Layout) -> bool:
    whole, part = ({"train", "val"} <= {item.split for item in each.items} for each in (other, taken))
    return (whole and not part) or other.labelled > 2 * taken.labelled

"""All layouts by name, and which of those that fit a folder is taken."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

from penstock.datasets.layouts import (
    ade20k,
    camvid,
    cifar,
    cityscapes,
    coco,
    createml,
    cvat,
    fiftyone,
    folders,
    hugging_face,
    label_studio,
    labelimg,
    labelme,
    masks,
    mattes,
    mnist,
    named_masks,
    nifti,
    numbered,
    open_images,
    penn_fudan,
    pets,
    run_lengths,
    supervisely,
    table,
    tfrecords,
    via,
    voc,
    yolo,
)
from penstock.errors import DatasetError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock.datasets.layout import Layout


class Recognise(Protocol):
    """What a module of a layout gives: `recognise`."""

    def __call__(self, folder: Path) -> Layout | None:
        """The layout, or None where the folder has another one."""
        ...


LAYOUTS: Final[dict[str, Recognise]] = {
    "cifar10": cifar.recognise_ten,
    "cifar100": cifar.recognise_hundred,
    "cifar100-coarse": cifar.recognise_coarse,
    "mnist": mnist.recognise,
    "cityscapes": cityscapes.recognise,
    "ade20k": ade20k.recognise,
    "camvid": camvid.recognise,
    "oxford-pets": pets.recognise,
    "penn-fudan": penn_fudan.recognise,
    "voc": voc.recognise_masks,
    "voc-boxes": voc.recognise_boxes,
    "labelimg": labelimg.recognise,
    "coco": coco.recognise_boxes,
    "coco-classes": coco.recognise_classes,
    "coco-masks": coco.recognise_masks,
    "coco-instances": coco.recognise_instances,
    "cvat": cvat.recognise,
    "supervisely": supervisely.recognise,
    "label-studio": label_studio.recognise,
    "createml": createml.recognise,
    "via": via.recognise,
    "fiftyone": fiftyone.recognise,
    "hugging-face": hugging_face.recognise,
    "open-images": open_images.recognise,
    "nifti": nifti.recognise,
    "nifti-volumes": nifti.recognise_volumes,
    "yolo": yolo.recognise,
    "tfrecords": tfrecords.recognise,
    "run-lengths": run_lengths.recognise,
    "run-lengths-instances": run_lengths.recognise_instances,
    "csv": table.recognise,
    "labelme": labelme.recognise,
    "mattes": mattes.recognise,
    "numbered-masks": numbered.recognise,
    "masks": masks.recognise,
    "named-masks": named_masks.recognise,
    "folders": folders.recognise,
}
"""Every layout by its name, the more telling ones first."""

_AS_PUBLISHED: Final = frozenset(
    {"cifar10", "cifar100", "mnist", "cityscapes", "ade20k", "camvid", "oxford-pets", "penn-fudan", "voc", "voc-boxes"}
)
"""Layouts of one data set, which are never taken for others."""
_LAST_RESORTS: Final = frozenset({"folders", "cifar100-coarse"})
"""Layouts that fit many folders, or the same ones as others do: not named where another one fits."""


_ON_EVIDENCE: Final = {"numbered-masks": numbered.is_evident}
"""Layouts that others fit as well: taken where the files show it, or where a task is named that no other one has."""


def named(folder: Path, name: str, task: str) -> Layout | None:
    """The layout of a name; None where the folder has another one, or it is for another task."""
    found = LAYOUTS[name](folder)
    if found is not None and name in _LAST_RESORTS:  # which the user has confirmed
        found = replace(found, problems=tuple(each for each in found.problems if each.kind not in folders.DOUBTS))
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
    others = (
        replace(each, option=f"--task {each.kind.name}")
        if each is best[each.kind.name] and each.kind.name != taken.kind.name
        else each
        for _, each in pairs
        if each is not taken
    )
    return replace(taken, others=tuple(others))


def _kinds(pairs: list[tuple[str, Layout]]) -> set[str]:
    return {each.kind.name for _, each in pairs}


def _best(pairs: list[tuple[str, Layout]]) -> Layout:
    """The layout that is taken of several, given with their names in the order of `LAYOUTS`."""
    (first, taken), *rest = pairs
    for _, each in () if first in _AS_PUBLISHED else rest:
        taken = each if _explains_more(each, taken) else taken
    return taken


def _fitting(folder: Path) -> Iterator[tuple[str, Layout]]:
    """The name and the layout of all that the folder has, the more telling ones first. What is wrong with a file is
    said by the first one that reads it, so the later ones may fail.
    """
    first = True
    for name, recognise_one in LAYOUTS.items():
        if (not first and name in _LAST_RESORTS) or not _ON_EVIDENCE.get(name, _always)(folder):
            continue
        try:
            found = recognise_one(folder)
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

"""Folders of NIfTI volumes, cut into slices.

`images/` and `labels/` (or imagesTr, labelsTr) as the Medical Segmentation Decathlon has them; modalities in files that
end in _0000, _0001, ... as nnU-Net does; or a folder per case, with labels in `_seg`, as BraTS does.
"""

from __future__ import annotations

import re
from functools import lru_cache, partial
from pathlib import Path  # noqa: TC003 - of a named tuple
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.datasets import listing
from penstock.datasets.items import Item, Labels, Layout, Made, Problem
from penstock.datasets.layouts.masks import is_masks_folder
from penstock.images import codecs, volumes

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

_IMAGES: Final = ("images", "imagesTr")
_LABELS: Final = ("labels", "labelsTr")
_MODALITY: Final = re.compile(r"_(\d{4})$")
_SEGMENTATION: Final = re.compile(r"[_-]seg$", re.IGNORECASE)


class Case(NamedTuple):
    """One volume: its name, the files of its modalities, and its labels' file where there is one."""

    name: str
    images: tuple[Path, ...]
    labels: Path | None


def recognise(folder: Path) -> Layout | None:
    """Cases with labels, cut into slices; all slices of a case are in one split."""
    found = list(_splits(folder))
    if not found:
        return None
    items: list[Item] = []
    problems: list[Problem] = []
    for split, case in found:
        place = case.images[0].relative_to(folder).as_posix()
        if case.labels is None:
            message = f"{place}: expected labels of the same name, found none. Add them, or move the volume away."
            problems.append(Problem("labels missing", place, message))
            continue
        items += _slices(split, case)
    reason = f"{len(found)} volumes with up to {max(len(case.images) for _, case in found)} files each, cut into slices"
    labels = Labels(listing.read_classes(folder))
    return Layout("segmentation", "NIfTI volumes", (reason,), tuple(items), labels, tuple(problems))


def cases(folder: Path, labels: Path | None = None) -> list[Case]:
    """The volumes of a folder, with their labels from another one or, in folders of their own, beside them."""
    files = [path for path in listing.files(folder) if volumes.is_volume(path) and not is_masks_folder(path.parent)]
    known = {volumes.stem(path): path for path in listing.files(labels) if volumes.is_volume(path)} if labels else {}
    kept: dict[Path, list[Path]] = {}
    for path in files:
        kept.setdefault(path.parent, []).append(path)
    grouped: dict[str, list[Path]] = {}
    for parent, paths in kept.items():
        whole = parent != folder and all(volumes.stem(path).startswith(parent.name) for path in paths)
        inside = "" if parent == folder else f"{parent.relative_to(folder).as_posix()}/"
        for path in paths:  # BraTS: a folder per case, whose files begin with its name; elsewhere a file is one
            name = inside.rstrip("/") if whole else inside + _MODALITY.sub("", volumes.stem(path))
            grouped.setdefault(name, []).append(path)
    found = []
    for name, paths in sorted(grouped.items()):
        beside = [path for path in paths if _SEGMENTATION.search(volumes.stem(path))]
        images = tuple(path for path in sorted(paths) if path not in beside)
        if images:
            found.append(Case(name, images, next(iter(beside), known.get(name))))
    return found


def _splits(folder: Path) -> Iterator[tuple[str, Case]]:
    images, labels = listing.subfolder(folder, _IMAGES), listing.subfolder(folder, _LABELS)
    if images is None or labels is None:
        split = listing.splits(folder) or {"train": folder}
        for name, path in split.items():
            yield from ((name, case) for case in cases(path) if case.labels)
        return
    divided = listing.splits(images)
    for name, path in (divided or {"train": images}).items():
        beside = labels / path.name if divided else labels
        yield from ((name, case) for case in cases(path, beside if beside.is_dir() else labels))


def _slices(split: str, case: Case) -> Iterator[Item]:
    assert case.labels is not None  # noqa: S101 - the caller looked
    images, _ = _read(case)
    for number in range(len(images)):
        yield Item(
            split,
            f"{case.name}/{number:04d}",
            Made(case.images[0], str(number), partial(_image, case, number)),
            mask=Made(case.labels, str(number), partial(_mask, case, number)),
            group=case.name,
        )


def _image(case: Case, number: int) -> bytes:
    return codecs.encode_png(_read(case)[0][number])


def _mask(case: Case, number: int) -> bytes:
    return codecs.encode_mask(_read(case)[1][number])


@lru_cache(maxsize=16)
def _read(case: Case) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """All slices of a case and their masks; the slices of a case are asked for one after another."""
    assert case.labels is not None  # noqa: S101 - the callers looked
    volume = volumes.read_volume(case.images)
    return volume.images(), volume.masks(volumes.read_labels(case.labels, volume))

"""Folders of NIfTI volumes or DICOM series, cut into slices or kept whole.

`images/` and `labels/` (or imagesTr, labelsTr) as the Medical Segmentation Decathlon has them; modalities in files that
end in _0000, _0001, ... as nnU-Net does; or a folder per case, with labels in `_seg`, as BraTS does.
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.datasets import class_lists, listing
from penstock.datasets.layout import Layout
from penstock.datasets.layouts import legend
from penstock.datasets.layouts.masks import is_mask
from penstock.errors import DatasetError, ImageError
from penstock.extensions.volumes import volume as volumes
from penstock.images import codecs, dicom
from penstock.kinds.items import FilePart, Item, Labels, Problem, unlabelled_split
from penstock.progress import counted

Cut = Callable[[str, "Case", int], Iterator[Item]]

_IMAGES: Final = ("images", "imagesTr")
_LABELS: Final = ("labels", "labelsTr")
_OF_CASE: Final = re.compile(r"[_-](t1\w*|t2\w*|flair|pd|dwi|adc|seg\w*)", re.IGNORECASE)
_MODALITY: Final = re.compile(r"_(\d{4})$")
_SEGMENTATION: Final = re.compile(r"[_-]seg$", re.IGNORECASE)


class Case(NamedTuple):
    """One volume: its name, the files of its modalities, and its labels' file where there is one."""

    name: str
    images: tuple[Path, ...]
    labels: Path | None


def recognise(folder: Path) -> Layout | None:
    """Cases with labels, cut into slices; all slices of a case are in one split."""
    return _recognise(folder, "NIfTI volumes", "cut into slices", _slices)


def recognise_volumes(folder: Path) -> Layout | None:
    """The same cases, each kept whole for networks of three dimensions."""
    found = _recognise(folder, "NIfTI volumes, whole", "each kept whole", _whole)
    return replace(found, task="volumes") if found else None


def _recognise(folder: Path, name: str, how: str, cut: Cut) -> Layout | None:
    found = list(_splits(folder))
    if not found:
        return None
    items: list[Item] = []
    problems = [*_unlabelled(folder, {split for split, _ in found}), *_orphans(folder, [case for _, case in found])]
    counts: dict[Case, int] = {}
    for _, case in found:
        with _named(folder, case, problems):
            counts[case] = volumes.modalities(case.images)
    most = max(counts.values(), default=1)
    usual = Counter(_kinds(case) for case, count in counts.items() if count == most).most_common(1)
    channels = _channels(most, whole=cut is _whole)
    for split, case in ((split, case) for split, case in found if case in counts):
        if wrong := _unfit(case, counts[case], most, usual[0][0]):
            place = case.images[0].relative_to(folder).as_posix()
            problems.append(Problem(wrong[0], place, f"{place}: {wrong[1]}"))
            continue
        with _named(folder, case, problems):
            items += list(cut(split, case, channels))
    reason = f"{counted(len(found), 'volume')} of {counted(most, 'modality')}, {how}"
    labels = legend.nnunet(folder) or Labels(class_lists.read_classes(folder))
    return Layout(
        "segmentation", name, (reason,), tuple(items), labels, tuple(problems), channels=channels, modalities=most
    )


def _unfit(case: Case, count: int, most: int, usual: tuple[str, ...]) -> tuple[str, str] | None:
    """A kind of problem and its sentence, for a case that cannot be learnt from beside the others."""
    if case.labels is None:
        said = "expected labels of the same name, found none. Add them, or move the volume away."
        return "labels missing", said
    if count < most:
        said = f"expected {counted(most, 'modality')}, as other cases have, found {count}. "
        return "modalities missing", f"{said}Add the missing ones, or move the case away."
    if (kinds := _kinds(case)) != usual:
        said = f"expected the modalities {', '.join(usual)}, as most cases have, found {', '.join(kinds)}. "
        return "other modalities", f"{said}Name or replace them, or move the case away."
    return None


def _kinds(case: Case) -> tuple[str, ...]:
    """What a case's files are called behind its own name: _0000, _0001, or _flair, _t1; nothing of a single file."""
    own = case.name.rpartition("/")[2]
    return tuple(volumes.stem(path).removeprefix(own) for path in case.images) if len(case.images) > 1 else ()


@contextlib.contextmanager
def _named(folder: Path, case: Case, problems: list[Problem]) -> Iterator[None]:
    try:
        yield
    except ImageError as error:
        problems.append(Problem("unreadable volume", case.images[0].relative_to(folder).as_posix(), str(error)))


def _unlabelled(folder: Path, known: set[str]) -> Iterator[Problem]:
    """Splits of volumes of which none has labels, the Decathlon's `imagesTs` among them."""
    if tests := listing.subfolder(folder, ("imagesTs",)):
        yield unlabelled_split(folder, tests, folder / "labelsTs")
    for split, path in listing.splits(folder).items():
        if split not in known and cases(path):
            yield unlabelled_split(folder, path, path)


def _orphans(folder: Path, found: list[Case]) -> Iterator[Problem]:
    """Notes of labels that belong to no case."""
    known, beside = {case.labels for case in found}, listing.subfolder(folder, _LABELS)
    roots = [beside] if beside else listing.splits(folder).values() or [folder]
    for path in (path for root in roots for path in listing.files(root) if volumes.is_volume(path)):
        if path not in known and (beside or _SEGMENTATION.search(volumes.stem(path))):
            name = path.relative_to(folder).as_posix()
            message = f"{name}: no volume goes with these labels, or it has others already: they are left out."
            yield Problem("labels of no volume", name, message, fatal=False)


def _channels(most: int, *, whole: bool) -> int:
    """A single modality is gray in slices, whose backbones were trained on colours."""
    return volumes.channels_of(most) if whole or most == volumes.MODALITIES else 3


def cases(folder: Path, labels: Path | None = None) -> list[Case]:
    """The volumes of a folder, with their labels from another one or, in folders of their own, beside them."""
    files = [path for path in _volumes(folder) if not is_mask(path, folder)]
    known = _labels(labels) if labels else {}
    kept: dict[Path, list[Path]] = {}
    for path in files:
        kept.setdefault(path.parent, []).append(path)
    grouped: dict[str, list[Path]] = {}
    for parent, paths in kept.items():
        whole = _is_case(parent, paths, alone=parent == folder)
        parts = _are_modalities(paths, known)
        inside = "" if parent == folder else f"{parent.relative_to(folder).as_posix()}/"
        for path in paths:  # BraTS: a folder per case, whose files begin with its name; elsewhere a file is one
            stem = volumes.stem(path)
            name = inside.rstrip("/") or parent.name if whole else inside + (_MODALITY.sub("", stem) if parts else stem)
            grouped.setdefault(name, []).append(path)
    found = []
    for name, paths in sorted(grouped.items()):
        beside = [path for path in paths if _SEGMENTATION.search(volumes.stem(path))]
        images = tuple(path for path in sorted(paths) if path not in beside)
        if images:
            found.append(Case(name, images, next(iter(beside), None) or _case_mask(name, known)))
    return found


def _volumes(folder: Path) -> list[Path]:
    found = listing.files(folder)
    series = {path.parent for path in found if path.suffix.lower() == dicom.SUFFIX} - {folder}
    return sorted([*(path for path in found if volumes.is_volume(path)), *series])


def _is_case(folder: Path, paths: list[Path], *, alone: bool) -> bool:
    """Whether the files of a folder are one case, as BraTS names them: its name, then a modality."""
    stems = [volumes.stem(path) for path in paths]
    if not alone:
        return all(stem.startswith(folder.name) for stem in stems)
    follow = [_OF_CASE.fullmatch(stem.removeprefix(folder.name)) for stem in stems if stem.startswith(folder.name)]
    return len(stems) > 1 and len(follow) == len(stems) and all(follow)


def _are_modalities(paths: list[Path], known: dict[str, list[Path]]) -> bool:
    """Whether four digits at the end of names tell modalities, from 0000 on, and not cases with labels of their own."""
    stems = [volumes.stem(path) for path in paths]
    return any(stem.endswith("_0000") for stem in stems) and not any(
        stem in known for stem in stems if _MODALITY.search(stem)
    )


def _labels(folder: Path) -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = {}
    for path in _volumes(folder):
        whole = (path.parent.relative_to(folder) / volumes.stem(path)).as_posix()
        for name in {whole, volumes.stem(path)}:
            found.setdefault(name, []).append(path)
    return found


def _case_mask(case: str, known: dict[str, list[Path]]) -> Path | None:
    found = known.get(case, [])
    if len(found) > 1:
        raise DatasetError(
            case,
            expected="one file of labels for this case",
            found=", ".join(map(str, sorted(found)[:3])),
            remedy="Name the folder that holds the right ones alone",
        )
    return next(iter(found), None)


def _splits(folder: Path) -> Iterator[tuple[str, Case]]:
    images, labels = listing.subfolder(folder, _IMAGES), listing.subfolder(folder, _LABELS)
    if images is None or labels is None:
        split = listing.splits(folder) or {"train": folder}
        for name, path in split.items():
            there = cases(path)
            yield from ((name, case) for case in there if any(each.labels for each in there))
        return
    divided = listing.splits(images)
    for name, path in (divided or {"train": images}).items():
        beside = labels / path.name if divided else labels
        yield from ((name, case) for case in cases(path, beside if beside.is_dir() else labels))


def _slices(split: str, case: Case, channels: int) -> Iterator[Item]:
    assert case.labels is not None  # noqa: S101 - the caller looked
    images, _ = _read(case, channels)
    for number in range(len(images)):
        yield Item(
            split,
            f"{case.name}/{number:04d}",
            FilePart(case.images[0], str(number), partial(_image, case, channels, number)),
            label=FilePart(case.labels, str(number), partial(_mask, case, channels, number)),
            group=case.name,
            is_slice=True,
        )


def _whole(split: str, case: Case, channels: int) -> Iterator[Item]:
    assert case.labels is not None  # noqa: S101 - the caller looked
    image = FilePart(case.images[0], "whole", partial(_image, case, channels, None))
    mask = FilePart(case.labels, "whole", partial(_mask, case, channels, None))
    yield Item(split, case.name, image, label=mask, group=case.name, slices=len(_read(case, channels)[0]))


def _image(case: Case, channels: int, number: int | None) -> bytes:
    """One slice, or all of them below one another."""
    images, _ = _read(case, channels)
    return codecs.encode_png(images.reshape(-1, *images.shape[2:]) if number is None else images[number])


def _mask(case: Case, channels: int, number: int | None) -> bytes:
    _, masks = _read(case, channels)
    return codecs.plain_mask(masks.reshape(-1, masks.shape[2]) if number is None else masks[number])


def _read(case: Case, channels: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """All slices of a case and their masks."""
    assert case.labels is not None  # noqa: S101 - the callers looked
    states = [path.stat() for path in (*case.images, case.labels)]
    return _kept(case, channels, tuple((each.st_mtime_ns, each.st_size, each.st_ino) for each in states))


@lru_cache(maxsize=16)
def _kept(case: Case, channels: int, _: object) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """What `_read` gives, kept while the files are as they were: the slices of a case are asked for one by one."""
    assert case.labels is not None  # noqa: S101 - the same
    volume = volumes.read_volume(case.images)
    return volume.images(channels), volume.masks(volumes.read_labels(case.labels, volume))

"""Which folders hold images and which their masks, by the files in them: their names fit, and one side looks like
masks. What the folders are called decides nothing, but for the split that a name holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from penstock.datasets import listing
from penstock.datasets.layouts.evidence import are_masks, look_at, look_like_masks
from penstock.datasets.layouts.matching import match, shorter_among

Key = tuple[str, tuple[str, ...]]  # the split, and the folders above that are no splits

_DEEPEST: Final = 4  # folders that are looked into
_MOSTLY: Final = 0.3  # of the files of a folder are masks of others in it
LABELS: Final = re.compile(r"manual|truth|annot|label|expert|\bgt", re.IGNORECASE)
_MAX_ROLES: Final = 12  # folders of different names beside each other; of more the names are classes or cases


class Pair(NamedTuple):
    """A folder of images and the one of their masks.

    Attributes:
        split: train, val or test.
        images, masks: the folders; masks may be missing.
        case: the folder above both that belongs to neither, such as a patient; "" for none.
    """

    split: str
    images: Path
    masks: Path | None
    case: str = ""


class Roles(NamedTuple):
    """Folders of images with those of their masks.

    Attributes:
        pairs: the folders.
        images, masks: what both are called, without their splits.
        other_images, other_masks: folders that could be meant as well.
    """

    pairs: tuple[Pair, ...]
    images: str
    masks: str
    other_images: tuple[str, ...] = ()
    other_masks: tuple[str, ...] = ()


class _Part(NamedTuple):
    """A folder with a role, and the files below it."""

    path: Path
    files: list[Path]


class _Fit(NamedTuple):
    """Two roles that fit, and how many images have a mask."""

    images: str
    masks: str
    matched: int


def find(folder: Path, preferred: Sequence[str]) -> Roles | None:
    """The folders of images and masks; None where no two fit.

    Args:
        folder: of the data.
        preferred: names of folders of masks, in lower case, of which one is taken where several fit.
    """
    files = [path for path in listing.files(folder) if listing.is_mask(path)]
    every = [_parts(folder, files, depth) for depth in range(_DEEPEST)]
    found = [(depth, fit) for depth, parts in enumerate(every) if 1 < len(parts) <= _MAX_ROLES for fit in _fits(parts)]
    masks = {(depth, fit.masks) for depth, fit in found}
    found = [(depth, fit) for depth, fit in found if (depth, fit.images) not in masks]
    if not found:
        return None
    most = max(fit.matched for _, fit in found)
    equal = [(depth, fit) for depth, fit in found if fit.matched == most]
    level, best = min(equal, key=lambda each: (each[1].masks not in preferred, each[1].masks, each[1].images))
    again = [fit for depth, fit in equal if depth == level and fit is not best]
    parts = every[level]
    others = [_called(parts[fit.masks]) for fit in again if fit.images == best.images]
    if best.masks in preferred:  # a mask may also be that of a field of view
        others = [name for name in others if LABELS.search(name)]
    return Roles(
        tuple(_pairs(parts, best)),
        _called(parts[best.images]),
        _called(parts[best.masks]),
        tuple(_called(parts[fit.images]) for fit in again if fit.masks == best.masks),
        tuple(others),
    )


def called(folder: Path, images: str, masks: str) -> list[Pair]:
    """The folders of images and of masks that are called so below a folder, such as those of each patient."""
    files = [path for path in listing.files(folder) if listing.is_mask(path)]
    fit = _Fit(listing.role_of(images)[0], listing.role_of(masks)[0], 0)
    every = (_parts(folder, files, depth) for depth in range(_DEEPEST))
    return next((list(_pairs(parts, fit)) for parts in every if {fit.images, fit.masks} <= parts.keys()), [])


def _parts(folder: Path, files: Sequence[Path], depth: int) -> dict[str, dict[Key, _Part]]:
    found: dict[str, dict[Key, _Part]] = {}
    outer = len(folder.parts)
    for path in files:
        above = path.parts[outer:-1]
        if len(above) <= depth:
            continue
        role, split = listing.role_of(_without_case(Path(*above[: depth + 1])))
        split = split or next(filter(None, map(listing.split_of, above[:depth])), "")
        case = tuple(name for name in above[:depth] if not listing.split_of(name))
        own = folder.joinpath(*above[: depth + 1])
        part = found.setdefault(role, {}).setdefault((split, case), _Part(own, []))
        if part.path == own:
            part.files.append(path)
    return found


def _called(parts: Mapping[Key, _Part]) -> str:
    of_train = (part for (split, _), part in parts.items() if split == "train")
    path = next(of_train, next(iter(parts.values()))).path
    return path.name if len({part.path.name for part in parts.values()}) == 1 else _without_case(path)


def _without_case(folder: Path) -> str:
    """The name of a folder without that of the one above it: PH2's `IMD003/IMD003_lesion/` is lesion."""
    return re.sub(rf"^{re.escape(folder.parent.name)}[-_ .]+", "", folder.name) if folder.parent.name else folder.name


def _fits(parts: Mapping[str, Mapping[Key, _Part]]) -> Iterator[_Fit]:
    """The pairs of image and mask roles. Names are compared only where files look so: there may be a million."""
    files = {role: [path for part in own.values() for path in part.files] for role, own in parts.items()}
    looks = {role: look_at(paths) for role, paths in files.items()}
    for images, as_images in looks.items():
        for masks, as_masks in looks.items():
            shared = parts[images].keys() & parts[masks].keys()
            if images == masks or not shared or not look_like_masks(as_masks, as_images):
                continue
            if _holds_both(files[images]) or _holds_both(files[masks]):
                continue
            if count := _matched(parts[images], parts[masks], sorted(shared)):
                yield _Fit(images, masks, count)


def _holds_both(files: Sequence[Path]) -> bool:
    """Whether a folder holds images and, beside each, masks with its name and an ending."""
    there = {(path.parent, path.stem): path for path in files}
    stems: dict[Path, set[str]] = {}
    for path in files:
        stems.setdefault(path.parent, set()).add(path.stem)
    owners = {path: shorter_among(path.stem, stems[path.parent]) for path in files}
    pairs = [(path, there[path.parent, own]) for path, own in owners.items() if own]
    return len(pairs) > len(files) * _MOSTLY and are_masks(*(list(side) for side in zip(*pairs, strict=True)))


def _matched(images: Mapping[Key, _Part], masks: Mapping[Key, _Part], shared: Sequence[Key]) -> int:
    """How many images have masks; 0 where that are fewer than half of either."""
    matched, total, owned = 0, 0, 0
    for key in shared:
        one, other = _stems(images[key], only_images=True), _stems(masks[key])
        found = match(one, other)
        matched += len(found)
        total += len(one)
        owned += len({mask for names in found.values() for mask in names})
    there = sum(len(masks[key].files) for key in shared)
    return matched if 2 * matched >= total and 2 * owned >= there else 0


def _stems(part: _Part, *, only_images: bool = False) -> dict[str, Path]:
    """Files by their names below the folder, without suffix and folders of splits."""
    found = {}
    for path in part.files:
        *above, _ = path.relative_to(part.path).parts
        if listing.is_image(path) or not only_images:
            parts = [*(name for name in above if not listing.split_of(name)), path.stem]
            found[listing.composed("/".join(parts))] = path
    return found


def _pairs(parts: Mapping[str, Mapping[Key, _Part]], fit: _Fit) -> Iterator[Pair]:
    for (split, case), part in parts[fit.images].items():
        masks = parts[fit.masks].get((split, case))
        yield from divided(part.path, masks.path if masks else None, split, "/".join(case))


def divided(images: Path, masks: Path | None, split: str = "", case: str = "") -> Iterator[Pair]:
    """Two folders, or those of the splits in them."""
    inside = {} if split else listing.splits(images)
    beside = listing.splits(masks) if masks else {}
    if not inside and not split and masks:  # train_images beside train_segmentations
        inside, beside = _named_splits(images), _named_splits(masks)
        inside = inside if inside.keys() == beside.keys() else {}
    if not inside:
        yield Pair(split or "train", images, masks, case)
        return
    for name, path in inside.items():
        yield Pair(name, path, beside.get(name) if beside else masks, case)


def _named_splits(folder: Path) -> dict[str, Path]:
    """The two or more folders by the splits that their names hold; none where one holds none, or two the same."""
    there = {listing.role_of(path.name)[1]: path for path in listing.folders(folder)}
    return there if "" not in there and 1 < len(there) == len(listing.folders(folder)) else {}

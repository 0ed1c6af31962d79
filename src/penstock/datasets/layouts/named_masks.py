"""Masks beside their images in one folder: `a.jpg` and `a_mask.png`, or `a_sat.jpg` and `a_mask.png`."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import permutations, takewhile
from pathlib import Path
from typing import Final

from penstock.datasets import listing
from penstock.datasets.layout import Layout
from penstock.datasets.layouts import mask_problems, masks
from penstock.datasets.layouts.evidence import are_masks, look_at
from penstock.datasets.layouts.matching import shorter_among
from penstock.datasets.layouts.several import Row
from penstock.kinds.items import Item, Problem, named

_END: Final = re.compile(r"(?P<rest>.*[^a-zA-Z])(?P<word>[a-zA-Z]+)")
_BEGINNING: Final = re.compile(r"(?P<word>[a-zA-Z]+)(?P<rest>[^a-zA-Z].*)")
_WORDS: Final = 4  # the most frequent ones are looked at
_ENDS: Final = 16  # the most frequent endings are looked at
_ARRAY: Final = ".npy"  # of Cellpose, beside the same mask as an image


def recognise(folder: Path) -> Layout | None:
    """Images and masks in one folder, or in one folder for each case."""
    divided = listing.splits(folder)
    rows: list[Row] = []
    problems: list[Problem] = mask_problems.outside(folder, folder, divided) if divided else []
    for split, root in (divided or {"train": folder}).items():
        found, wrong = _pairs(folder, split, root)
        rows += found
        problems += wrong
    if not any(row.masks for row in rows):
        return None
    ends = sorted({end for row in rows for end in row.ends})
    shown = ", ".join(ends[:_WORDS]) + (", ..." if len(ends) > _WORDS else "")
    reason = f"masks beside the images, named by {shown}"
    how = f"splits: {', '.join(divided)}" if divided else "no train/, val/ or test/: all images are in train"
    layout = Layout(
        "segmentation",
        "images and masks in one folder",
        (reason, how),
        (),
        masks.labels_of(folder),
        tuple(problems),
    )
    return masks.with_masks(folder, layout, rows)


def _ending(image: Path, mask: Path) -> str:
    """What the name of a mask has where that of its image differs."""
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(image.stem, mask.stem, strict=False)))
    return mask.stem[same:]


def _pairs(folder: Path, split: str, root: Path) -> tuple[list[Row], list[Problem]]:
    files = [path for path in listing.files(root) if listing.is_mask(path)]
    stems: dict[Path, list[Path]] = defaultdict(list)
    for path in files:
        stems[path.with_suffix("")].append(path)
    owner = _owners(files, stems)
    masks_of: dict[Path, list[Path]] = defaultdict(list)
    for path in sorted(owner, key=lambda path: (path.suffix.lower() == _ARRAY, path)):
        if path.suffix.lower() != _ARRAY or not masks_of[owner[path]]:
            masks_of[owner[path]].append(path)
    first = {own: found[0].name for own, found in masks_of.items()}
    usual = Counter(name.removeprefix(own.name) for own, name in first.items() if name.startswith(own.name))
    masked = {own.parent for own in masks_of}
    rows, problems = [], []
    for path in files:
        if path in owner or not listing.is_image(path):
            continue
        own = masks_of.get(path.with_suffix(""), [])
        name = path.relative_to(root).with_suffix("").as_posix()
        rows.append(Row(Item(split, name, path), own, [_ending(path, mask) for mask in own]))
        if not own:
            end = usual.most_common(1)[0][0] if usual else ""
            problems.append(_no_mask(folder, path, end, alone=path.parent not in masked))
    return rows, problems


def _owners(files: Sequence[Path], stems: Mapping[Path, list[Path]]) -> dict[Path, Path]:
    """The image of every mask, by the name without suffix, for endings whose files all look like masks."""
    by_end: dict[str, dict[Path, Path]] = defaultdict(dict)
    names: dict[Path, set[str]] = defaultdict(set)
    for path in files:
        names[path.parent].add(path.stem)
    for path in files:
        if own := shorter_among(path.stem, names[path.parent]):
            by_end[path.stem.removeprefix(own)][path] = path.with_name(own)
    often = sorted(by_end.values(), key=len, reverse=True)[:_ENDS]
    shown = (each for each in often if are_masks([*each], [stems[own][0] for own in each.values()]))
    owners = {path: own for each in shown for path, own in each.items()}
    of_mask = {path.with_suffix(""): own for path, own in owners.items()}
    more = {path: of_mask[own] for each in by_end.values() for path, own in each.items() if own in of_mask}
    return {**owners, **more} or _siblings(files)


def _siblings(files: Sequence[Path]) -> dict[Path, Path]:
    """As `_owners`, where images have an ending or a beginning of their own: `1_sat.jpg` and `1_mask.png`."""
    for expression in (_END, _BEGINNING):
        named: dict[str, dict[tuple[Path, str], Path]] = defaultdict(dict)
        for path in files:
            if match := expression.fullmatch(path.stem):
                named[match["word"]][path.parent, match["rest"]] = path
        often = sorted(named.values(), key=len, reverse=True)[:_WORDS]
        pairs = [(each, other) for each, other in permutations(often, 2) if _are_pairs(each, other)]
        if pairs:
            # Masks of several classes look like images beside masks of the foreground.
            images = max((each for each, _ in pairs), key=_colors)
            owners = [beside for each, beside in pairs if each is images]
            return {beside[key]: images[key].with_suffix("") for beside in owners for key in beside if key in images}
    return {}


def _are_pairs(images: Mapping[tuple[Path, str], Path], beside: Mapping[tuple[Path, str], Path]) -> bool:
    """Whether most of some files look like masks of others."""
    common = [key for key in beside if key in images]
    return len(common) > len(beside) / 2 and are_masks([beside[key] for key in common], [images[key] for key in common])


def _colors(images: Mapping[tuple[Path, str], Path]) -> float:
    look = look_at([*images.values()])
    return look.colors if look else 0.0


def _no_mask(folder: Path, image: Path, end: str, *, alone: bool) -> Problem:
    name = named(image, folder)
    remedy = "Add the mask, or leave the image out with --skip-bad."
    if alone:
        remedy = f"No image in {image.parent.name}/ has one. {remedy} Images without masks can be predicted."
    wanted = f"a mask {image.stem}{end}" if end else "a mask"
    return Problem("mask missing", name, f"{name}: expected {wanted} beside it, found none. {remedy}")

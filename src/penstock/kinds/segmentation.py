"""Semantic segmentation: an image and a mask of class ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import ClassVar, Final

from penstock.images import drawing, png
from penstock.images.header import PNG_SIGNATURE
from penstock.kinds.base import Described
from penstock.kinds.items import MAX_IDS, InspectedItem, Labels, Problem, named
from penstock.kinds.masks import MaskKind, mask_name
from penstock.progress import counted
from penstock.unpacked import MaskFolders, VocMasks
from penstock.values import Pixels

_BINARY: Final = {0, 255}
_FEW_GRAYS: Final = 8
_STEP: Final = 20  # between grays that stand for classes, of which 255 then is one
_MANY: Final = 10  # masks
_ALIKE: Final = 10  # of the 64 bits of a perceptual hash
_MANY_GRAYS: Final = 64  # classes in one image: those of ADE20K have fewer
_BINARY_KIND: Final = "0 and 255 masks"


class SegmentationKind(MaskKind):
    """Every pixel of an image has the id of a class, or one that does not count."""

    name = "segmentation"
    ignores = True
    writers: ClassVar = {"masks": MaskFolders, "voc": VocMasks}
    names_classes = False

    def check_together(
        self, items: Sequence[InspectedItem], labels: Labels, folder: Path, *, stated: bool
    ) -> Iterator[Problem]:
        """Too many classes, ids without a class, and ids that are probably something else."""
        if len(labels.classes) > MAX_IDS:
            name = named(items[0].item.image, folder)
            message = (
                f"{name}: expected up to {MAX_IDS} classes, as masks hold bytes, found {len(labels.classes)}. "
                "Merge some."
            )
            yield Problem("too many classes", name, message, whole=True)
        masked = [each for each in items if each.pixels]
        yield from _same_masks(masked, folder)
        doubts = [] if stated else list(_doubtful_ids(masked, labels, folder))
        yield from _unknown_ids(masked, labels, folder) if stated else doubts
        yield from _moved_colors(masked, folder) if labels.palette and not labels.mapping else ()
        if not any(problem.kind == _BINARY_KIND for problem in doubts):
            yield from _one_id_only(masked, labels, folder)

    def image_pixels(self, items: Sequence[InspectedItem], classes: int) -> list[int]:
        """The labelled pixels of the images that every class occurs in, for median frequency balancing."""
        total: Counter[int] = Counter()
        for each in items:
            labelled = sum(count for label, count in each.pixels if label < classes)
            total.update({label: labelled for label, _ in each.pixels})
        return [total[i] for i in range(classes)]

    def describe(self, items: Sequence[InspectedItem], labels: Labels) -> list[str]:
        """Pixels of every class and their part of all pixels, and of what is ignored."""
        seen: Counter[int] = Counter()
        for each in items:
            seen.update(dict(each.pixels))
        total = seen.total() or 1
        counts = self.count(items, len(labels.classes))
        lines = [
            f"  {i:>3} {name:<16} {count:>14,} pixels {count / total:>7.2%}"
            for i, (name, count) in enumerate(zip(labels.classes, counts, strict=True))
        ]
        if count := seen[labels.ignore]:
            lines.append(f"  {labels.ignore:>3} {'(ignored)':<16} {count:>14,} pixels {count / total:>7.2%}")
        return lines

    def lay(self, image: Pixels, mask: Pixels, described: Described) -> Pixels:
        """Masks in colour over the image."""
        colors = drawing.palette(described.ignore_label, described.colors)
        return drawing.overlay(image, mask, colors, background=drawing.background_of(described.classes))


def _same_masks(items: Sequence[InspectedItem], folder: Path) -> Iterator[Problem]:
    """A note of different images whose masks have the same pixels, of several ids: one may be a copy of another's."""
    first: dict[str, InspectedItem] = {}
    several = [each for each in items if len(each.pixels) > 1 and not each.item.is_slice]
    twins = [each for each in several if not _look_alike(first.setdefault(each.label_key, each), each)]
    if twins and len(several) >= _MANY:  # of a few, as in a first try, all may be drawn alike
        one, other = first[twins[0].label_key], twins[0]
        more = f", and so it is with {counted(len(twins) - 1, 'more mask')}" if len(twins) > 1 else ""
        message = (
            f"{mask_name(other, folder)}: it has the same pixels as {mask_name(one, folder)}, the mask of another "
            f"image{more}. Check that each image has its own mask."
        )
        yield Problem("masks alike", mask_name(other, folder), message, fatal=False, whole=True)


def _look_alike(one: InspectedItem, other: InspectedItem) -> bool:
    """Whether two images are equal or nearly so, as frames of a video are, whose masks may be equal too."""
    return one.content == other.content or (one.perceptual_hash ^ other.perceptual_hash).bit_count() <= _ALIKE


def _unknown_ids(items: Sequence[InspectedItem], labels: Labels, folder: Path) -> Iterator[Problem]:
    allowed = {*range(len(labels.classes)), labels.ignore}
    for each in items:
        if wrong := [i for i, _ in each.pixels if i not in allowed]:
            if _is_shaded(each):
                yield _gray_levels(each, folder)
                return
            name = mask_name(each, folder)
            message = (
                f"{name}: expected class ids from 0 to {len(labels.classes) - 1}, or the ignore label "
                f"{labels.ignore}, found {_some(wrong)}. Name all classes with --classes, change ids with --map "
                "OLD=NEW, or set the ignore label with --ignore."
            )
            yield Problem("id outside the classes", name, message)


def _doubtful_ids(items: Sequence[InspectedItem], labels: Labels, folder: Path) -> Iterator[Problem]:
    """Ids that no one explained: 0 and 255, or with gaps between them."""
    found = {i for each in items for i, _ in each.pixels}
    if not found:
        return
    if found == _BINARY and labels.ignore in found:
        example = next(each for each in items if any(i == labels.ignore for i, _ in each.pixels))
        message = (
            f"{mask_name(example, folder)}: expected class ids, found only 0 and 255, where 255 is the ignore label. "
            "If 255 is the foreground, make it class 1 with --map 255=1; if not, check how the masks were exported."
        )
        yield Problem(_BINARY_KIND, mask_name(example, folder), message, whole=True)
        return
    if found > {0, labels.ignore} and (mixed := _two_kinds(items, labels.ignore, folder)):
        yield mixed
        return
    classes = found - {labels.ignore}
    if not classes:
        return
    if shaded := next((each for each in items if _is_shaded(each)), None):
        problem = _gray_levels(shaded, folder)
        yield problem
        if problem.fatal:
            return
    gaps = sorted(set(range(max(classes) + 1)) - classes)
    if gaps:
        found = found if all(b - a >= _STEP for a, b in pairwise(sorted(found))) else classes
        example = next(each for each in items if any(i == max(classes) for i, _ in each.pixels))
        message = (
            f"{mask_name(example, folder)}: expected class ids without gaps, found {_some(sorted(found))} in all "
            f"masks. If they are grey values, change them with {_renumbered(found)}; if some classes are rare, name "
            "all with --classes."
        )
        yield Problem("gaps between ids", mask_name(example, folder), message, whole=True)


def _renumbered(found: set[int]) -> str:
    """The options that number some gray values from 0 on."""
    changed = [f"--map {old}={new}" for new, old in enumerate(sorted(found)) if old != new]
    return " ".join(changed) if len(changed) <= _FEW_GRAYS else "--map OLD=NEW"


def _two_kinds(items: Sequence[InspectedItem], ignore: int, folder: Path) -> Problem | None:
    """Masks of 0 and 255 beside masks of ids from 0 on, as where two sources were joined; None where one holds both."""
    kinds = [{i for i, _ in each.pixels} for each in items]
    others = sorted({0}.union(*(kind for kind in kinds if kind != {0, ignore})))
    if {0, ignore} not in kinds or others != [*range(len(others))]:
        return None
    first = items[kinds.index({0, ignore})]
    name = mask_name(first, folder)
    message = (
        f"{name}: expected the values of the other masks, {_some(others[:-1])} and {others[-1]}, found 0 and {ignore}, "
        f"where {ignore} is the ignore label. If it is a class, use --map {ignore}={1 if len(others) == 2 else 'ID'}. "  # noqa: PLR2004 - the background and one more
        "If it is to be ignored, name the classes with --classes."
    )
    return Problem("masks of two kinds", name, message, whole=True)


def _moved_colors(items: Sequence[InspectedItem], folder: Path) -> Iterator[Problem]:
    """A colour that is at one index in one palette and at another in the next: its indices are no ids."""
    homes: dict[tuple[int, int, int], tuple[int, str]] = {}
    for each in items:
        name = mask_name(each, folder)
        data = each.item.label.read_bytes()
        colors = png.palette(data, name) if data.startswith(PNG_SIGNATURE) else []
        for index in (i for i, _ in each.pixels if i < len(colors)):
            home, first = homes.setdefault(colors[index], (index, name))
            if home >= len(colors) or colors[home] != colors[index]:
                shown = ", ".join(map(str, colors[index]))
                message = (
                    f"{name}: expected palettes that agree, as --palette takes their indices for class ids, found the "
                    f"colour {shown} at {index}, and at {home} in {first}. List the colours of the classes in a file, "
                    "and use --colors FILE instead of --palette."
                )
                yield Problem("palettes that differ", name, message, whole=True)
                return


def _is_shaded(each: InspectedItem) -> bool:
    """Whether a mask is rather a gray image: soft edges between black and white, or more grays than classes."""
    counts = dict(each.pixels)
    between = counts.keys() - _BINARY
    if len(counts) > _MANY_GRAYS or len(between) < _FEW_GRAYS:
        return len(counts) > _MANY_GRAYS
    extremes = sum(counts.get(i, 0) for i in _BINARY)
    scattered = max(between) > 2 * len(between)
    return counts.keys() >= _BINARY and scattered and 4 * extremes > sum(counts.values())


def _gray_levels(each: InspectedItem, folder: Path) -> Problem:
    name = mask_name(each, folder)
    values = [i for i, _ in each.pixels]
    message = (
        f"{name}: expected class ids, found {len(values)} values from {values[0]} to {values[-1]}, as of an image of "
        "grays. If it is black and white with soft edges, divide it with --mask-threshold 128. If its values are "
        "opacities, call the folder alphas/. If they are ids, name all classes with --classes."
    )
    black_and_white = {values[0], values[-1]} == _BINARY
    return Problem("grays instead of ids", name, message, fatal=black_and_white, whole=True)


def _one_id_only(items: Sequence[InspectedItem], labels: Labels, folder: Path) -> Iterator[Problem]:
    """Masks with nothing but one class: a note each; fatal when a split has no other."""
    for split in dict.fromkeys(each.item.split for each in items):
        group = [each for each in items if each.item.split == split]
        flat = [f for f in group if len({i for i, _ in f.pixels} - {labels.ignore}) <= 1]
        everywhere = {i for each in group for i, _ in each.pixels} - {labels.ignore}
        if len(everywhere) <= 1 and flat:
            yield _one_id_in_all(split, group, flat, labels, folder)
            continue
        # A volume begins and ends with such slices.
        yield from (_one_id_in(each, labels, folder) for each in flat if not each.item.is_slice)


def _one_id_in_all(
    split: str, group: Sequence[InspectedItem], flat: Sequence[InspectedItem], labels: Labels, folder: Path
) -> Problem:
    remedy = "Check how the masks were exported."
    if any(i == labels.ignore for each in flat for i, _ in each.pixels):
        remedy = f"If {labels.ignore} stands for a class, give it a class id with --map {labels.ignore}=1."
    message = f"{split}: expected more than one class in its {len(group)} masks, found {_only(flat[0])}. {remedy}"
    return Problem("only background", mask_name(flat[0], folder), message, whole=True)


def _one_id_in(each: InspectedItem, labels: Labels, folder: Path) -> Problem:
    name = mask_name(each, folder)
    remedy = "This is right if the image shows nothing else."
    if any(i == labels.ignore for i, _ in each.pixels):
        remedy = f"If {labels.ignore} marks a class in this mask, replace it by the id of the class."
    message = f"{name}: expected more than one class, found {_only(each)}. {remedy}"
    return Problem("only background", name, message, fatal=False)


def _only(each: InspectedItem) -> str:
    ids = [i for i, _ in each.pixels]
    return f"only the {'ids' if len(ids) > 1 else 'id'} {_some(ids)}"


def _some(ids: Sequence[int]) -> str:
    return ", ".join(map(str, ids[:6])) + (f" and {len(ids) - 6} more" if len(ids) > 6 else "")  # noqa: PLR2004 - a line

"""What inspect and pack say of a folder of raw images, in lines."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock.datasets import listing
from penstock.images import RGB
from penstock.kinds.base import NO_LABEL
from penstock.progress import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.datasets.inspection import Inspection
    from penstock.datasets.layout import Layout
    from penstock.kinds.items import InspectedItem, Problem

_SHOWN: Final = 8  # classes, or problems of a kind, in a line
_WHOLE: Final = 5  # problems of a kind that are all given as sentences
_MANY: Final = 20  # classes
_SIZES: Final = 3  # of images, in a line
_NAMED: Final = 20  # files of a kind of problem, in what inspect prints


def describe(found: Inspection) -> str:
    """All that inspect prints of a folder."""
    layout, labels = found.layout, found.labels
    lines = [f"{found.folder}: {layout.kind.name}, {layout.name}"]
    lines += [f"  because {reason}" for reason in layout.reasons]
    how = "" if found.stated else f", inferred from the {layout.kind.inferred_from}"
    lines.append(f"classes ({len(labels.classes)}{how}): {', '.join(labels.classes)}")
    if found.pixel_format != RGB and not layout.modalities:
        lines.append(f"images: {found.pixel_format}")
    if layout.kind.ignores:
        lines.append(f"ignore label: {labels.ignore}")
    lines += _left_out(layout)
    lines += [line for split, items in found.splits.items() for line in _split_lines(found, split, items)]
    lines += _notes(found)
    lines += _problem_lines(found)
    return "\n".join(lines)


def as_json(found: Inspection) -> dict[str, Any]:
    """All that inspect finds of a folder, for other programs."""
    layout, labels, kind = found.layout, found.labels, found.layout.kind
    splits = {
        split: {"images": len(items), "per_class": kind.count(items, len(labels.classes)), "unit": kind.unit}
        for split, items in found.splits.items()
    }
    return {
        "folder": str(found.folder),
        "task": kind.name,
        "layout": layout.name,
        "reasons": layout.reasons,
        "classes": labels.classes,
        "ignore_label": labels.ignore if kind.ignores else None,
        "splits": splits,
        "problems": [asdict(problem) for problem in found.problems],
    }


def describe_briefly(found: Inspection, *, rewritten: bool) -> str:
    """What pack prints of a folder before it begins."""
    names, layout = found.labels.classes, found.layout
    shown = ", ".join(names[:_SHOWN]) + ", ..." * (len(names) > _SHOWN)
    line = f"{layout.kind.name} from {layout.name}, {counted(len(names), 'class')}: {shown}"
    read = layout.reasons[1:] if layout.kind.shows_boxes_read else ()  # how boxes were read
    if not read and rewritten:
        read = layout.reasons[-1:]  # how images are written anew
    notes = [*(f"note: {reason}" for reason in read), *_left_out(layout), *_notes(found)]
    notes += grouped([problem for problem in found.problems if not problem.fatal], _SHOWN)
    return "\n".join([line, *(notes if found.items else [])])


def _left_out(layout: Layout) -> list[str]:
    """The files that are no images, as a line."""
    if not layout.ignored:
        return []
    shown = ", ".join(layout.ignored[:5]) + (", ..." if len(layout.ignored) > 5 else "")  # noqa: PLR2004 - a line
    return [f"left out, not images: {counted(len(layout.ignored), 'file')} ({shown})"]


def _notes(found: Inspection) -> list[str]:
    """Notes on data that is valid, but may be unexpected."""
    notes = []
    if found.items and all(map(_is_unlabelled, found.items)):
        notes.append(
            f"note: no image has {_label(found)}. {_classes_by_folder(found)}If the folder is arranged in another way, "
            "name its layout: --layout NAME, or --layout FILE.py:NAME for one of your own"
        )
    for other in (each for each in found.layout.others if each.option):
        what = f"{other.kind.name}: {other.name}, {counted(other.labelled, 'image')} with labels"
        notes.append(f"note: {other.option} takes it for {what}")
    if "val" not in found.splits:
        notes.append("note: no val split: pack with --validation 0.1 sets a tenth of train aside to evaluate on")
    counts = found.layout.kind.count(found.splits.get("train", []), len(found.labels.classes))
    if absent := [name for name, count in zip(found.labels.classes, counts, strict=True) if not count]:
        shown = ", ".join(absent[:_SHOWN]) + ", ..." * (len(absent) > _SHOWN)
        notes.append(f"note: classes that do not occur in train ({len(absent)} of {len(counts)}): {shown}")
    if found.layout.kind.ignores and found.labels.ignore < len(found.labels.classes):
        name = found.labels.classes[found.labels.ignore]
        notes.append(f"note: the ignore label {found.labels.ignore} is class {name}: its pixels will not be learnt")
    return notes


def _classes_by_folder(found: Inspection) -> str:
    """A sentence for images without labels that lie in several folders: those may be the classes."""
    images = [(each.item.split, each.item.image) for each in found.items if isinstance(each.item.image, Path)]
    names = sorted({image.parent.name for _, image in images})
    if len(names) < 2 or not all(each.item.group for each in found.items):  # noqa: PLR2004 - two classes
        return ""
    shown = ", ".join(names[:_SHOWN]) + ", ..." * (len(names) > _SHOWN)
    in_split = all(listing.split_of(image.parent.parent.name) == split for split, image in images)
    pattern = f"{'(?P<split>[^/]+)/' if in_split else ''}(?P<label>[^/]+)/[^/]+$"
    return f"If the folders {shown} are classes, use --pattern '{pattern}'. "


def _is_unlabelled(inspected: InspectedItem) -> bool:
    return any(problem.kind == NO_LABEL for problem in inspected.problems)


def _label(found: Inspection) -> str:
    """What an image should have, in a word or two."""
    return found.layout.kind.label.partition(",")[0]


def _split_lines(found: Inspection, split: str, items: list) -> list[str]:  # type: ignore[type-arg]
    sizes = Counter((each.height, each.width) for each in items if each.height)
    common = ", ".join(f"{h} x {w} ({n:,})" for (h, w), n in sizes.most_common(_SIZES))
    missing = sum(map(_is_unlabelled, items))
    without = f", {missing:,} without {_label(found)}" if missing else ""
    more = ", ..." if len(sizes) > _SIZES else ""
    line = f"{split}: {counted(len(items), 'image')}{without}, height x width {common}{more}"
    return [line, *_class_lines(found, items)]


def _class_lines(found: Inspection, items: Sequence[InspectedItem]) -> list[str]:
    """A line for each class, and what more its kind says; of many classes that are inferred, those that occur."""
    kind, classes = found.layout.kind, len(found.labels.classes)
    lines = kind.describe(items, found.labels)
    if found.stated or classes <= _MANY:
        return lines
    counts = [*kind.count(items, classes), *[1] * len(lines)]
    return [line for line, count in zip(lines, counts, strict=False) if count]


def _problem_lines(found: Inspection) -> list[str]:
    if not found.problems:
        return ["no problems found"]
    kinds = Counter((problem.fatal, problem.kind) for problem in found.problems)
    fatal, notes = (
        ", ".join(f"{count} x {kind}" for (is_fatal, kind), count in kinds.items() if is_fatal == wanted)
        for wanted in (True, False)
    )
    lines = [f"PROBLEMS: {fatal}" if fatal else "no problems found"]
    lines += [f"notes: {notes}"] if notes else []
    lines += [f"  {line}" for line in grouped(found.problems, _NAMED)]
    return lines


def grouped(problems: Sequence[Problem], most: int) -> list[str]:
    """Problems as lines: of many of a kind, the first three as sentences and then up to `most` files by name."""
    kinds: dict[str, list[Problem]] = {}
    for problem in problems:
        kinds.setdefault(problem.kind, []).append(problem)
    lines = []
    for kind, group in kinds.items():
        whole = group if len(group) <= _WHOLE else group[:3]
        lines += [("" if problem.fatal else "(note) ") + problem.message for problem in whole]
        if rest := group[len(whole) :]:
            files = ", ".join(problem.file for problem in rest[:most]) + (", ..." if len(rest) > most else ".")
            lines.append(f"... and {len(rest):,} more of this kind ({kind}): {files}")
    return lines

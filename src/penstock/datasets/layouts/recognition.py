"""Which layout a folder has."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final, Literal

from penstock import custom
from penstock.datasets import listing
from penstock.datasets.layout import Layout
from penstock.datasets.layouts import (
    advice,
    choosing,
    coco_shapes,
    foreign,
    groups,
    masks,
    rivals,
    several,
    split_lists,
    stated_pairs,
    table_boxes,
    table_problems,
    unread,
)
from penstock.datasets.layouts.adjusting import adjusted
from penstock.datasets.layouts.catalogue import layouts
from penstock.datasets.layouts.layout_options import LayoutOptions
from penstock.datasets.layouts.patterns import PATTERN_TASK, by_pattern
from penstock.errors import DatasetError
from penstock.kinds import KINDS
from penstock.kinds.items import Box, Problem, named

_SHOWN: Final = 8
_FOLDERS: Final = (
    "arrange the images in images/ and masks/ (with or without train/, val/ and test/ in them), or in one folder per "
    "class"
)
_ELSEWHERE: Final = "pass the folder that holds all of the data, if this is a part of it or more than it"
_PUBLISHED: Final = (
    "The page docs/folders.md lists the folders that are recognised, each with the command that packs it."
)


def recognise(folder: Path, how: LayoutOptions) -> Layout:
    """The layout of a folder, from the names in it.

    Raises:
        DatasetError: there is no such folder, or nothing in it that we know.
    """
    if not folder.is_dir():
        raise DatasetError(
            str(folder),
            expected="a folder of images",
            found="a file" if folder.exists() else "no such folder",
            remedy="Check the path",
        )
    if listing.is_packed(folder):
        raise DatasetError(
            str(folder),
            expected="a folder of raw data",
            found="a packed dataset",
            remedy="Look at it with penstock show, or read all of it with penstock verify",
        )
    if how.task and how.task not in KINDS:
        raise DatasetError(
            f"--task {how.task}",
            expected=f"one of {', '.join(KINDS)}",
            found=how.task,
            remedy="Choose one of them, or leave it out",
        )
    if how.pattern and (how.layout or how.task not in {"", PATTERN_TASK}):
        raise DatasetError(
            "--pattern",
            expected="no --layout and no other --task, as the pattern determines both",
            found=how.layout or how.task,
            remedy="Remove one of the two options",
        )
    found = by_pattern(folder, how.pattern) if how.pattern else _found(folder, how)
    found = _gathered(folder, found, how) if found is not None and found.items else found
    said = how.layout or how.pattern or how.fields or how.images
    if not said and (error := foreign.refusal(folder, found)):
        raise error
    bare = found is None or (_unlabelled(found) and not how.layout)
    if found is None and how.task and not how.layout and (other := _found(folder, replace(how, task=""))):
        raise _of_another_task(folder, how.task, other)
    nameless = (table_problems.without_names(folder) or unread.refusal(folder)) if bare else None
    if nameless or found is None or (bare and not how.images and advice.has_annotations(folder)):
        raise nameless or _unknown(folder, how)
    if not found.items:
        raise _empty(folder, found)
    found = _reread(found, how.boxes) if how.boxes else found
    return adjusted(found, how)


def _reread(found: Layout, boxes: Literal["xyxy", "xywh"]) -> Layout:
    if not found.boxes:
        raise DatasetError(
            "--boxes",
            expected="boxes of four numbers without names: a CSV's column bbox, or COCO's JSON",
            found=found.name,
            remedy="Remove --boxes",
        )
    meant = (
        "corners (left, top, right, bottom)" if boxes == "xyxy" else "a corner and a size (left, top, width, height)"
    )
    items, settled = found.items, {table_boxes.MIXED}
    if boxes != found.boxes:
        settled.add(coco_shapes.CONTRADICTION)
        sign = 1 if boxes == "xywh" else -1
        items = tuple(replace(item, label=tuple(_resized(box, sign) for box in item.label or ())) for item in items)
    return replace(
        found,
        items=items,
        reasons=(found.reasons[0], f"boxes are read as {meant}: --boxes says so"),
        problems=tuple(problem for problem in found.problems if problem.kind not in settled),
        boxes=boxes,
    )


def _resized(box: Box, sign: int) -> Box:
    """The box with its left top corner added to its right bottom corner (sign 1) or subtracted (sign -1)."""
    return replace(box, right=box.right + sign * box.left, bottom=box.bottom + sign * box.top)


def _empty(folder: Path, found: Layout) -> DatasetError:
    remedy = "Check that the files are there, and that they are images"
    if found.problems:
        count = (
            f"There are {len(found.problems):,} problems. The first is" if len(found.problems) > 1 else "The problem is"
        )
        remedy = f"{count}: {found.problems[0].message.removesuffix('.')}"
    return DatasetError(
        str(folder),
        expected="at least one image",
        found="none",
        remedy=remedy,
        message=f"{folder}: the layout is {found.name}, but no usable image was found.",
    )


def _unlabelled(found: Layout) -> bool:
    """Whether there are images, but no image has a label."""
    return bool(found.items) and all(item.label is None for item in found.items)


def _gathered(folder: Path, found: Layout, how: LayoutOptions) -> Layout:
    """The layout with the splits of lists, the masks of one rater, and images that belong together."""
    found = split_lists.divide(folder, _composed(folder, _of_rater(found, how.rater)))
    found = found if how.group else groups.by_table(folder, found, how.fields)
    left = unread.problems(folder, found, confirmed=bool(how.layout or how.pattern or how.masks))
    found = replace(found, problems=(*found.problems, *left))
    if not (how.masks or custom.import_path_of(how.layout)):  # which say what is meant
        others = (*stated_pairs.problems(folder, found), *rivals.problems(folder, found))
        found = replace(found, problems=(*found.problems, *others))
    found = replace(found, problems=(*found.problems, *groups.perhaps_splits(folder, found)))
    return groups.by_pattern(folder, found, how.group) if how.group else groups.by_folder(folder, found)


def _composed(folder: Path, found: Layout) -> Layout:
    """The layout with names in composed Unicode, and a note where files have others."""
    names = [named(item.image, folder) for item in found.items]
    other = next((name for name in names if listing.composed(name) != name), None)
    if other is None:
        return found
    items = tuple(replace(item, name=listing.composed(item.name)) for item in found.items)
    message = (
        f"{other}: the name has accents apart from their letters, as macOS writes them. Names are compared composed."
    )
    note = Problem("name in decomposed Unicode", other, message, fatal=False, whole=True)
    return replace(found, items=items, problems=(*found.problems, note))


def _of_rater(found: Layout, rater: str) -> Layout:
    if not rater:
        return found
    if rater not in found.raters:
        raise DatasetError(
            f"--rater {rater}",
            expected=f"one of {', '.join(found.raters)}" if found.raters else "masks of several raters",
            found=rater if found.raters else f"{found.name}, in which no masks are told apart by raters",
            remedy="Choose one of them" if found.raters else "Remove --rater",
        )
    problems = tuple(problem for problem in found.problems if problem.kind != several.RATERS)
    reasons = (*found.reasons, f"masks are those of --rater {rater}")
    return replace(found, items=found.raters[rater], problems=problems, reasons=reasons)


def _found(folder: Path, how: LayoutOptions) -> Layout | None:
    if how.images or how.masks:
        if not (how.images and how.masks):
            raise DatasetError(
                "--images" if how.images else "--masks",
                expected="both folders",
                found="one",
                remedy="Give both folders",
                message="--images and --masks need each other.",
            )
        return _for_task(how.task, "--images and --masks", masks.given(folder, how.images, how.masks))
    if how.fields:
        every = (known.recognise_fields(folder, how.fields) for known in layouts().values())
        found = next(filter(None, every), None)
        return _for_task(how.task, "--field", found) if found else None
    if place := custom.import_path_of(how.layout):
        return _custom(place, folder)
    if how.layout and how.layout not in layouts():
        raise DatasetError(
            f"--layout {how.layout}",
            expected=f"FILE.py:NAME, or one of {', '.join(layouts())}",
            found=how.layout,
            remedy="Choose one of them, or leave it out",
        )
    if how.layout:
        return choosing.named(folder, how.layout, how.task)
    return choosing.chosen(folder, how.task)


def _for_task(task: str, option: str, found: Layout) -> Layout:
    if task in {"", found.kind.name}:
        return found
    raise DatasetError(
        f"--task {task}",
        expected=f"{found.kind.name}, by {option}",
        found=task,
        remedy="Remove one of the options",
    )


def _custom(place: custom.ImportPath, folder: Path) -> Layout | None:
    found = custom.call(custom.load(place, "--layout"), place, "--layout", {"folder": folder})
    if found is not None and not isinstance(found, Layout):
        raise DatasetError(
            f"--layout {place}",
            expected="a function that gives a penstock.Layout, or None",
            found=type(found).__name__,
            remedy="See docs/layouts.md for one",
        )
    return found


def _of_another_task(folder: Path, task: str, found: Layout) -> DatasetError:
    return DatasetError(
        str(folder),
        expected=f"data for {task}",
        found=f"data for {found.kind.name} ({found.name})",
        remedy=f"Arrange the files as a row of docs/folders.md for {task} does, describe the layout in a file of your "
        f"own with --layout FILE.py:NAME, or leave --task out to pack for {found.kind.name}",
    )


def _unknown(folder: Path, how: LayoutOptions) -> DatasetError:
    known = [layouts()[how.layout]] if how.layout in layouts() else [] if how.layout else layouts().values()
    if refusal := next(filter(None, (each.refusal(folder) for each in known)), None):
        return refusal
    if not how.layout and (unreadable := advice.without_images(folder)):
        return unreadable
    there = any(map(listing.is_image, listing.files(folder)))
    entries = sorted(entry.name + ("/" if entry.is_dir() else "") for entry in folder.iterdir())
    found = ", ".join(entries[:_SHOWN]) + (", ..." if len(entries) > _SHOWN else "") or "an empty folder"
    wanted = f"the layout {how.layout}" if how.layout else f"data for {how.task}" if how.task else "a known layout"
    ways = [_ELSEWHERE] if how.layout else [_FOLDERS, _ELSEWHERE]
    if there and not how.layout:
        ways.append("give --pattern if the class is in the name of the image")
        ways.append("predict images without labels with penstock predict RUN FOLDER")
    ways.append("describe the layout in a file of your own with --layout FILE.py:NAME")
    near = "" if how.layout else advice.nearest(folder)
    before = f" These layouts come near:{near}\n" if near else ""
    after = advice.tree_of(how.layout) if how.layout else f" {_PUBLISHED}"
    return DatasetError(
        str(folder),
        expected=wanted,
        found=found,
        remedy=f"{'Else do' if near else 'Do'} one of these: {'; '.join(ways)}.{after}",
        message=f"{folder}: expected {wanted}, found {found}.{before}",
    )

"""Image-per-class folders: `train/cat/a.jpg`, or `cat/a.jpg` without splits."""

from __future__ import annotations

import contextlib
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from penstock.datasets import class_lists, listing
from penstock.datasets.layout import Layout
from penstock.datasets.layouts import sides
from penstock.datasets.layouts.evidence import are_masks
from penstock.datasets.layouts.mask_problems import outside
from penstock.datasets.layouts.masks import IMAGES, MASKS
from penstock.datasets.layouts.matching import shorter_among
from penstock.kinds.items import Item, Labels, Problem, named
from penstock.progress import counted

_NUMBER: Final = re.compile(r"[0-9]{1,18}")
_NO_CLASS: Final = re.compile(
    r"un-?_?labell?ed|unsup(ervised)?|outputs?|results?|predictions?|models?|checkpoints?|runs|logs|"
    r"rejected|trash|backup|tmp|temp|original_images|thumb(s|nails?)",
    re.IGNORECASE,
)
"""Folders that people keep beside those of the classes."""
_OF_MASKS: Final = re.compile(r"Segmentation(Class|Object)(Raw|Aug)?")
_COPY: Final = re.compile(r"(.+?)( - copy| copy)?( ?\(\d+\)|(?<=copy) \d+)?", re.IGNORECASE)
"""As Windows and macOS call what is copied beside itself."""
_DATE: Final = re.compile(r"((19|20)\d\d[-_. ]?\d\d[-_. ]?\d\d|\d\d[-_. ]\d\d[-_. ](19|20)\d\d)(?!\d)")
MASKS_INSIDE: Final = "masks in classes"
DOUBTS: Final = frozenset(
    {
        sides.KIND,
        "data sets as classes",
        "splits as classes",
        "splits in classes",
        "folders of classes",
        "one folder as a class",
        "folder of no class",
    }
)
"""Problems of folders that are perhaps no classes."""
_PAIR: Final = 2
_RARELY: Final = 20  # images for each mask, where those with a defect alone have one
_LOOKED_AT: Final = 8


def recognise(folder: Path) -> Layout | None:
    """The layout, or None where no subfolder holds images."""
    divided = listing.splits(folder)
    splits = divided or {"train": folder}
    depth = _depth(splits.values())
    called = {listing.composed(each.name) for path in splits.values() for each in _classes(path, depth) if _holds(each)}
    stated = class_lists.read_classes(folder)
    by_number = sorted(called, key=lambda name: (int(name) if _NUMBER.fullmatch(name) else -1, name))
    ordered = sorted(stated) == sorted(called)
    classes = [*stated] if ordered else by_number
    if not any(listing.is_image(path) for root in splits.values() for path in listing.files(root)) or not classes:
        return None
    items: list[Item] = []
    problems = outside(folder, folder, divided) if divided else []
    problems += [note for root in splits.values() for note in _doubts(folder, root, depth)]
    problems += [_alone(folder, classes[0])] if len(classes) == 1 else []
    ignored: list[str] = []
    for split, root in splits.items():
        found, wrong, left = _of_split(folder, split, root, classes, depth)
        items += found
        problems += [*wrong, *_empty_classes(folder, split, root, classes, items)]
        ignored += left
    problems += masks_among(folder, items)
    names = _names(folder, classes)
    how = f"splits: {', '.join(splits)}" if divided else "no train/, val/ or test/: all images are in train"
    which = "each folder in those of the dates is a class" if depth else "each folder with images is a class"
    named_by = ["classes have the names of the list beside the folders, which are called by their ids"] if names else []
    named_by += ["classes have the order of the list beside the folders"] if ordered else []
    reasons = (f"{which}; found {len(classes)}", how, *named_by)
    return Layout(
        "classification",
        "one folder per class",
        reasons,
        tuple(items),
        Labels(names or tuple(classes)),
        tuple(problems),
        tuple(ignored),
    )


def _of_split(
    folder: Path, split: str, root: Path, classes: Sequence[str], depth: int
) -> tuple[list[Item], list[Problem], list[str]]:
    """The images of a split, those that lie in no class, and the files that are none."""
    items: list[Item] = []
    problems: list[Problem] = []
    ignored: list[str] = []
    names: set[str] = set()
    for path in listing.files(root):
        inside = path.relative_to(root)
        if not listing.is_image(path):
            ignored.append(str(path.relative_to(folder)))
            continue
        if len(inside.parts) <= depth + 1:
            problems.append(_classless(named(path, folder)))
            continue
        name = inside.with_suffix("").as_posix()
        if name in names:  # a.jpg and a.png
            name = inside.as_posix()
        names.add(name)
        label = classes.index(listing.composed(inside.parts[depth]))
        items.append(Item(split, name, path, label=label))
    return items, problems, ignored


def _names(folder: Path, classes: Sequence[str]) -> tuple[str, ...]:
    """The names that a list gives to folders that are called 0, 1, 2, ... or 1, 2, 3, ...; none for other folders."""
    names = class_lists.read_classes(folder)
    first = int(names[:1] == (class_lists.NAMELESS,) and len(names) == len(classes) + 1)
    fit = len(names) == len(classes) + first and all(map(_is_id, classes, range(first, len(names))))
    return names[first:] if fit else ()


def _is_id(name: str, number: int) -> bool:
    return _NUMBER.fullmatch(name) is not None and int(name) == number


def _classless(name: str) -> Problem:
    message = f"{name}: expected an image in the folder of a class, found it beside them: it is left out."
    return Problem("image in no class", name, message, fatal=False)


def _classes(root: Path, depth: int) -> list[Path]:
    tops = listing.folders(root)
    return [path for top in tops for path in (listing.folders(top) if depth else [top])]


def _holds(folder: Path) -> bool:
    """Whether a folder may be one of a class: it holds images, or nothing yet, rather than lists or annotations."""
    with contextlib.suppress(OSError):  # which the next line names
        if any(map(listing.is_image, folder.iterdir())):
            return True
    found = listing.files(folder)
    return not found or any(map(listing.is_image, found))


def _depth(roots: Iterable[Path]) -> int:
    """How many folders are above those of the classes: one where folders of dates hold the same ones."""
    tops = [path for root in roots for path in listing.folders(root)]
    dated = all(_DATE.match(path.name) for path in tops)
    return int(dated and bool(_repeated(tops)))


def _repeated(tops: Sequence[Path]) -> list[str]:
    """The names of the folders that most of several folders hold, and no image beside them."""
    held = [sorted(path.name for path in listing.folders(top)) for top in tops]
    loose = any(listing.is_image(path) for top in tops for path in listing.plain(top, "*"))
    often = Counter(name for names in held for name in names)
    names = sorted(name for name, count in often.items() if count > len(tops) / 2)
    return names if not loose and len(tops) >= _PAIR and len(names) >= _PAIR and all(held) else []


def _doubts(folder: Path, root: Path, depth: int) -> Iterator[Problem]:
    """Notes of folders that look like data sets, like images and masks, or like folders of classes."""
    if depth:
        return
    folders = listing.folders(root)
    if folders and all(_holds_pair(path) for path in folders):
        yield _data_sets(folder, folders)
        return
    if len(folders) >= _PAIR and all(len(listing.splits(path)) >= _PAIR for path in folders):
        yield _splits_inside(folder, folders)
        return
    for path in folders:
        if inside := _parts(path):
            name = named(path, folder)
            message = (
                f"{name}: it is taken for a class, but holds {' and '.join(inside)}. If it is a data set by itself, "
                "inspect and pack that folder."
            )
            yield Problem("data set as a class", name, message, fatal=False, whole=True)
    if not any(map(_parts, folders)):
        yield from _inner_classes(folder, folders)
    named_for = {split for path in folders for role, split in [listing.role_of(path.name)] if role}
    if named_for and ("" not in named_for or {"train", "test"} <= named_for or {"train", "val"} <= named_for):
        yield _splits(folder, folders)
    yield from sides.problems(folder, folders)
    yield from _no_classes(folder, folders)


def masks_among(folder: Path, items: Sequence[Item]) -> Iterator[Problem]:
    """Images of a class that have the names of others there, perhaps with more behind, and look like their masks."""
    named_so: dict[int, dict[str, list[Path]]] = {}
    for item in items:
        if isinstance(item.image, Path):
            named_so.setdefault(item.label, {}).setdefault(item.image.stem, []).append(item.image)
    for known in named_so.values():
        pairs = [sorted(each, key=_is_png) for each in known.values() if len(each) == _PAIR]
        pairs += [[known[own][0], each[0]] for name, each in known.items() if (own := shorter_among(name, known))]
        if _RARELY * len(pairs) < len(known) or not are_masks(
            [mask for _, mask in pairs], [image for image, _ in pairs]
        ):
            continue
        image, mask = (named(path, folder) for path in pairs[0])
        message = (
            f"{mask}: expected an image of a class, found what looks like the mask of {image}. Pack the masks with "
            "--task segmentation from folders images/ and masks/, or move them away."
        )
        yield Problem(MASKS_INSIDE, mask, message, whole=True)
        return


def _is_png(path: Path) -> tuple[int, bool]:
    return len(path.parts), path.suffix.lower() == ".png"


def _no_classes(folder: Path, folders: Sequence[Path]) -> Iterator[Problem]:
    """Folders that are called as no class is: what programs write, and copies of another folder."""
    there = {path.name for path in folders}
    for path in folders:
        if _OF_MASKS.fullmatch(path.name):
            yield _masks_alone(named(path, folder))
            continue
        original = _COPY.fullmatch(path.name)
        copied = original is not None and original[1] != path.name and original[1] in there
        if copied or _NO_CLASS.fullmatch(path.name):
            name = named(path, folder)
            found = f"a copy of {original[1]}/" if copied and original else "one whose name is hardly that of a class"
            message = (
                f"{name}: expected a folder of a class, found {found}. Move it away, or confirm it with --layout "
                "folders."
            )
            yield Problem("folder of no class", name, message, whole=True)


def _masks_alone(name: str) -> Problem:
    """A folder of masks as Pascal VOC has it, beside which the images are missing, as in CVAT's usual exports."""
    message = (
        f"{name}: expected a folder of a class, found one of masks, as Pascal VOC calls it. Put the images into "
        "JPEGImages/ beside it (CVAT exports them with 'Save images'), or confirm it with --layout folders."
    )
    return Problem("folder of no class", name, message, whole=True)


def _splits_inside(folder: Path, folders: Sequence[Path]) -> Problem:
    """Classes that hold the splits, whose images would all be of one split."""
    names = sorted({inside.name for path in folders for inside in listing.splits(path).values()})
    message = (
        f"{folder}: expected folders of classes in folders of splits, found {counted(len(folders), 'folder')} such as "
        f"{folders[0].name}/ that each hold {' and '.join(f'{name}/' for name in names)}. If these are the splits, use "
        f"--pattern '(?P<label>[^/]+)/(?P<split>{'|'.join(map(re.escape, names))})/'. If not, use "
        "--layout folders."
    )
    return Problem("splits in classes", str(folder), message, whole=True)


def _parts(path: Path) -> list[str]:
    """The folders that make a data set of a folder: images and masks, or splits."""
    pair = [listing.subfolder(path, names) for names in (IMAGES, MASKS)]
    return [f"{each.name}/" for each in (pair if all(pair) else listing.splits(path).values()) if each]


def _holds_pair(path: Path) -> bool:
    """Whether a folder holds images and masks, by itself or in splits."""
    places = [path, *listing.splits(path).values()]
    return any(all(listing.subfolder(place, names) for names in (IMAGES, MASKS)) for place in places)


def _inner_classes(folder: Path, folders: Sequence[Path]) -> Iterator[Problem]:
    """The folders in the folders may be the classes: where they are the same in most of them, or hold all images."""
    same = _repeated(folders)
    outer = folders if same else [path for path in folders if not any(map(listing.is_image, listing.plain(path, "*")))]
    held = [{path.parent.name for path in listing.files(each) if listing.is_image(path)} for each in outer]
    inner = same or sorted(set().union(*held))
    again = same or [name for name in inner if sum(name in each for each in held) > 1]
    if len(outer) < _PAIR or len(inner) < _PAIR:
        return
    names = _first([named(path, folder) for path in outer])
    what = "folders of the same names" if same else "folders"
    splits = [path.name for path in outer if listing.role_of(path.name)[1]]
    above = "(?i:(?P<split>train|val|test))[^/]*/(.+/)?" if len(splits) > 1 else ""
    message = (
        f"{names}: they are taken for classes, but hold {what}: {_first(inner)}. If those are the classes, "
        f"use --pattern '{above}(?P<label>[^/]+)/[^/]+$'. If not, confirm the classes with --layout folders."
    )
    lone = sorted({*inner} & {path.name for path in outer})
    if lone:
        message += f" Move {lone[0]}/{lone[0]} away before: its images lie in no folder of a class."
    yield Problem(
        "folders of classes",
        named(outer[0], folder),
        message,
        fatal=bool(above) or len(inner) <= min(len(outer), 2 * len(again)),
        whole=True,
    )


def _first(names: Sequence[str]) -> str:
    return ", ".join(names[:_LOOKED_AT]) + ", ..." * (len(names) > _LOOKED_AT)


def _data_sets(folder: Path, folders: Sequence[Path]) -> Problem:
    names = _first([named(path, folder) for path in folders])
    message = (
        f"{names}: expected a folder for each class, found images and masks in every folder. Inspect and pack each of "
        "them by itself."
    )
    return Problem("data sets as classes", named(folders[0], folder), message, whole=True)


def _alone(folder: Path, name: str) -> Problem:
    """A single folder is hardly a class."""
    message = (
        f"{name}: expected a folder for each class, found one. If it holds the data, inspect and pack "
        f"{shlex.quote(str(folder / name))}. If the class is in the names of the images, use --pattern. If it is the "
        "only class, confirm it with --layout folders."
    )
    return Problem("one folder as a class", name, message, whole=True)


def _splits(folder: Path, folders: Sequence[Path]) -> Problem:
    """The folders are named for splits: `trainA`, `test_cats`."""
    names = _first([named(path, folder) for path in folders])
    message = (
        f"{names}: expected a folder for each class, found folders whose names hold that of a split. If the rest of "
        "the names are classes, move the folders into train/, val/ and test/ without that word. If the names are "
        "classes, confirm it with --layout folders."
    )
    return Problem("splits as classes", named(folders[0], folder), message, whole=True)


def _empty_classes(folder: Path, split: str, root: Path, classes: list[str], items: list[Item]) -> list[Problem]:
    """Classes without an image: fatal in training, where the class could never be learnt."""
    present = {item.label for item in items if item.split == split}
    missing = [name for label, name in enumerate(classes) if label not in present]
    return [
        Problem(
            "class without images",
            (root / name).relative_to(folder).as_posix(),
            f"{(root / name).relative_to(folder).as_posix()}: expected images of class {name} in split {split}, "
            "found none. Add some, or remove the class from all splits.",
            fatal=split == "train",
            whole=True,
        )
        for name in missing
    ]

"""Whether raw data is sound: each item by itself, then all of them together."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from penstock.datasets.boxes import check as checked_boxes
from penstock.datasets.items import MOST_IDS, Item, Labels, Layout, Problem, named
from penstock.errors import PenstockError
from penstock.images import codecs, probe
from penstock.progress import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from penstock.datasets.items import Task
    from penstock.images import ImageInfo

NO_LABEL: Final = "no label"
_IDS: Final = 256
_WHITE: Final = 255
_BINARY: Final = {0, _WHITE}
_BINARY_KIND: Final = "0 and 255 masks"


@dataclass(frozen=True)
class Facts:
    """What was found of one item.

    Attributes:
        item: the item.
        height, width: of the upright image, in pixels; 0 where it is unreadable.
        format: "jpeg" or "png".
        size: bytes of image and mask files together.
        content: a hash of the image file.
        key: a hash of all that the item's record will hold.
        pixels: how many pixels of the mask have each id that occurs, after mapping.
        problems: what is wrong with it.
    """

    item: Item
    height: int = 0
    width: int = 0
    format: str = ""
    size: int = 0
    content: str = ""
    key: str = ""
    pixels: tuple[tuple[int, int], ...] = ()
    problems: tuple[Problem, ...] = ()


def check_item(folder: Path, item: Item, labels: Labels, task: Task, channels: int = 3) -> Facts:
    """Read and decode one item's files."""
    name = named(item.image, folder)
    shown = name.encode(errors="backslashreplace").decode()
    if shown != name:  # bytes that are no UTF-8: no record could hold the name
        message = f"{shown}: expected a file name in UTF-8, found other bytes. Rename the file."
        return Facts(item, problems=(Problem("unreadable name", name, message),))
    try:
        image = item.image.read_bytes()
        info = probe(image, name)
        facts = Facts(item, *info.size, format=info.format, size=len(image), content=_hash(image))
        codecs.decode_image(image, name, info=info, channels=channels)
    except (PenstockError, OSError) as error:
        return Facts(item, problems=(Problem("unreadable picture", name, _sentence(name, error)),))
    if item.boxes is not None:
        return checked_boxes(name, facts)
    if item.mask is None:
        if task != "classification" or not isinstance(item.label, int):
            return replace(facts, problems=(_unlabelled(name, task, item.label),))
        return replace(facts, key=_key(item, facts.content, str(item.label)))
    return _check_mask(folder, facts, info, labels)


def _unlabelled(name: str, task: Task, label: object) -> Problem:
    if task == "classification":
        wanted, found, remedy = "a label, a mask or boxes", f"{label!r} for a label", "Give it a class id"
    else:
        wanted = "boxes, perhaps an empty tuple of them" if task == "detection" else "a mask"
        found, remedy = f"none, but the layout is for {task}", "Give it some"
    return Problem(NO_LABEL, name, f"{name}: expected {wanted}, found {found}. {remedy}, or leave it out.")


def _check_mask(folder: Path, facts: Facts, image: ImageInfo, labels: Labels) -> Facts:
    mask = facts.item.mask
    assert mask is not None  # noqa: S101 - the caller looked
    name = named(mask, folder)
    try:
        data = mask.read_bytes()
        info = probe(data, name)
        if labels.shares and info.bits != 8:  # noqa: PLR2004 - a byte
            return replace(facts, problems=(_other_depth(name, info),))
        ids = read_ids(data, name, labels)
    except (PenstockError, OSError) as error:
        kind = "not a mask of ids" if "one channel" in str(error) else "unreadable mask"
        return replace(facts, problems=(Problem(kind, name, _sentence(name, error)),))
    facts = replace(facts, size=facts.size + len(data), key=_key(facts.item, facts.content, _hash(ids.tobytes())))
    if info.size != image.size:
        return replace(facts, problems=(_other_size(name, image, info),))
    counts = np.bincount(ids.ravel(), minlength=_IDS)
    return replace(facts, pixels=tuple((int(i), int(counts[i])) for i in np.flatnonzero(counts)))


def _other_depth(name: str, info: ImageInfo) -> Problem:
    message = f"{name}: expected an alpha matte of 8 bits, found {info.bits} bits. Save it as an 8-bit gray PNG."
    return Problem("matte of another depth", name, message)


def read_ids(data: bytes, where: str, labels: Labels) -> NDArray[np.uint8]:
    """The ids of a raw mask, mapped.

    Raises:
        DataError: it is no mask of ids.
    """
    ids = codecs.decode_mask(data, where, palette=labels.palette)
    if not labels.mapping:
        return ids
    table = np.arange(_IDS, dtype=np.uint8)
    for old, new in labels.mapping.items():
        table[old] = new
    return table[ids]


def _other_size(name: str, image: ImageInfo, mask: ImageInfo) -> Problem:
    turned = f" after its EXIF orientation {image.orientation}" if image.orientation != 1 else ""
    message = (
        f"{name}: expected a mask of {image.size[0]} x {image.size[1]} (height x width), like its picture{turned}, "
        f"found {mask.size[0]} x {mask.size[1]}. Save both at the same size."
    )
    return Problem("size mismatch", name, message)


def infer_classes(facts: Sequence[Facts], labels: Labels) -> tuple[str, ...]:
    """Names for the ids that occur, 0 to the highest: class0, class1, ..."""
    masks = {i for fact in facts for i, _ in fact.pixels} - {labels.ignore}
    found = masks | {box.label for fact in facts for box in fact.item.boxes or ()}
    return tuple(f"class{i}" for i in range(max(found, default=-1) + 1))


def check_together(
    layout: Layout, facts: Sequence[Facts], labels: Labels, folder: Path, *, stated: bool
) -> Iterator[Problem]:
    """What only shows when all items are seen.

    Args:
        layout: what lies in the folder.
        facts: of all its items.
        labels: with the classes filled in.
        folder: where it is.
        stated: whether somebody named the classes; inferred ones are trusted less.
    """
    yield from _leaks(facts, folder)
    yield from _elsewhere(facts, folder)
    yield from _outside_classes(facts, labels, folder)
    yield from _alike(facts, labels, folder)
    if layout.task == "segmentation" and len(labels.classes) > MOST_IDS:
        name = named(facts[0].item.image, folder)
        message = (
            f"{name}: expected up to {MOST_IDS} classes, as masks hold bytes, found {len(labels.classes)}. Join some."
        )
        yield Problem("too many classes", name, message, whole=True)
    if not labels.classes and not any(problem.fatal for fact in facts for problem in fact.problems):
        name = named(facts[0].item.image, folder)
        held = "an object in any picture" if layout.task == "detection" else "an id that counts in any mask"
        message = f"{name}: expected {held}, found none. Check where the labels are, and how they were exported."
        yield Problem("no classes", name, message, whole=True)
    if layout.task == "matting":
        yield from _black_mattes(facts, folder)
    if layout.task == "segmentation":
        masked = [fact for fact in facts if fact.pixels]
        doubts = [] if stated else list(_doubtful_ids(masked, labels, folder))
        yield from _unknown_ids(masked, labels, folder) if stated else doubts
        if not any(problem.kind == _BINARY_KIND for problem in doubts):
            yield from _one_id_only(masked, labels, folder)


def _outside_classes(facts: Sequence[Facts], labels: Labels, folder: Path) -> Iterator[Problem]:
    """Labels and boxes of a class that has no name."""
    for fact in facts:
        item = fact.item
        own = [item.label] if isinstance(item.label, int) and not item.mask else []
        held = own if item.boxes is None else [box.label for box in item.boxes]
        wrong = [label for label in held if not 0 <= label < len(labels.classes)]
        if wrong and (item.boxes is not None or fact.content):
            name = named(item.image, folder)
            message = (
                f"{name}: expected a class from 0 to {len(labels.classes) - 1}, found {wrong[0]}. Name all classes, in "
                "the order of their ids."
            )
            yield Problem("label outside the classes", name, message)


def _alike(facts: Sequence[Facts], labels: Labels, folder: Path) -> Iterator[Problem]:
    """Names of classes that are probably one."""
    first: dict[str, str] = {}
    for name in (name for name in labels.classes if len(name) > 1):  # letters may be classes
        other = first.setdefault("".join(name.split()).casefold(), name)
        if other != name:
            message = (
                f"classes {other!r} and {name!r} differ in capitals and spaces alone: if they are one, write it once."
            )
            yield Problem("classes alike", named(facts[0].item.image, folder), message, fatal=False, whole=True)


def _leaks(facts: Sequence[Facts], folder: Path) -> Iterator[Problem]:
    """The same picture in two splits."""
    seen: dict[str, Facts] = {}
    for fact in facts:
        if not fact.content or (fact.item.group and not fact.item.slices):  # slices of air are alike in all volumes
            continue
        first = seen.setdefault(fact.content, fact)
        if first.item.split != fact.item.split:
            name, other = (named(f.item.image, folder) for f in (fact, first))
            message = (
                f"{name}: expected a picture that is in one split only, found the same bytes as {other}. "
                "Remove one of them: scores on seen pictures mean nothing."
            )
            yield Problem("duplicate across splits", name, message)


def _elsewhere(facts: Sequence[Facts], folder: Path) -> Iterator[Problem]:
    """Pictures that a table or a list takes from outside the folder: right, perhaps, but nothing that people expect."""
    inside = os.path.join(os.path.abspath(folder), "")  # noqa: PTH100, PTH118 - links within it may lead anywhere
    images = (fact.item.image for fact in facts)
    out = [each for each in images if isinstance(each, Path) and not os.path.abspath(each).startswith(inside)]  # noqa: PTH100 - the same
    if out:
        how_many = f"{counted(len(out), 'picture')} of {len(facts):,}"
        message = f"{out[0]}: {how_many} outside {folder}, where a table or list says so: packed all the same."
        yield Problem("picture outside the folder", str(out[0]), message, fatal=False, whole=True)


def _mask_name(fact: Facts, folder: Path) -> str:
    assert fact.item.mask is not None  # noqa: S101 - it has pixels
    return named(fact.item.mask, folder)


def _unknown_ids(facts: Sequence[Facts], labels: Labels, folder: Path) -> Iterator[Problem]:
    allowed = {*range(len(labels.classes)), labels.ignore}
    for fact in facts:
        if wrong := [i for i, _ in fact.pixels if i not in allowed]:
            name = _mask_name(fact, folder)
            message = (
                f"{name}: expected class ids from 0 to {len(labels.classes) - 1}, or the ignore label "
                f"{labels.ignore}, found {_some(wrong)}. Name all classes with --classes, change ids with --map "
                "OLD=NEW, or set the ignore label with --ignore."
            )
            yield Problem("id outside the classes", name, message)


def _doubtful_ids(facts: Sequence[Facts], labels: Labels, folder: Path) -> Iterator[Problem]:
    """Ids that no one explained: 0 and 255, or with gaps between them."""
    found = {i for fact in facts for i, _ in fact.pixels}
    if not found:
        return
    if found == _BINARY and labels.ignore in found:
        example = next(fact for fact in facts if any(i == labels.ignore for i, _ in fact.pixels))
        message = (
            f"{_mask_name(example, folder)}: expected class ids, found only 0 and 255, where 255 is the ignore label. "
            "If 255 is the foreground, make it class 1 with --map 255=1; if not, name the classes with --classes."
        )
        yield Problem(_BINARY_KIND, _mask_name(example, folder), message, whole=True)
        return
    classes = found - {labels.ignore}
    if not classes:
        return
    gaps = sorted(set(range(max(classes) + 1)) - classes)
    if gaps:
        example = next(fact for fact in facts if any(i == max(classes) for i, _ in fact.pixels))
        message = (
            f"{_mask_name(example, folder)}: expected class ids without gaps, found {_some(sorted(classes))} in all "
            "masks. If they are grey values, change them with --map OLD=NEW; if some classes are rare, name all with "
            "--classes."
        )
        yield Problem("gaps between ids", _mask_name(example, folder), message, whole=True)


def _one_id_only(facts: Sequence[Facts], labels: Labels, folder: Path) -> Iterator[Problem]:
    """Masks with nothing but one class: a note each; fatal when a split has no other."""
    for split in dict.fromkeys(fact.item.split for fact in facts):
        group = [fact for fact in facts if fact.item.split == split]
        flat = [f for f in group if len({i for i, _ in f.pixels} - {labels.ignore}) <= 1]
        everywhere = {i for fact in group for i, _ in fact.pixels} - {labels.ignore}
        fatal = len(everywhere) <= 1
        alone = [fact for fact in flat if not fact.item.group]  # a volume begins and ends with such slices
        for fact in flat[:1] if fatal else alone:
            name, ids = _mask_name(fact, folder), [i for i, _ in fact.pixels]
            said = f"id {_some(ids)} in all {len(group)} masks of {split}" if fatal else f"only id {_some(ids)}"
            remedy = "Check how the masks were exported." if fatal else "Right if the picture shows nothing else."
            if fatal and any(i == labels.ignore for each in flat for i, _ in each.pixels):
                remedy = (
                    f"If {labels.ignore} is a class and not to be ignored, make it one with --map {labels.ignore}=1."
                )
            message = f"{name}: expected more than one class, found {said}. {remedy}"
            yield Problem("only background", name, message, fatal=fatal, whole=fatal)


def _black_mattes(facts: Sequence[Facts], folder: Path) -> Iterator[Problem]:
    """Mattes with no share above 1 in 255: those of 0 and 1 are masks, those of nothing but 0 may be right."""
    for fact in facts:
        highest = max((value for value, _ in fact.pixels), default=_WHITE)
        if highest > 1:
            continue
        name = _mask_name(fact, folder)
        found, remedy = ("0 and 1", "Multiply it by 255") if highest else ("only 0", "Right if nothing is in front")
        message = f"{name}: expected shares of foreground from 0 to 255, found {found}. {remedy}."
        yield Problem("matte of 0 and 1" if highest else "matte without foreground", name, message, fatal=highest == 1)


def _some(ids: Sequence[int]) -> str:
    return ", ".join(map(str, ids[:6])) + (f" and {len(ids) - 6} more" if len(ids) > 6 else "")  # noqa: PLR2004 - a line


def _sentence(name: str, error: Exception) -> str:
    if isinstance(error, PenstockError):
        return str(error)
    return f"{name}: expected a readable file, found {error}. Check its permissions."


def _hash(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _key(item: Item, content: str, label: str) -> str:
    return _hash(f"{item.split}\0{item.name}\0{content}\0{label}".encode())

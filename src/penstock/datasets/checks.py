"""Whether raw data is sound: each item by itself, then all of them together."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.errors import PenstockError
from penstock.images import codecs, probe
from penstock.kinds.items import Facts, Problem, hashed, named, sentence
from penstock.progress import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.datasets.layout import Layout
    from penstock.kinds.base import Kind
    from penstock.kinds.items import Item, Labels


def check_item(folder: Path, item: Item, labels: Labels, kind: Kind, channels: int = 3) -> Facts:
    """Read and decode one item's files."""
    name = named(item.image, folder)
    shown = name.encode(errors="backslashreplace").decode()
    if shown != name:  # bytes that are no UTF-8: no record could hold the name
        message = f"{shown}: expected a file name in UTF-8, found other bytes. Rename the file."
        return Facts(item, problems=(Problem("unreadable name", name, message),))
    try:
        image = item.image.read_bytes()
        info = probe(image, name)
        facts = Facts(item, *info.size, format=info.format, size=len(image), content=hashed(image))
        codecs.decode_image(image, name, info=info, channels=channels)
    except (PenstockError, OSError) as error:
        return Facts(item, problems=(Problem("unreadable image", name, sentence(name, error)),))
    return kind.check_item(folder, facts, info, labels)


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
    yield from _alike(facts, labels, folder)
    if not labels.classes and not any(problem.fatal for fact in facts for problem in fact.problems):
        name = named(facts[0].item.image, folder)
        message = (
            f"{name}: expected {layout.kind.nothing}, found none. Check where the labels are, and how they were "
            "exported."
        )
        yield Problem("no classes", name, message, whole=True)
    yield from layout.kind.check_together(facts, labels, folder, stated=stated)


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
    """The same image in two splits."""
    seen: dict[str, Facts] = {}
    for fact in facts:
        if not fact.content or (fact.item.group and not fact.item.slices):  # slices of air are alike in all volumes
            continue
        first = seen.setdefault(fact.content, fact)
        if first.item.split != fact.item.split:
            name, other = (named(f.item.image, folder) for f in (fact, first))
            message = (
                f"{name}: expected an image that is in one split only, found the same bytes as {other}. "
                "Remove one of them: scores on seen images mean nothing."
            )
            yield Problem("duplicate across splits", name, message)


def _elsewhere(facts: Sequence[Facts], folder: Path) -> Iterator[Problem]:
    """Images that a table or a list takes from outside the folder: right, perhaps, but nothing that people expect."""
    inside = os.path.join(os.path.abspath(folder), "")  # noqa: PTH100, PTH118 - links within it may lead anywhere
    images = (fact.item.image for fact in facts)
    out = [each for each in images if isinstance(each, Path) and not os.path.abspath(each).startswith(inside)]  # noqa: PTH100 - the same
    if out:
        how_many = f"{counted(len(out), 'image')} of {len(facts):,}"
        message = f"{out[0]}: {how_many} outside {folder}, where a table or list says so: packed all the same."
        yield Problem("image outside the folder", str(out[0]), message, fatal=False, whole=True)

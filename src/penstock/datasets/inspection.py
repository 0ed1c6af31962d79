"""`inspect`: what lies in a folder, how much of it, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from penstock import cores, outputs
from penstock.datasets import checks, class_lists, describing, duplicates, layouts, pixel_formats, validation
from penstock.datasets.findings import Findings
from penstock.datasets.layout import Layout
from penstock.datasets.layouts import LayoutOptions
from penstock.errors import DatasetError
from penstock.images import RGB, PixelFormat, codecs, single_threaded
from penstock.kinds.base import NO_LABEL
from penstock.kinds.items import InspectedItem, Labels, Problem, named
from penstock.progress import counted, silent

_MUCH: Final = 1.5  # times
DUPLICATES: Final = "penstock inspect --draw-duplicates"
_PAIRS: Final = 24  # of near-duplicates in a drawing


@dataclass(frozen=True, repr=False)
class Inspection:
    """All that is known of a folder.

    Attributes:
        folder: where it is.
        layout: what lies there.
        labels: what masks mean, with the classes filled in.
        stated: whether the class names were given; otherwise they were inferred from the labels.
        items: every item, in the layout's order.
        problems: all of them, fatal ones first.
        pixel_format: channels and bits of the images.
    """

    folder: Path
    layout: Layout
    labels: Labels
    stated: bool
    items: tuple[InspectedItem, ...]
    problems: tuple[Problem, ...]
    pixel_format: PixelFormat = RGB

    def __repr__(self) -> str:
        what = f"{self.layout.kind.name}, {self.layout.name}, {counted(len(self.items), 'image')}"
        return f"<Inspection {self.folder}: {what}, {counted(len(self.fatal), 'problem')}>"

    def describe(self) -> str:
        """What lies in the folder and what is wrong with it, in lines, as `penstock inspect` prints it."""
        return describing.describe(self)

    def describe_briefly(self, *, rewritten: bool = False) -> str:
        """What it is packed as, with its notes, in lines, as `penstock pack` prints it."""
        return describing.describe_briefly(self, rewritten=rewritten)

    def as_json(self) -> dict[str, Any]:
        """The same as JSON holds it: layout, classes, images and labels of each split, and all problems."""
        return describing.as_json(self)

    def draw_duplicates(self, output: str | Path) -> tuple[int, int]:
        """Draw images outside train that look nearly like training images, each beside its twin, as a PNG.

        Returns:
            The pairs that are drawn, and those in all; without any, nothing is written.

        Raises:
            OutputError: another file is there, or its name does not end in .png.
        """
        outputs.check(Path(output), DUPLICATES, (".png",))
        pairs = duplicates.pairs_of(self.items)
        if pairs:
            drawn = codecs.encode_png(duplicates.sheet_of(pairs, self.folder, _PAIRS))
            outputs.write(Path(output), drawn, DUPLICATES)
        return min(len(pairs), _PAIRS), len(pairs)

    @property
    def fatal(self) -> list[Problem]:
        """The problems that forbid packing."""
        return [problem for problem in self.problems if problem.fatal]

    @property
    def files(self) -> set[str]:
        """The files of all items, as problems name them. Any other file that a problem names did not become an item."""
        return {name for each in self.items for name in self._files(each)}

    @property
    def splits(self) -> dict[str, list[InspectedItem]]:
        """The items by split."""
        names = dict.fromkeys(each.item.split for each in self.items)
        return {name: [each for each in self.items if each.item.split == name] for name in names}

    def sound(self) -> Inspection:
        """The inspection without the items that have fatal problems; problems of the whole folder stay."""
        named = {problem.file for problem in self.fatal if not problem.whole}
        bad = [bool(self._files(each) & named) for each in self.items]
        kept = tuple(each for each, wrong in zip(self.items, bad, strict=True) if not wrong)
        dropped = {f for each, wrong in zip(self.items, bad, strict=True) if wrong for f in self._files(each)}
        left = tuple(p for p in self.problems if p.whole or (not p.fatal and p.file not in dropped))
        return replace(self, items=kept, problems=left)

    def divided(self, fraction: float) -> Inspection:
        """The inspection with a fraction of train set aside as val, chosen by content: the same images whenever asked,
        and equal ones, nearly equal ones, and those of a group together. A note counts nearly equal ones that were
        divided. Each class of images gives its part.

        Raises:
            DatasetError: there is a val split, or no training data to take from.
        """
        train = self.splits.get("train", [])
        sizes = {split: len(items) for split, items in self.splits.items()}
        alike = duplicates.within(train)
        chosen = validation.chosen(train, fraction, str(self.folder), sizes, self.layout.kind, alike)
        items = [
            validation.as_val(each) if each.item.split == "train" and validation.together(each) in chosen else each
            for each in self.items
        ]
        order = ["train", "val", *self.splits]
        notes = [*duplicates.near([each for each in items if each.item.split in {"train", "val"}], self.folder)]
        notes += _large_groups(items, fraction, self.folder)
        return replace(
            self,
            items=tuple(sorted(items, key=lambda each: order.index(each.item.split))),
            problems=(*self.problems, *notes),
        )

    def _files(self, inspected: InspectedItem) -> set[str]:
        places = (inspected.item.image, *self.layout.kind.label_files(inspected.item))
        return {named(place, self.folder) for place in places}


def inspect(
    folder: Path,
    labels: Labels | None = None,
    *,
    how: LayoutOptions = LayoutOptions(),  # noqa: B008 - frozen
    threads: int = 0,
    progress: Callable[[int, int], None] = silent,
    on_layout: Callable[[Layout], None] | None = None,
) -> Inspection:
    """Recognise a folder's layout and check every file in it.

    Args:
        folder: where the raw data is.
        labels: how mask values are interpreted; empty classes are inferred from `classes.txt` or the masks.
        how: options for the layout; by default the layout is detected from the folder alone.
        threads: how many files are decoded at once; 0 for one per core, at least four.
        progress: called with the items done and the items in all.
        on_layout: called with the layout before any image is read.

    Raises:
        DatasetError: the folder has no layout that we know, or no images.
    """
    layout = layouts.recognise(folder, how)
    if on_layout:
        on_layout(layout)
    _check_mask_options(layout, labels or Labels())
    wanted = (labels or Labels()).over(layout.labels)
    class_lists.check_letters(wanted.classes, str(folder))
    _check_class_names(layout, wanted)
    items = []
    findings = Findings.of(folder, wanted, layout.kind, layout.channels)
    with single_threaded(), ThreadPoolExecutor(cores.readers(threads)) as pool:
        try:
            read = partial(checks.check_item, folder, labels=wanted, kind=layout.kind, channels=layout.channels)
            for each in pool.map(partial(findings.check, read=read), layout.items):
                items.append(each)
                progress(len(items), len(layout.items))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    findings.save(part=bool(how.limit))
    stated = bool(wanted.classes)
    classes = wanted.classes or checks.infer_classes(items, wanted, layout.kind)
    filled = replace(wanted, classes=classes)
    told = {problem.file for problem in layout.problems}  # of what is missing a layout knows where it looked
    single = [problem for each in items for problem in each.problems]
    problems = [*layout.problems, *(one for one in single if one.kind != NO_LABEL or one.file not in told)]
    problems += checks.check_together(layout, items, filled, folder, stated=stated)
    common = pixel_formats.common_format(layout, items)
    problems += pixel_formats.check_formats(layout, items, common, folder)
    problems += [] if how.evaluate_only else checks.check_splits(items, folder)
    problems.sort(key=lambda problem: not problem.fatal)
    return Inspection(folder, layout, filled, stated, tuple(items), tuple(problems), common)


def _large_groups(items: Sequence[InspectedItem], fraction: float, folder: Path) -> list[Problem]:
    """A note of a split val that is much larger than wanted, as images of a group stay together."""
    val, train = ([each for each in items if each.item.split == split] for split in ("val", "train"))
    wanted = fraction * (len(val) + len(train))
    if not any(each.item.group for each in val) or len(val) <= _MUCH * wanted + 1:
        return []
    groups = len({each.item.group for each in (*val, *train)})
    message = (
        f"val has {counted(len(val), 'image')} instead of {wanted:.0f}, as images of a group stay together and there "
        f"are {counted(groups, 'group')}. Smaller groups are found with --group REGEX; --group '.*' makes each image "
        "one."
    )
    return [Problem("large groups", named(val[0].item.image, folder), message, fatal=False, whole=True)]


def _check_mask_options(layout: Layout, wanted: Labels) -> None:
    """Refuse what is said of masks for data that has none, or whose masks are drawn from something else."""
    labelled = any(item.label is not None for item in layout.items)
    masks = labelled and layout.kind.reads_masks
    drawn = masks and (layout.complete or layout.names_masks)
    given = {"--mask-threshold": wanted.threshold, "--palette": wanted.palette, "--colors": wanted.colors}
    options = given if drawn else {"--map": wanted.mapping, **given} if labelled and not masks else {}
    for option, value in options.items():
        if value:
            raise DatasetError(
                option,
                expected="masks in files of their own, each with the ids, gray values or colours of classes",
                found=f"data for {layout.kind.name} ({layout.name})",
                remedy=f"Remove {option}, or choose the layout with --layout",
            )


def _check_class_names(layout: Layout, wanted: Labels) -> None:
    """Refuse --classes where the data names its classes, or where the number of names is wrong."""
    own, given = layout.labels.classes, wanted.classes
    if layout.complete and len(given) != len(own):
        background = len(given) == len(own) - 1 and own[0] == "background"
        raise DatasetError(
            "--classes",
            expected=f"{counted(len(own), 'name')}: the data has {counted(len(own), 'class')} ({', '.join(own)})",
            found=", ".join(given[:8]),
            remedy=f"Use --classes {','.join((own[0], *given))}" if background else "Name each of them once",
        )
    stated_by_data = layout.kind.names_classes or (layout.names_masks and not wanted.mapping)  # which may merge some
    if stated_by_data and not layout.nameless and layout.labels.classes not in {(), wanted.classes}:
        raise DatasetError(
            "--classes",
            remedy="Remove --classes",
            message=f"--classes has no effect, as the data names its classes: {', '.join(layout.labels.classes[:8])}.",
        )

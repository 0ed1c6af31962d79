"""Raw data: inspect a folder, pack it, and what else there is to begin with: made-up scenes, archives."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypedDict, Unpack

from penstock import datasets, outputs
from penstock.api.arguments import check_numbers, suggested
from penstock.api.data import Data
from penstock.datasets import class_lists
from penstock.datasets import scenes as made_up
from penstock.datasets.download import ARCHIVES
from penstock.datasets.download import download as fetch
from penstock.datasets.inspection import DUPLICATES
from penstock.datasets.layouts import legend
from penstock.errors import DatasetError
from penstock.kinds import Labels
from penstock.progress import silent

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.datasets import Inspection, Layout

_SCENES = "penstock scenes"
_MAX_SCENES = 100_000  # of five digits
_SMALLEST = 16  # a shape needs some pixels
_BYTE = 255


class RawOptions(TypedDict, total=False):
    """Options for a folder of raw images; `penstock inspect --help` explains each of them."""

    classes: str | Path | Sequence[str]
    ignore: int
    mapping: Mapping[int, int]
    colors: str | Path
    palette: bool
    mask_threshold: int
    clip_boxes: bool
    trust_image_size: bool
    images: str
    masks: str
    rater: str
    group: str
    layout: str
    task: str
    pattern: str
    boxes: Literal["", "xyxy", "xywh"]
    fields: Mapping[str, str]
    evaluate_only: bool
    limit: int
    max_side: int
    value_range: tuple[float, float] | None
    quality: int
    seekable: bool


@suggested
def inspect(
    folder: str | Path,
    *,
    threads: int = 0,
    duplicates: str | Path = "",
    progress: Callable[[int, int], None] = silent,
    on_layout: Callable[[Layout], None] | None = None,
    **options: Unpack[RawOptions],
) -> Inspection:
    """What lies in a folder of raw images, and what is wrong with it.

    Args:
        folder: where the raw data is.
        threads: that decode images; 0 for one per core, at least four.
        duplicates: a PNG file for `draw_duplicates` of what is found; refused before any image is read.
        progress: called with the images that are done, and those in all.
        on_layout: called with the layout, before any image is read.
        options: options for the folder, such as `layout`, `classes` and `task`; `RawOptions` lists all.

    Raises:
        DatasetError: the folder has no layout that is known, or an option does not fit.
        OutputError: another file is where duplicates would be drawn.
    """
    if datasets.locate(str(folder)).remote:
        raise DatasetError(
            str(folder),
            expected="a folder of raw images",
            found="a topic",
            remedy="See what it holds with penstock.open",
        )
    _check_options(threads, options)
    if duplicates:
        outputs.check(Path(duplicates), DUPLICATES, (".png",))
    labels, how = labels_of(**options), how_of(**options)
    return datasets.inspect(Path(folder), labels, how=how, threads=threads, progress=progress, on_layout=on_layout)


@suggested
def pack(
    folder: str | Path | Inspection,
    output: str | Path,
    *,
    validation: float = 0.0,
    skip_bad: bool = False,
    shard_size: int = 64,
    threads: int = 0,
    progress: Callable[[int, int], None] = silent,
    **options: Unpack[RawOptions],
) -> Data:
    """Pack a folder of raw images into TFRecord shards.

    Args:
        folder: raw data, or what `inspect` found.
        output: the folder to fill.
        validation: fraction of the training images to set aside as `val`.
        skip_bad: whether items with problems are left out.
        shard_size: approximate size of a shard in MiB.
        threads: that decode and encode images; 0 for one per core, at least four.
        progress: called with the records that are written, and those in all.
        options: as for `inspect`, of raw data.

    Raises:
        DatasetError: there are problems; the error lists them.
    """
    check_numbers(validation=(validation, 0, 1), shard_size=(shard_size, 1, math.inf), threads=(threads, 0, math.inf))
    if options and not isinstance(folder, str | Path):
        named = ", ".join(options)
        raise DatasetError(
            "penstock.pack",
            remedy="Give them to penstock.inspect",
            message=f"{named} cannot be given with what inspect found.",
        )
    found = inspect(folder, threads=threads, **options) if isinstance(folder, str | Path) else folder
    if skip_bad:
        found = found.sound()
    if validation:
        found = found.divided(validation)
    written = datasets.PackOptions(shard_bytes=shard_size << 20, threads=threads)
    return Data(datasets.pack(found, Path(output), written, progress=progress), str(output))


@suggested
def scenes(
    output: str | Path,
    *,
    train: int = 240,
    val: int = 48,
    test: int = 24,
    size: tuple[int, int] = (192, 256),
    seed: int = 0,
) -> None:
    """Make images of shapes with exact masks, to try things with.

    Args:
        output: a new or empty folder, or one that this has filled.
        train: images to train on.
        val: images to evaluate on.
        test: images to test on.
        size: (height, width) in pixels, 16 at least.
        seed: other seeds make other images.

    Raises:
        DatasetError: the size is too small.
        OutputError: the folder holds something else.
    """
    check_numbers(train=(train, 1, _MAX_SCENES), val=(val, 0, _MAX_SCENES), test=(test, 0, _MAX_SCENES))
    if len(size) != 2 or min(size) < _SMALLEST:  # noqa: PLR2004 - height and width
        found = " ".join(map(str, size))
        raise DatasetError(
            "--size", expected=f"sides of at least {_SMALLEST} pixels", found=found, remedy="Use larger sides"
        )
    folder = Path(output)
    outputs.check_folder(folder, _SCENES, own=folder.is_dir() and made_up.fills(folder))
    counts = {"train": train, "val": val, "test": test}
    made_up.write_folder(folder, {split: count for split, count in counts.items() if count}, size, seed)


@suggested
def download(name: str, output: str | Path, *, url: str = "", progress: Callable[[int, int], None] = silent) -> Path:
    """Download and unpack a published archive, once it is known to be what its authors published.

    A download that broke off goes on where it was.

    Args:
        name: "cifar10" or "cifar100".
        output: the folder to fill.
        url: of the archive, in place of the one of its authors.
        progress: called with the MiB that are there, and those in all.

    Returns:
        The folder of raw data.

    Raises:
        DatasetError: there is no such archive, it cannot be had, or it is another one.
    """
    if name not in ARCHIVES:
        remedy = "Choose one of them"
        raise DatasetError("penstock download", expected=" or ".join(ARCHIVES), found=name, remedy=remedy)
    archive = replace(ARCHIVES[name], url=url) if url else ARCHIVES[name]
    return fetch(archive, Path(output), progress)


def _check_options(threads: int, options: RawOptions) -> None:
    check_numbers(
        threads=(threads, 0, math.inf),
        ignore=(options.get("ignore", 0), 0, _BYTE),
        mask_threshold=(options.get("mask_threshold", 0), 0, _BYTE),
        limit=(options.get("limit", 0), 0, math.inf),
        max_side=(options.get("max_side", 0), 0, math.inf),
        quality=(options.get("quality", 0), 0, 100),
    )
    for old, new in options.get("mapping", {}).items():
        check_numbers(mapping=(old, 0, _BYTE))
        check_numbers(mapping=(new, 0, _BYTE))


def how_of(**options: Unpack[RawOptions]) -> datasets.LayoutOptions:
    """How a folder is to be read."""
    known = {each.name for each in fields(datasets.LayoutOptions)}
    return datasets.LayoutOptions(**{name: value for name, value in options.items() if name in known})  # type: ignore[arg-type]


def labels_of(**options: Unpack[RawOptions]) -> Labels:
    """What masks mean.

    Raises:
        DatasetError: there is no such file of classes or colours, or it is damaged.
    """
    legend_file = options.get("colors", "")
    stated = _legend(Path(legend_file)) if legend_file else Labels()
    given = Labels(
        _class_names(options.get("classes", ())),
        options.get("ignore", 255),
        dict(options.get("mapping", {})),
        palette=options.get("palette", False),
        threshold=options.get("mask_threshold", 0),
    ).over(stated)
    return replace(
        given, clip_boxes=options.get("clip_boxes", False), trust_size=options.get("trust_image_size", False)
    )


def _class_names(classes: str | Path | Sequence[str]) -> tuple[str, ...]:
    """Names in a list, with commas between them, or in a file."""
    if not isinstance(classes, (str, Path)):
        return class_lists.check_names([*classes], "classes") if classes else ()
    text = str(classes)
    if text and os.path.isfile(text):  # noqa: PTH113 - a long list is no name that a Path would take
        return class_lists.names_in_file(Path(text))
    if "," not in text and Path(text).suffix in {".txt", ".csv", ".names"}:
        raise DatasetError(text, expected="a file of class names", found="no such file", remedy="Check the path")
    return class_lists.check_names([name.strip() for name in text.split(",")], "--classes") if text else ()


def _legend(colors: Path) -> Labels:
    if not colors.is_file():
        raise DatasetError(f"--colors {colors}", expected="a legend", found="no such file", remedy="Check the path")
    return legend.read(colors)

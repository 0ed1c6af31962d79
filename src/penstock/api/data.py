"""Datasets: open, inspect, pack."""

from __future__ import annotations

import html
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from penstock import datasets
from penstock.api.arguments import suggested
from penstock.custom import carried
from penstock.images import codecs
from penstock.order import Plan
from penstock.progress import counted
from penstock.records.schema import decode_name
from penstock.values import Record, Share

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from penstock.datasets import Dataset, Inspection
    from penstock.datasets.description import Split as SplitInfo
    from penstock.feed import Feed
    from penstock.kinds import Labels
    from penstock.values import Pixels


@dataclass(frozen=True, repr=False)
class Sample:
    """One record of a dataset; a notebook shows it.

    Attributes:
        origin: where it is: its partition and offset.
        record: its bytes.
        image: the upright image: uint8 or uint16 (height, width, channels), or the voxels of a volume, uint8 (slices,
            height, width, channels).
        label: what the record says of the image: a mask or alpha matte, uint8 (height, width); the name of a class; or
            a dict of objects: "boxes", float32 (objects, 4) with left, top, right and bottom in pixels, "classes", and
            "masks", bool (objects, height, width).
        drawn: the image with its label as people see it, made smaller: uint8 RGB (height, width, 3).
    """

    origin: str
    record: Record
    image: NDArray[Any]
    label: Any
    drawn: Pixels

    @property
    def name(self) -> str:
        """What the image was called before it was packed; "" where the record does not say."""
        return decode_name(self.record)

    def __repr__(self) -> str:
        image = f"image {self.image.dtype} {self.image.shape}"
        return f"<Sample {self.name} ({self.origin}), {image}, label {_said(self.label)}>"

    def _repr_png_(self) -> bytes:
        return codecs.encode_png(self.drawn)


def _said(label: Any) -> str:
    """A label in a few words."""
    if isinstance(label, dict):
        return counted(len(label["classes"]), "object")
    return f"{label.dtype} {label.shape}" if hasattr(label, "shape") else str(label)


@dataclass(frozen=True, repr=False)
class Split:
    """One split of a dataset: its records by number, and feeds for loops of one's own.

    Attributes:
        dataset: whose.
        name: of the split.
    """

    dataset: Data
    name: str

    @property
    def info(self) -> SplitInfo:
        """What dataset.json or the topic says of it."""
        return self.dataset.opened.split(self.name)

    @property
    def counts(self) -> dict[str, int]:
        """What the kind of record counts (pixels, images or boxes), by the name of the class."""
        return dict(zip(self.dataset.classes, self.info.per_class, strict=True))

    def __repr__(self) -> str:
        return f"<Split {self.name} of {self.dataset.path}: {counted(self.info.records, 'record')}>"

    def __len__(self) -> int:
        return len(self.dataset.opened.source(self.name).snapshot())

    def __getitem__(self, number: int) -> Sample:
        """A record by its number, in the order in which it is stored.

        Raises:
            IndexError: there are fewer.
        """
        source: Any = self.dataset.opened.source(self.name)
        plan = Plan(source.snapshot())
        if not -len(plan) <= number < len(plan):
            message = f"{self.name} has {len(plan)} records, and none of number {number}"
            raise IndexError(message)
        partition, offset = plan.at(number % len(plan))
        (record,) = source.read(partition, offset, offset + 1)
        described = self.dataset.opened.description
        image, label = described.kind.read(record, described)
        return Sample(record.origin, record, image, label, described.kind.draw(record, described))

    def __iter__(self) -> Iterator[Sample]:
        return (self[number] for number in range(len(self)))

    @suggested
    def feed(
        self,
        *,
        batch: int,
        crop: tuple[int, int] | None = None,
        seed: int = 0,
        augment: bool = True,
        rank: int = 0,
        world_size: int = 1,
        settings: Mapping[str, Any] | None = None,
    ) -> Feed:
        """Batches for a loop of one's own: `for batch in feed.batches(cursor)`.

        Args:
            batch: images in a global batch.
            crop: (height, width) of the samples; by default the task's.
            seed: of order and augmentation.
            augment: whether samples are augmented.
            rank: of this process.
            world_size: processes that share each global batch.
            settings: more settings of a recipe, named as `section.key`.

        Raises:
            PenstockError: a setting does not fit, or the data cannot be read.
        """
        given = {"data.path": self.dataset.path, "data.train": self.name, "train.batch": batch, "seed": seed}
        if crop:
            given["augment.crop"] = crop
        from penstock.assembly import chosen_shuffle, open_parts, resolve_settings  # noqa: PLC0415 - with PyTorch

        recipe = resolve_settings({**given, "model.weights": "none", **(settings or {})}).recipe
        feed = open_parts(chosen_shuffle(recipe)).training_feed(Share(rank, world_size))
        return feed if augment else replace(feed, augment=False)


@dataclass(frozen=True, repr=False)
class Data:
    """A packed dataset, in a folder or in Kafka; a notebook shows what it holds.

    Attributes:
        opened: the dataset itself.
        path: where it is.
    """

    opened: Dataset
    path: str

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes' names; their index is their id."""
        return self.opened.description.classes

    @property
    def task(self) -> str:
        """What it is for."""
        return self.opened.description.task

    @property
    def splits(self) -> tuple[str, ...]:
        """The names of its splits."""
        return self.opened.splits

    def __getitem__(self, split: str) -> Split:
        """A split by its name.

        Raises:
            DatasetError: there is none.
        """
        self.opened.split(split)
        return Split(self, split)

    def verify(self) -> tuple[str, ...]:
        """A sentence for every record that is damaged or does not fit; all records are read."""
        return self.opened.verify().faults

    @suggested
    def unpack(self, output: str | Path, *, layout: str = "") -> datasets.Unpacked:
        """Write every record as an image, as it was packed, with its label, in a layout that other tools read.

        Args:
            output: a new or empty folder.
            layout: "masks" or "voc" of masks, "classes" of classes, "coco", "yolo" or "voc" of boxes, "coco" of
                instances; "" takes the first of these.

        Raises:
            DatasetError: what the dataset holds cannot be written so.
            OutputError: the folder holds something.
            DataError: a record is damaged.
        """
        return datasets.unpack(self.opened, Path(output), layout)

    def __repr__(self) -> str:
        splits = ", ".join(f"{name} {split.records:,}" for name, split in self.opened.description.splits.items())
        return f"<Data {self.path}: {self.task}, {counted(len(self.classes), 'class')}, records: {splits}>"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{html.escape(name)}</td><td>{split.records:,}</td><td>{split.height} x {split.width}</td></tr>"
            for name, split in self.opened.description.splits.items()
        )
        title = f"{html.escape(self.path)}: {html.escape(self.task)}, {len(self.classes)} classes"
        return f"<b>{title}</b><table><tr><th>split</th><th>records</th><th>largest image</th></tr>{rows}</table>"


@suggested
def open(uri: str | Path, *, trust: bool = False) -> Data:  # noqa: A001 - `penstock.open`, as `PIL.Image.open`
    """A packed dataset: a folder, or a topic, kafka://HOST:PORT/TOPIC.

    Args:
        uri: where it is.
        trust: whether code from elsewhere, which the dataset carries, may be executed.

    Raises:
        DatasetError: there is none.
        RunError: it carries code from elsewhere, which is not trusted.
        SourceError: the topic cannot be reached.
    """
    if trust:
        carried.trust_folder(Path(uri))
    return Data(datasets.locate(uri).open(), str(uri))


@suggested
def inspect(
    folder: str | Path,
    *,
    layout: str = "",
    task: str = "",
    labels: Labels | None = None,
    pattern: str = "",
    boxes: Literal["", "xyxy", "xywh"] = "",
    fields: Mapping[str, str] | None = None,
    evaluate_only: bool = False,
    limit: int = 0,
    max_side: int = 0,
    value_range: tuple[float, float] | None = None,
    quality: int = 0,
    seekable: bool = False,
    images: str = "",
    masks: str = "",
    group: str = "",
    rater: str = "",
) -> Inspection:
    """What lies in a folder of raw images, and what is wrong with it.

    Args:
        folder: where the raw data is.
        layout: a layout's name, or FILE.py:NAME; "" detects it.
        task: what it is for, where the folder has labels for several.
        labels: what masks mean; by default inferred.
        pattern: a regular expression that finds the class in file names: "(?P<label>[a-z]+)_".
        boxes: format of boxes: "xyxy" (two corners) or "xywh" (a corner and a size); "" infers it.
        fields: of TFRecords with names of their own: the names of the fields by what they hold, {"image": NAME, ...}.
        evaluate_only: whether the data is only for evaluation and needs no training images.
        limit: largest number of images of each split; 0 takes all.
        max_side: pixels of the longer side that images are made smaller to; 0 leaves them as they are.
        value_range: the values of TIFF and DICOM images of more than 8 bits that become 0 and 65535; by default values
            of TIFF images must be whole numbers from 0 to 65535 and stay as they are, and DICOM images have the range
            that their headers allow.
        quality: JPEG quality, 1 to 100, that images of all formats are written anew with; 0 leaves them as they are.
        seekable: whether JPEG images are written anew with restart markers, so that crops are decoded alone.
        images: folder of images, where it is not found by itself; given with `masks`.
        masks: folder of masks, given with `images`.
        group: regular expression that finds, in file names, what images have in common that belong together and are
            never divided between splits; by default the images of a folder belong together.
        rater: whose masks are taken, where several raters have drawn them, or "majority".

    Raises:
        DatasetError: the folder has no layout that is known.
    """
    how = datasets.How(
        layout, task, pattern, boxes, evaluate_only, limit, fields or {}, max_side, value_range,
        quality, seekable, images=images, masks=masks, group=group, rater=rater,
    )  # fmt: skip
    return datasets.inspect(Path(folder), labels, how=how)


@suggested
def pack(
    folder: str | Path | Inspection,
    output: str | Path,
    *,
    layout: str = "",
    task: str = "",
    labels: Labels | None = None,
    validation: float = 0.0,
    skip_bad: bool = False,
    evaluate_only: bool = False,
) -> Data:
    """Pack a folder of raw images into TFRecord shards.

    Args:
        folder: raw data, or what `inspect` found, which takes more options.
        output: the folder to fill.
        layout: as for `inspect`.
        task: as for `inspect`.
        labels: as for `inspect`.
        validation: fraction of the training images to set aside as `val`.
        skip_bad: whether items with problems are left out.
        evaluate_only: as for `inspect`.

    Raises:
        DatasetError: there are problems; the error lists them.
    """
    found = folder
    if isinstance(found, str | Path):
        found = inspect(found, layout=layout, task=task, labels=labels, evaluate_only=evaluate_only)
    if skip_bad:
        found = found.sound()
    if validation:
        found = found.divided(validation)
    return Data(datasets.pack(found, Path(output)), str(output))

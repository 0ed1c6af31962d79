"""Packed datasets, in folders and topics."""

from __future__ import annotations

import html
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from penstock import datasets, outputs
from penstock.api import topics
from penstock.api.arguments import as_list, check_numbers, suggested
from penstock.api.samples import Sample, Sheet
from penstock.config import as_settings
from penstock.custom import carried
from penstock.errors import DatasetError, RecipeError
from penstock.order import Plan
from penstock.progress import counted, silent
from penstock.values import BatchSlice

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from penstock.datasets import Dataset, Published
    from penstock.datasets.description import SplitInfo
    from penstock.datasets.verification import Verdict
    from penstock.feed import Feed


_SHOW = "penstock show"


@dataclass(frozen=True, repr=False)
class Split:
    """One split of a dataset: its records by number, and feeds for loops of one's own.

    Attributes:
        dataset: the dataset that the split belongs to.
        name: name of the split, such as "train".
    """

    dataset: Data
    name: str

    @property
    def info(self) -> SplitInfo:
        """The description of the split in dataset.json or in the topic."""
        return self.dataset.opened.split(self.name)

    @property
    def counts(self) -> dict[str, int]:
        """Number of pixels, images or boxes of each class, depending on the kind of record, by class name."""
        return dict(zip(self.dataset.classes, self.info.per_class, strict=True))

    def __repr__(self) -> str:
        return f"<Split {self.name} of {self.dataset.path}: {counted(self.info.records, 'record')}>"

    def __len__(self) -> int:
        return len(self.dataset.opened.source(self.name).snapshot())

    @overload
    def __getitem__(self, number: int) -> Sample: ...

    @overload
    def __getitem__(self, number: slice) -> list[Sample]: ...

    def __getitem__(self, number: int | slice) -> Sample | list[Sample]:
        """A record by its number, in the order in which it is stored; several of a slice.

        Raises:
            IndexError: the split has no record of this number.
        """
        if isinstance(number, slice):
            return [self[each] for each in range(*number.indices(len(self)))]
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
    def publish(
        self,
        topic: str,
        *,
        create: bool = False,
        partitions: int | None = None,
        replicas: int | None = None,
        retention: float | None = None,
        max_size: int | None = None,
        progress: Callable[[int, int], None] = silent,
    ) -> Published:
        """Send the records to a Kafka topic, and read it back to compare. After a kill, it goes on where it stopped.

        Args:
            topic: kafka://HOST:PORT/TOPIC of the split train; another split goes to TOPIC.SPLIT.
            create: whether to create the topic if it does not exist, with what the following say of it.
            partitions: by default one per shard.
            replicas: of every partition; by default the cluster's.
            retention: hours after which records are deleted; by default never.
            max_size: the largest record, in MiB; by default 16.
            progress: called with the records that are acknowledged, and those in all.

        Raises:
            DatasetError: the dataset is no folder, or the topic holds other records or takes no record so large.
            SourceError: the cluster cannot be reached, or refused a record.
        """
        dataset = self.dataset.opened
        if not isinstance(dataset, datasets.FolderDataset):
            raise DatasetError(
                self.dataset.path, expected="a packed folder", found="a topic", remedy="Get it with penstock pull"
            )
        creation = topics.creation(len(self.info.shards), partitions, replicas, retention, max_size, create=create)
        return datasets.stream_at(topic).publish(dataset, self.name, creation, progress=progress)

    @suggested
    def feed(
        self,
        *,
        batch: int,
        crop: tuple[int, int] | int | None = None,
        seed: int = 0,
        augment: bool = True,
        rank: int = 0,
        world_size: int = 1,
        settings: Mapping[str, Any] | None = None,
    ) -> Feed:
        """Batches for a loop of one's own: `for batch in feed.batches(cursor)`.

        Args:
            batch: images in a global batch.
            crop: (height, width) of the samples, or a number for a square; by default the task's.
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
            given["augment.crop"] = (crop, crop) if isinstance(crop, int) else crop
        from penstock.assembly import chosen_shuffle, open_experiment, resolve_settings  # noqa: PLC0415 - with PyTorch

        recipe = resolve_settings({**given, "model.weights": "none", **(settings or {})}).recipe
        feed = open_experiment(chosen_shuffle(recipe)).training_feed(BatchSlice(rank, world_size))
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
        """Name of the task that the dataset was packed for."""
        return self.opened.description.task

    @property
    def splits(self) -> tuple[str, ...]:
        """The names of its splits."""
        return self.opened.splits

    def __iter__(self) -> Iterator[str]:
        return iter(self.splits)

    def __len__(self) -> int:
        return len(self.splits)

    def __contains__(self, split: object) -> bool:
        return split in self.splits

    def __getitem__(self, split: str) -> Split:
        """A split by its name.

        Raises:
            DatasetError: there is none.
        """
        self.opened.split(split)
        return Split(self, split)

    def describe(self) -> str:
        """What it holds, in lines: its task, its classes, and the records of every split."""
        about = self.opened.description
        lines = [
            f"{self.path}: {about.task}, records in {self.opened.medium}",
            f"classes ({len(about.classes)}): {', '.join(about.classes)}",
        ]
        lines += [f"ignore label: {about.ignore_label}"] if about.kind.ignores else []
        for split in self.splits:
            snapshot, found = self.opened.source(split).snapshot(), self.opened.split(split)
            lines.append(
                f"{split}: {counted(len(snapshot), 'offset')} in {self.opened.place(split)}, height x width at most "
                f"{found.height} x {found.width}"
            )
            lines += [f"  {part.name:<24} {part.start:>12,} to {part.stop:>12,}" for part in snapshot.partitions]
        return "\n".join(lines)

    @suggested
    def verify(self, split: str = "", *, threads: int = 0, progress: Callable[[int, int], None] = silent) -> Verdict:
        """Read every record: its checksum, its image, its label.

        Args:
            split: by default all of them.
            threads: that read and decode; 0 for one per core, at least four.
            progress: called with the records that are read, and those in all.

        Returns:
            How many records are sound, and a sentence for every one that is damaged or does not fit.
        """
        check_numbers(threads=(threads, 0, math.inf))
        return self.opened.verify([split] if split else [], threads=threads, progress=progress)

    @suggested
    def show(
        self,
        split: str = "",
        *,
        count: int = 12,
        seed: int = 0,
        augmented: bool = False,
        recipe: str | Path = "",
        settings: Mapping[str, Any] | Sequence[str] | None = None,
        output: str | Path = "",
    ) -> Sheet:
        """Records of a split with their labels as an image grid, or what training on it would be fed.

        Args:
            split: by default the first one.
            count: images at most.
            seed: other seeds draw other images.
            augmented: whether to draw samples as the network is fed them.
            recipe: a file in TOML whose augmentation is drawn.
            settings: of a recipe, as for `train`.
            output: a PNG file to write.

        Raises:
            RecipeError: a recipe or settings are given for plain records, or do not fit.
            OutputError: another file is there, or its name does not end in .png.
        """
        check_numbers(count=(count, 1, math.inf))
        if (recipe or settings) and not augmented:
            raise RecipeError(
                _SHOW,
                remedy="Add --augmented, or remove them",
                message="A recipe, --crop, --task and --set have no effect on plain records.",
            )
        if output:
            outputs.check(Path(output), _SHOW, (".png",))
        split = split or next(iter(self.opened.description.splits))
        from penstock.api import drawing  # noqa: PLC0415 - with PyTorch

        if augmented:
            sheet = drawing.samples(self.path, split, count, seed, recipe, as_settings(settings))
        else:
            sheet = drawing.records(self.opened, split, count, seed)
        if output:
            outputs.write(Path(output), sheet.png, _SHOW)
        return sheet

    @suggested
    def unpack(
        self, output: str | Path, *, layout: str = "", progress: Callable[[int, int], None] = silent
    ) -> datasets.Unpacked:
        """Write every record as an image, as it was packed, with its label, in a layout that other tools read.

        Args:
            output: a new or empty folder.
            layout: "masks" or "voc" of masks, "classes" of classes, "coco", "yolo" or "voc" of boxes, "coco" of
                instances; "" takes the first of these.
            progress: called with the records that are written, and those in all.

        Raises:
            DatasetError: what the dataset holds cannot be written so.
            OutputError: the folder holds something.
            DataError: a record is damaged.
        """
        return datasets.unpack(self.opened, Path(output), layout, progress=progress)

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
def pull(
    topic: str,
    output: str | Path,
    *,
    splits: Sequence[str] = ("train",),
    start: str = "",
    until: str = "",
    shard_size: int = 64,
    progress: Callable[[int, int], None] = silent,
) -> Data:
    """Write a snapshot of Kafka topics to TFRecord shards, to train from local disk.

    Args:
        topic: kafka://HOST:PORT/TOPIC; splits other than train are in TOPIC.SPLIT.
        output: the folder to fill.
        splits: those to write.
        start: of train: "earliest", a time, or offsets as PARTITION:OFFSET, such as "0:100,1:250".
        until: end of train: a time, or offsets; by default the current end.
        shard_size: approximate size of a shard in MiB.
        progress: called with the offsets that are read, and those in all.

    Raises:
        DatasetError: `start` or `until` is given for other splits than train, or the topics say not what they hold.
        SourceError: the cluster cannot be reached.
    """
    splits = as_list(splits)
    if (start or until) and splits != ["train"]:
        raise DatasetError(
            "--from, --until",
            remedy="Pull the other splits by themselves, whole",
            message=f"--from and --until select records of the topic of train, but --split names {', '.join(splits)}.",
        )
    pulled = datasets.stream_at(topic).pull(
        Path(output), splits, start=start, until=until, shard_bytes=shard_size << 20, progress=progress
    )
    return Data(pulled, str(output))

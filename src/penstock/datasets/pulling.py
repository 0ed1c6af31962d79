"""`pull`: a snapshot of topics to shards on local disk, with a note of where every record came from."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from penstock import files
from penstock.datasets.description import Dataset, ShardFacts, Split
from penstock.datasets.packing import refuse_others
from penstock.images import codecs, probe
from penstock.progress import silent
from penstock.records import ShardWriter
from penstock.records import index as indexing
from penstock.records.schema import decode_classification, decode_detection, decode_segmentation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from penstock.datasets.topics import TopicDataset
    from penstock.values import Partition, Record, Snapshot

_FILE: Final = "provenance.json"


def pull(
    dataset: TopicDataset,
    output: Path,
    splits: Sequence[str] = ("train",),
    *,
    shard_bytes: int = 64 << 20,
    progress: Callable[[int, int], None] = silent,
) -> Dataset:
    """Write the records of some splits as a packed dataset, in the topic's order, and `provenance.json` beside it.

    Args:
        dataset: the topics.
        output: an empty folder, or one to make.
        splits: which of them.
        shard_bytes: what a shard should hold, about.
        progress: called with the offsets done and the offsets in all.

    Raises:
        DatasetError: the folder holds something.
        DataError: a record is not what it should be.
        SourceError: the topic cannot be read.
    """
    refuse_others(output, begun=False)
    output.mkdir(parents=True, exist_ok=True)
    snapshots = {split: dataset.source(split).snapshot() for split in splits}
    done, total = 0, sum(len(snapshot) for snapshot in snapshots.values())
    described, notes = {}, []
    for split, snapshot in snapshots.items():
        writer = _Split(dataset, output, split, shard_bytes)
        for partition in snapshot.partitions:
            for record in _records(dataset, split, partition):
                writer.write(record)
                progress(done + writer.count, total)
        done += len(snapshot)
        described[split] = writer.finish()
        notes.append(_note(snapshot, split, described[split]))
    about = dataset.description
    description = replace(about, splits=described)
    pulled = Dataset(output, replace(description, content=description.digest()))
    files.write_atomically(output / _FILE, files.to_json({"splits": notes}))
    pulled.save()
    progress(total, total)
    return pulled


def _records(dataset: TopicDataset, split: str, partition: Partition) -> Iterator[Record]:
    return dataset.source(split).read(partition.name, partition.start, partition.stop)


def _note(snapshot: Snapshot, split: str, written: Split) -> dict[str, object]:
    """Where a split came from; its records lie in the order of the partitions and their offsets."""
    return {
        "split": split,
        "source": snapshot.source,
        "partitions": [
            {"name": p.name, "start": p.start, "stop": p.stop, "log": p.fingerprint} for p in snapshot.partitions
        ],
        "records": written.records,
        "offsets_without_a_record": len(snapshot) - written.records,
    }


class _Split:
    """Shards being written one after the other, under numbers that are only known to be whole at the end."""

    def __init__(self, dataset: TopicDataset, output: Path, split: str, shard_bytes: int) -> None:
        self.dataset, self.output, self.split, self.shard_bytes = dataset, output, split, shard_bytes
        self.count = self.height = self.width = self.slices = self.objects = 0
        self._per_class: Counter[int] = Counter()
        self._image_pixels: Counter[int] = Counter()
        self._shards: list[ShardFacts] = []
        self._pending: list[bytes] = []
        self._size = 0

    def write(self, record: Record) -> None:
        """Add a record; a shard is written whenever there is enough for one."""
        self._look(record)
        self._pending.append(record.payload)
        self._size += len(record.payload)
        self.count += 1
        if self._size >= self.shard_bytes:
            self._flush()

    def finish(self) -> Split:
        """Write what is left, and describe the split."""
        if self._pending:
            self._flush()
        classes = len(self.dataset.description.classes)
        return Split(
            self.count,
            tuple(self._shards),
            self.height,
            self.width,
            tuple(self._per_class[i] for i in range(classes)),
            self.objects,
            self.slices,
            tuple(self._image_pixels[i] for i in range(classes)) if self._image_pixels else (),
        )

    def _flush(self) -> None:
        name = f"{self.split}-{len(self._shards):05d}.tfrecord"
        with ShardWriter(self.output / name) as writer:
            for payload in self._pending:
                writer.write(payload)
        digest = indexing.of(self.output / name).digest
        self._shards.append(ShardFacts(name, len(self._pending), digest, digest))
        self._pending, self._size = [], 0

    def _look(self, record: Record) -> None:
        """Count classes and sizes, as packing does."""
        slices = 0
        if self.dataset.description.task == "classification":
            picture = decode_classification(record)
            info = probe(picture.image, record.origin)
            self._per_class[picture.label] += 1
        elif self.dataset.description.task == "detection":
            found = decode_detection(record)
            info = probe(found.image, record.origin)
            self._per_class.update(each.label for each in found.objects)
            self.objects = max(self.objects, len(found.objects))
        else:
            fields = decode_segmentation(record)
            slices = fields.slices
            info = probe(fields.image, record.origin)
            counts = np.bincount(codecs.decode_mask(fields.mask, record.origin, palette=True).ravel(), minlength=256)
            if self.dataset.description.task == "matting":
                front = round(int(counts @ np.arange(256)) / 255)
                counts = np.array([int(counts.sum()) - front, front])
            classes = len(self.dataset.description.classes)
            present = {int(i): int(counts[i]) for i in np.flatnonzero(counts[:classes])}
            self._per_class.update(present)
            if self.dataset.description.task == "segmentation":
                self._image_pixels.update(dict.fromkeys(present, sum(present.values())))
        self.slices = max(self.slices, slices)
        self.height = max(self.height, info.size[0] // max(1, slices))
        self.width = max(self.width, info.size[1])

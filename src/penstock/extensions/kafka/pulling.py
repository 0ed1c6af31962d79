"""`pull`: a snapshot of topics to shards on local disk, with a note of where every record came from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from penstock import files
from penstock.datasets.description import FolderDataset, ShardInfo, SplitInfo
from penstock.datasets.packing import refuse_others
from penstock.extensions.kafka.dataset import TopicDataset
from penstock.kinds import Counts
from penstock.progress import silent
from penstock.records import ShardWriter, manifest
from penstock.records import index as indexing
from penstock.values import Partition, Record, Snapshot

_FILE: Final = "provenance.json"


def pull(
    dataset: TopicDataset,
    output: Path,
    splits: Sequence[str] = ("train",),
    *,
    shard_bytes: int = 64 << 20,
    progress: Callable[[int, int], None] = silent,
) -> FolderDataset:
    """Write the records of some splits as a packed dataset, in the topic's order, and `provenance.json` beside it.

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
    home = str(output.resolve())
    pulled = FolderDataset(output, replace(description, content=description.digest(), home=home))
    files.write_atomically(output / _FILE, files.to_json({"splits": notes}))
    manifest.write(output / manifest.NAME, {split: pulled.entries(split) for split in described})
    pulled.save()
    progress(total, total)
    return pulled


def _records(dataset: TopicDataset, split: str, partition: Partition) -> Iterator[Record]:
    return dataset.source(split).read(partition.name, partition.start, partition.stop)


def _note(snapshot: Snapshot, split: str, written: SplitInfo) -> dict[str, object]:
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
        self.count = 0
        self._found = Counts(0, 0)
        self._shards: list[ShardInfo] = []
        self._pending: list[bytes] = []
        self._size = 0

    def write(self, record: Record) -> None:
        """Add a record; a shard is written whenever there is enough for one."""
        described = self.dataset.description
        self._found = self._found.joined(described.kind.measure(record, described))
        self._pending.append(record.payload)
        self._size += len(record.payload)
        self.count += 1
        if self._size >= self.shard_bytes:
            self._flush()

    def finish(self) -> SplitInfo:
        """Write what is left, and describe the split."""
        if self._pending:
            self._flush()
        classes, found = range(len(self.dataset.description.classes)), self._found
        return SplitInfo(
            self.count,
            tuple(self._shards),
            found.height,
            found.width,
            tuple(found.per_class[i] for i in classes),
            found.objects,
            found.slices,
            tuple(found.image_pixels[i] for i in classes) if found.image_pixels else (),
        )

    def _flush(self) -> None:
        name = f"{self.split}-{len(self._shards):05d}.tfrecord"
        with ShardWriter(self.output / name) as writer:
            for payload in self._pending:
                writer.write(payload)
        digest = indexing.of(self.output / name).digest
        self._shards.append(ShardInfo(name, len(self._pending), digest, digest))
        self._pending, self._size = [], 0

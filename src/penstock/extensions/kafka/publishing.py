"""`publish`: a packed dataset into topics, in order; a publishing that was killed goes on without a second copy."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Final, Self

from penstock.datasets.description import FolderDataset
from penstock.datasets.locations import Creation, Published
from penstock.errors import DatasetError
from penstock.extensions.kafka.client import KafkaLog
from penstock.extensions.kafka.log import Log, Message, Topic
from penstock.extensions.kafka.producer import OVERHEAD, TopicWriter, create
from penstock.extensions.kafka.settings import TopicAddress
from penstock.extensions.kafka.source import KafkaSource
from penstock.extensions.kafka.topic_format import ABOUT, DIGEST, ORIGIN, About, digest, topic_of
from penstock.progress import counted, silent
from penstock.values import Record

_SETTLED: Final = 0.5  # seconds in which nothing more may arrive of a publisher that was killed
_MAX_LOOKS: Final = 20  # somebody else may write all the time
_STEP: Final = 64


def publish(
    dataset: FolderDataset,
    address: TopicAddress,
    split: str = "train",
    creation: Creation | None = None,
    *,
    progress: Callable[[int, int], None] = silent,
) -> Published:
    """Send one split, then read all of it back and compare counts and digests.

    Shard i goes to partition i modulo the number of partitions, so that with as many partitions as shards a plan over
    the topic is the plan over the shards.

    Args:
        dataset: a packed one.
        address: the topic for the training split; other splits go to topics beside it.
        split: one of the dataset's.
        creation: how to make the topic if it is not there; None does not make it.
        progress: called with the records acknowledged and the records in all.

    Raises:
        DatasetError: the topic holds other records, or a record is too large for it.
        SourceError: the cluster cannot be reached, or refused a record.
    """
    dataset.snapshot(split, dataset.source(split))  # the shards that were packed, and no others
    address = replace(address, topic=topic_of(address.topic, split))
    if creation:
        create(address, creation)
    log = KafkaLog(address)
    topic = _settled(log)
    plan = _Plan(dataset, split, len(topic.extents))
    done = [_resume_at(log, topic, plan, partition) for partition in range(len(topic.extents))]
    total, before = plan.records, sum(done)
    headers = [(ABOUT, About.of(dataset.description, dataset.split(split)).encoded())]
    with TopicWriter(address) as writer:
        for partition, record in plan.interleaved(done):
            _check_size(topic, record, len(headers[0][1]))
            own = [(ORIGIN, record.origin.encode()), (DIGEST, digest(record.payload)), *headers]
            writer.send(record.payload, record.origin.encode(), own, partition)
            progress(before + writer.acknowledged, total)
    _compare(log, plan)
    progress(total, total)
    log.close()
    return Published(topic.name, total, total - before, _about(topic))


def _about(topic: Topic) -> str:
    """What the topic does with records: people should know how long it keeps them."""
    hours = int(topic.settings.get("retention.ms", "-1")) / 3_600_000
    kept = "for ever" if hours < 0 else f"for {hours:g} hours"
    size = int(topic.settings.get("max.message.bytes", "0"))
    return f"{counted(len(topic.extents), 'partition')}, records of at most {size:,} bytes, kept {kept}"


class Publisher:
    """A context manager that sends records as they come: for cameras, and for tools that label without end.

    Leaving it waits until all are acknowledged. A record's name decides its partition, so records of one name stay in
    order. A process that goes on where another one was killed leaves out what is among the `recent` names.

    Attributes:
        writer: the connection; `writer.acknowledged` counts the records that all replicas have.
    """

    def __init__(
        self, address: TopicAddress, about: About, split: str = "train", creation: Creation | None = None
    ) -> None:
        self.address = replace(address, topic=topic_of(address.topic, split))
        self.writer = TopicWriter(self.address)
        self._about = about.encoded()
        self._creation = creation

    def __enter__(self) -> Self:
        if self._creation:
            create(self.address, self._creation)
        self.writer.__enter__()
        return self

    def send(self, name: str, payload: bytes) -> None:
        """Hand over a record, as `kinds.fields` encodes it; waits while 64 MiB are on their way.

        Raises:
            SourceError: this or an earlier record was refused.
        """
        headers = [(ORIGIN, name.encode()), (DIGEST, digest(payload)), (ABOUT, self._about)]
        self.writer.send(payload, name.encode(), headers)

    def flush(self) -> None:
        """Wait until all records are acknowledged."""
        self.writer.flush()

    def recent(self, count: int = 1000) -> set[str]:
        """The names of the newest records, `count` offsets back in every partition.

        What a killed process had on its way has arrived by then, or never will. Records of each partition arrive in the
        order in which they were sent.

        Raises:
            SourceError: the topic cannot be reached.
        """
        log = KafkaLog(self.address)
        time.sleep(2 * _SETTLED)
        topic = log.topic()
        messages = [
            message
            for extent in topic.extents
            for message in log.fetch(extent.partition, max(extent.low, extent.stop - count), extent.stop)
        ]
        log.close()
        return {_header(message, ORIGIN).decode() for message in messages}

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.writer.__exit__(kind, error, trace)


@dataclass(frozen=True)
class _Plan:
    """Which record goes where."""

    dataset: FolderDataset
    split: str
    partitions: int

    @property
    def records(self) -> int:
        return self.dataset.split(self.split).records

    def shards(self, partition: int) -> list[tuple[str, int]]:
        """The shards of a partition, in order, with their numbers of records."""
        shards = self.dataset.split(self.split).shards
        return [(shard.name, shard.records) for shard in shards[partition :: self.partitions]]

    def count(self, partition: int) -> int:
        """How many records a partition gets."""
        return sum(records for _, records in self.shards(partition))

    def from_(self, partition: int, skip: int) -> Iterator[Record]:
        """The records of a partition, from the one after `skip` on."""
        source = self.dataset.source(self.split)
        for name, records in self.shards(partition):
            yield from source.read(name, min(skip, records), records)
            skip = max(0, skip - records)

    def interleaved(self, done: list[int]) -> Iterator[tuple[int, Record]]:
        """What is left to send: some records of each partition in turn, so that all leaders work at once."""
        left = {partition: self.from_(partition, skip) for partition, skip in enumerate(done)}
        while left:
            for partition, records in list(left.items()):
                for _ in range(_STEP):
                    record = next(records, None)
                    if record is None:
                        del left[partition]
                        break
                    yield partition, record


def _settled(log: Log) -> Topic:
    """The topic, once what a killed publisher had on its way has arrived."""
    before = log.topic()
    for _ in range(_MAX_LOOKS):
        time.sleep(_SETTLED)
        now = log.topic()
        if now.extents == before.extents:
            break
        before = now
    return before


def _resume_at(log: Log, topic: Topic, plan: _Plan, partition: int) -> int:
    """How many records of a partition are there already: a prefix of what belongs there, or another's."""
    extent = topic.extents[partition]
    if not extent.stop:
        return 0
    held = log.fetch(partition, max(extent.low, extent.stop - 1), extent.stop)
    there = extent.stop - extent.low
    expected = next(plan.from_(partition, there - 1), None) if extent.low == 0 and held else None
    if expected is None or not held or _header(held[-1], ORIGIN) != expected.origin.encode():
        raise _others(topic.name, partition, there)
    if _header(held[-1], DIGEST) != digest(expected.payload):
        raise _others(topic.name, partition, there)
    return there


def _header(message: Message, name: str) -> bytes:
    return next((value for key, value in message.headers if key == name), b"")


def _others(topic: str, partition: int, there: int) -> DatasetError:
    return DatasetError(
        f"{topic}/{partition}",
        expected="an empty partition, or the first records of this dataset",
        found=f"{there:,} other records",
        remedy="Publish to a new topic, with --create",
    )


def _check_size(topic: Topic, record: Record, about: int) -> None:
    limit = int(topic.settings.get("max.message.bytes", "1048588"))
    size = len(record.payload) + len(record.origin) + about + OVERHEAD
    if size > limit:
        raise DatasetError(
            record.origin,
            expected=f"a record of at most {limit:,} bytes, the topic's max.message.bytes",
            found=f"one of {size:,} with its headers",
            remedy=f"Raise the topic's max.message.bytes to {2 * size}, and the brokers' replica.fetch.max.bytes too",
        )


def _compare(log: Log, plan: _Plan) -> None:
    """Read everything back: every record once, in order, with its digest."""
    source = KafkaSource(log)
    for number, partition in enumerate(source.snapshot().partitions):
        expected = plan.from_(number, 0)
        found = source.messages(partition.name, partition.start, partition.stop)
        count = 0
        for message, record in zip(found, expected, strict=False):
            if message.value is None or digest(message.value) != digest(record.payload):
                raise _others(log.name, number, len(partition))
            count += 1
        if not count == len(partition) == plan.count(number):
            raise DatasetError(
                f"{log.name}/{number}",
                expected=f"{counted(plan.count(number), 'record')}",
                found=f"{len(partition):,}",
                remedy="Something else writes to the topic: publish to a new one, with --create",
            )

"""A topic as a source: a snapshot is, per partition, what retention has left and transactions have closed."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Final, TypeVar

from penstock.errors import AwayError, ExpiredError, SourceError
from penstock.extensions.kafka import mistakes
from penstock.extensions.kafka.blocks import Blocks, RecordRun
from penstock.extensions.kafka.log import Extent, Log, Message, Topic
from penstock.extensions.kafka.partitions import (
    compare,
    epoch_of,
    name_of,
    number_of,
    refuse_another,
    refuse_compacted,
    safe_start,
    snapshot_of,
    taken,
)
from penstock.extensions.kafka.ranges import Range
from penstock.sources import waiting
from penstock.values import Partition, Record, Snapshot

Response = TypeVar("Response")

_LOGGER: Final = logging.getLogger("penstock.kafka")
_RECHECK: Final = 60.0  # seconds after which the topic is looked at again
_PATIENT: Final = 3.0  # seconds that one question may take, in which Ctrl-C is not heard
_AGAIN: Final = 1.0  # seconds between two questions to a broker that is away
_NEAR: Final = 0.1  # fraction of retention: what has less of it left is in danger
_SECOND: Final = 1000
_RUN: Final = 32 << 20  # bytes of a run: from there on reading is as fast as without end (bench/RESULTS.md)
_FEW_BYTES: Final = 8 << 20  # bytes that a single record is read with: as long as finding its place takes
_FEW: Final = 4  # records that tell the size of all


class KafkaSource:
    """The records of one topic. Offsets without a message (markers, aborted records, tombstones) give no record.

    Memory is bounded: `memory` bytes of blocks, and for every thread that reads one block and the 8 MiB that its
    consumer reads ahead.

    Args:
        block: offsets that are read at once where nobody says which belong together; None takes about 32 MiB of them,
            or 8 MiB where a single one is wanted.

    Attributes:
        log: the topic.
        range: the part of it that a snapshot takes.
        blocks: the runs that are kept.
        recheck: seconds after which the topic's identity is checked again while reading.
    """

    def __init__(
        self,
        log: Log,
        range_: Range | None = None,
        *,
        block: int | None = None,
        memory: int = 256 << 20,
        recheck: float = _RECHECK,
    ) -> None:
        self.log, self.range, self.recheck = log, range_ or Range(), recheck
        self._block = block
        self.blocks = Blocks(self._fetch, memory)
        self._pinned: Snapshot | None = None
        self._needed: tuple[Partition, ...] = ()
        self._spared: set[int] = set()
        self._partitions: dict[str, Partition] = {}
        self._looked = self._known = time.monotonic()
        self._lock, self._asking = threading.Lock(), threading.Lock()

    def __repr__(self) -> str:
        return f"KafkaSource({self.log.name})"

    def snapshot(self) -> Snapshot:
        """What the topic holds now, within the range.

        Raises:
            SourceError: it cannot be reached, is compacted, holds nothing, or a start of the range is deleted.
        """
        topic = self._kept()
        partitions = []
        for extent in topic.extents:
            start, stop = self.range.of(extent)
            partitions.append(taken(topic, extent, start, stop))
        if not sum(len(partition) for partition in partitions):
            raise mistakes.nothing(topic.name)
        return self._pin(snapshot_of(topic, partitions), topic)

    def growth(self, seen: Sequence[Partition]) -> tuple[Snapshot, Snapshot]:
        """What came since some offsets were seen, and what is still held of those; perhaps nothing. Pins nothing.

        Of a topic that retention cuts, the tenth that goes next is not counted as held.

        Args:
            seen: per partition, from the first offset to behind the last; a partition that is not among them is new.

        Raises:
            SourceError: it cannot be reached, is another topic, or lost offsets that were not seen yet.
        """
        topic = self._kept()
        compare(seen, topic, whole=False)
        known = {partition.name: partition for partition in seen}
        new, held = [], []
        for extent in topic.extents:
            before = known.get(name_of(topic, extent))
            if before is None and self.range.is_ahead(extent):
                continue
            start = self.range.of(extent)[0] if before is None else before.stop
            new.append(taken(topic, extent, start, max(start, extent.stop)))
            if before is not None:
                self._same_end(topic, extent, before)
                first = max(before.start, safe_start(topic, extent))
                held.append(taken(topic, extent, min(first, before.stop), before.stop))
        return snapshot_of(topic, new), snapshot_of(topic, held)

    def _same_end(self, topic: Topic, extent: Extent, seen: Partition) -> None:
        """After a change of leaders, the last offset that was seen must still be what it was."""
        epoch = epoch_of(seen)
        if not 0 <= epoch < extent.epoch or seen.stop <= max(extent.low, seen.start):
            return
        for message in self.log.fetch(extent.partition, seen.stop - 1, seen.stop):
            if message.epoch > epoch:
                raise mistakes.rewritten(topic.name, extent.partition, message.offset, epoch, message.epoch)

    def _kept(self) -> Topic:
        topic = self.log.topic()
        refuse_compacted(topic)
        return topic

    def pin(self, snapshot: Snapshot, needed: Snapshot | None = None, timeout: float = 0.0) -> Snapshot:
        """Take a snapshot of before instead of a new one, once it is known that it can still be read.

        Args:
            snapshot: what may be read.
            needed: the part of it that retention must not have touched, by default all. What it deletes of the rest
                reads like offsets that never held a record, and a warning says so.
            timeout: seconds to wait for a broker that is away.

        Raises:
            SourceError: another cluster or topic is behind the name, or records are gone.
            InterruptedError: nobody waits for the broker any more.
        """
        topic = self._awaited(self.log.topic, timeout)
        refuse_compacted(topic)
        compare((needed or snapshot).partitions, topic)
        compare(snapshot.partitions, topic, whole=False)
        return self._pin(snapshot, topic, needed)

    def _awaited(self, ask: Callable[..., Response], timeout: float) -> Response:
        """The answer to a question about the topic, asked again while the broker is away."""
        end = time.monotonic() + timeout
        while True:
            try:
                return ask(_PATIENT) if timeout else ask()
            except AwayError as error:
                if time.monotonic() > end:
                    raise
                waiting.check()
                _LOGGER.warning("%s: waiting for the broker (%s)", self.log.name, error.found)
                time.sleep(_AGAIN)

    def read(self, partition: str, start: int, stop: int) -> Iterator[Record]:
        """The records `[start, stop)` of a partition, in order; offsets that hold none are passed over.

        Raises:
            SourceError: records are gone, or the broker was away for too long.
        """
        for message in self.messages(partition, start, stop):
            if message.value is not None:
                yield Record(f"{partition}#{message.offset}", message.value)

    def messages(self, partition: str, start: int, stop: int) -> Iterator[Message]:
        """As `read`, but with keys, headers and tombstones."""
        part = self._partition(partition)
        self._look_again()
        number, offset = number_of(partition), start
        while offset < stop:
            run = self.blocks.holding(number, offset) or self._around(part, number, offset, stop - offset)
            block = self.blocks.get(run)
            end = min(stop, run.stop)
            yield from (block[place] for place in range(offset, end) if place in block)
            offset = end

    def prefetch(self, partition: str, start: int, stop: int) -> None:
        """Read a run of offsets that will soon be wanted one by one; errors are left to who reads them."""
        self._partition(partition)
        with contextlib.suppress(SourceError):
            self.blocks.get(RecordRun(number_of(partition), start, stop))

    @cached_property
    def block(self) -> int:
        """Offsets that are read at once where nobody says which belong together."""
        return self._block or together(self.record_bytes, _RUN, 1024)

    @cached_property
    def few(self) -> int:
        """Offsets that are read at once where a single one is wanted."""
        return self._block or together(self.record_bytes, _FEW_BYTES, 1024)

    @cached_property
    def record_bytes(self) -> int:
        """The mean size of a few records at the beginning of the snapshot, in bytes."""
        sizes = []
        if self._pinned is None:
            self.snapshot()
        for partition in self._needed:  # of others, retention may have taken the beginning
            stop = min(partition.stop, partition.start + _FEW)
            sizes += [len(m.value) for m in self.log.fetch(number_of(partition.name), partition.start, stop) if m.value]
            if sizes:
                break
        return max(1, sum(sizes) // max(1, len(sizes)))

    def _partition(self, name: str) -> Partition:
        if self._pinned is None:
            self.snapshot()
        if name not in self._partitions:
            raise mistakes.no_partition(self.log.name, name)
        return self._partitions[name]

    def _around(self, partition: Partition, number: int, offset: int, wanted: int) -> RecordRun:
        """The run that an offset lies in, as far as the snapshot reaches."""
        size = self.block if wanted > self.few else self.few
        first = offset // size * size
        return RecordRun(number, max(partition.start, first), min(max(partition.stop, offset + 1), first + size))

    def _pin(self, snapshot: Snapshot, topic: Topic, needed: Snapshot | None = None) -> Snapshot:
        self._pinned, self._needed = snapshot, (needed or snapshot).partitions
        self._partitions = {partition.name: partition for partition in snapshot.partitions}
        self._spared.clear()
        self._looked = time.monotonic()
        self._warn(topic)
        return snapshot

    def _fetch(self, run: RecordRun) -> dict[int, Message]:
        self._look_again()
        epoch = epoch_of(self._partitions[f"{self.log.name}/{run.partition}"])
        messages = self._read(run)
        self._still_the_same(run, time.monotonic())
        if len(messages) < run.stop - run.start:  # what is missing may be what compaction took
            refuse_compacted(self._response(self.log.topic, run))
        for message in messages:
            if 0 <= epoch < message.epoch:
                raise mistakes.rewritten(self.log.name, run.partition, message.offset, epoch, message.epoch)
        return {message.offset: message for message in messages}

    def _read(self, run: RecordRun) -> list[Message]:
        """The messages of a run; of what is not needed, those that retention has left."""
        try:
            return self.log.fetch(*run)
        except ExpiredError:
            topic = self.log.topic()
            needed = {number_of(partition.name): partition.start for partition in self._needed if len(partition)}
            (low,) = (extent.low for extent in topic.extents if extent.partition == run.partition)
            if low > needed.get(run.partition, low):
                raise
        if run.partition not in self._spared:
            self._spared.add(run.partition)
            _LOGGER.warning(
                "%s/%d: retention deleted records before offset %s that were to be drawn again; they are left out",
                self.log.name, run.partition, f"{low:,}",
            )  # fmt: skip
        return self.log.fetch(run.partition, max(low, run.start), run.stop) if low < run.stop else []

    def _still_the_same(self, run: RecordRun, read: float) -> None:
        """Check that the topic was not made again while a run was read; threads that read share one answer."""
        with self._asking:
            if self._known > read:
                return
            began = time.monotonic()
            topic_id = self._response(self.log.topic_id, run)
            for partition in self._partitions.values():
                refuse_another(self.log.name, topic_id, partition)
            self._known = began

    def _response(self, ask: Callable[..., Response], run: RecordRun) -> Response:
        """What is asked after a run was read; a broker that is away is waited for as long as for the run itself."""
        name, timeout = self.log.name, self.log.timeout
        try:
            return self._awaited(ask, timeout)
        except AwayError as error:
            raise mistakes.stalled(name, run.partition, run.start, timeout, error.found) from error

    def _look_again(self) -> None:
        """From time to time, see that the snapshot can still be read; reading itself would only notice in the end."""
        with self._lock:
            if time.monotonic() - self._looked < self.recheck or self._pinned is None:
                return
            self._looked = time.monotonic()
        try:
            topic = self.log.topic()
        except AwayError:
            return  # reading waits for it
        refuse_compacted(topic)
        compare(self._needed, topic)
        self._warn(topic)

    def _warn(self, topic: Topic) -> None:
        """Say which records retention is about to delete."""
        kept = int(topic.settings.get("retention.ms", "-1"))
        for partition in self._needed:
            if kept < 0 or not len(partition):
                continue
            first = self.log.fetch(number_of(partition.name), partition.start, partition.start + 1)
            left = (first[0].time + kept) / _SECOND - time.time() if first and first[0].time >= 0 else kept
            if left < _NEAR * kept / _SECOND:
                _LOGGER.warning(
                    "%s: retention may delete the oldest records in %.0f minutes (%s): pull the topic to shards, or "
                    "keep them longer",
                    partition.name, max(0.0, left) / 60, mistakes.policy(topic.settings),
                )  # fmt: skip


def together(record_bytes: int, size: int, most: int) -> int:
    """How many records of a size make about `size` bytes: a power of two from 4 to `most`."""
    count = max(1, size // record_bytes)
    return int(min(most, max(4, 1 << (count.bit_length() - 1))))

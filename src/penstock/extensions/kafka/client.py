"""`Log` over librdkafka: the extra `penstock[kafka]`."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import threading
import time
import weakref
from collections.abc import Iterator, Mapping
from typing import Any, Final

from penstock.errors import AwayError
from penstock.extensions.kafka import admin, mistakes, settings
from penstock.extensions.kafka.library import librdkafka, opened
from penstock.extensions.kafka.log import Message, Topic
from penstock.extensions.kafka.settings import TopicAddress
from penstock.sources import waiting

_LOGGER: Final = logging.getLogger("penstock.kafka")
_PATIENCE: Final = 0.1  # seconds that one call to librdkafka may wait
_ASK: Final = 20.0  # seconds for an answer about the topic
_NOTE_EVERY: Final = 5.0  # seconds of silence after which people are told, and the topic is looked at again
_MAX: Final = 1000  # messages taken from librdkafka at once


class KafkaLog:
    """One topic of a Kafka cluster.

    Every fetch borrows a consumer of its own, so threads do not wait for each other; `fetch` goes on where a consumer
    stands when it can. Consumers belong to the process that made them: after a fork new ones are made, as librdkafka's
    threads do not survive it.

    Attributes:
        address: where the topic is.
        timeout: seconds without any progress after which a fetch is an error.
        silent: whether a fetch has timed out and nothing has arrived since. Other fetches then wait 20 s at most.
    """

    def __init__(self, address: TopicAddress, timeout: float = 300.0) -> None:
        self.address = address
        self.timeout = timeout
        self.silent = False
        self._idle: list[_Reader] = []
        self._admin: Any = None
        self._lock = threading.Lock()
        _LOGS.add(self)

    @property
    def name(self) -> str:
        """The topic's name."""
        return self.address.topic

    def topic(self, seconds: float = _ASK) -> Topic:
        """The topic as it is now; an answer must come within some seconds."""
        with self._asking() as client:
            return admin.describe(client, self.address, seconds)

    def topic_id(self, seconds: float = _ASK) -> str:
        """The id of the topic that is behind the name now."""
        with self._asking() as client:
            return admin.topic_id(client, self.address, seconds)

    def offsets_at(self, milliseconds: int) -> dict[int, int]:
        """For every partition the first offset that is not earlier, or its end."""
        topic = self.topic()
        with self._asking() as client:
            return admin.offsets_at(client, self.address, milliseconds, topic, _ASK)

    def fetch(self, partition: int, start: int, stop: int) -> list[Message]:
        """All messages with offsets in `[start, stop)`, in order."""
        reader = self._borrow(partition, start)
        try:
            messages = _Fetch(self, reader, partition, start, stop).run()
        except BaseException:
            reader.close()
            raise
        with self._lock:
            self._idle.append(reader)
        return messages

    def commit_offsets(self, group: str, offsets: Mapping[int, int]) -> None:
        """Tell a consumer group's offsets, by partition; the group is not joined."""
        kafka = librdkafka()
        chosen = {**settings.reading(self.address.servers), "group.id": group, "socket.timeout.ms": 5000}
        consumer = opened("Consumer", chosen)
        places = [kafka.TopicPartition(self.name, number, offset) for number, offset in offsets.items()]
        try:
            answers = consumer.commit(offsets=places, asynchronous=False)
        except kafka.KafkaException as error:
            raise mistakes.unreachable(self.address.servers, error.args[0].str()) from None
        finally:
            consumer.close()
        for answer in answers:
            if answer.error:
                raise mistakes.unreachable(self.address.servers, answer.error.str())

    def close(self) -> None:
        """Let go of all connections; reading again makes new ones."""
        with self._lock:
            idle, self._idle = self._idle, []
            self._admin = None
        for reader in idle:
            reader.close()

    def after_fork(self) -> None:
        """Begin anew in a child process: the connections are the parent's."""
        self._lock = threading.Lock()
        idle, self._idle = self._idle, []
        for reader in idle:
            _abandon(reader.consumer)
        if self._admin is not None:
            _abandon(self._admin)
            self._admin = None

    @contextlib.contextmanager
    def _asking(self) -> Iterator[Any]:
        """The AdminClient, which is kept: to connect takes several times as long as an answer. One that had no answer
        is let go of: it goes on waiting for the controller that it knew, though another one leads by now.
        """
        with self._lock:
            if self._admin is None:
                self._admin = admin.connect(self.address.servers)
            client = self._admin
        try:
            yield client
        except AwayError:
            with self._lock:
                self._admin = None
            raise

    def _borrow(self, partition: int, start: int) -> _Reader:
        """The idle consumer that stands at an offset, or else any, or a new one."""
        with self._lock:
            standing = [reader for reader in self._idle if reader.place == (partition, start)]
            if chosen := standing or self._idle[:1]:
                self._idle.remove(chosen[0])
                return chosen[0]
        return _Reader(self.address)


def _abandon(client: Any) -> None:
    """Never end a client that came through a fork: its threads are the parent's, and librdkafka would abort."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(client))


_LOGS: Final[weakref.WeakSet[KafkaLog]] = weakref.WeakSet()


def _after_fork() -> None:
    for log in list(_LOGS):
        log.after_fork()


os.register_at_fork(after_in_child=_after_fork)


class _Reader:
    """A consumer and where it stands: messages that were taken too early are kept for the next fetch."""

    def __init__(self, address: TopicAddress) -> None:
        self.kafka = librdkafka()
        self.topic = address.topic
        self.consumer = opened("Consumer", settings.reading(address.servers))
        self.place: tuple[int, int] | None = None
        self.early: list[Any] = []

    def go(self, partition: int, start: int) -> None:
        """Read from an offset on."""
        if self.place != (partition, start):
            self.early.clear()
            self.consumer.assign([self.kafka.TopicPartition(self.topic, partition, start)])

    def take(self, most: int) -> list[Any]:
        """Messages and events that are there, waiting a little if there are none."""
        early, self.early = self.early, []
        return early or self.consumer.consume(min(most, _MAX), _PATIENCE)

    def position(self, partition: int) -> int:
        """The next offset that would be taken; negative before the first one."""
        (found,) = self.consumer.position([self.kafka.TopicPartition(self.topic, partition)])
        return int(found.offset)

    def close(self) -> None:
        """End the consumer's threads."""
        self.consumer.close()


class _Fetch:
    """One range being read."""

    def __init__(self, log: KafkaLog, reader: _Reader, partition: int, start: int, stop: int) -> None:
        self.log, self.reader = log, reader
        self.partition, self.next, self.stop = partition, start, stop
        self.messages: list[Message] = []
        self.reason = "no answer"
        self.moved = self.noted = time.monotonic()

    def run(self) -> list[Message]:
        """Read until the range is complete: its last offset may never come, as holes hold no message."""
        self.reader.go(self.partition, self.next)
        while self.next < self.stop:
            taken = self.reader.take(self.stop - self.next)
            for number, item in enumerate(taken):
                self._accept(item)
                if self.next >= self.stop:
                    self.reader.early = self._later(taken[number:])
                    break
            if not taken:
                self._silence()
        self.reader.place = self.partition, self.stop
        return self.messages

    def _later(self, items: list[Any]) -> list[Any]:
        """What belongs to the next range."""
        return [item for item in items if not item.error() and item.offset() >= self.stop]

    def _accept(self, item: Any) -> None:
        error = item.error()
        if error is not None:
            self._event(item, error)
        elif item.partition() == self.partition and item.offset() >= self.next:
            self._advance(item.offset() + 1)
            if item.offset() < self.stop:
                self.messages.append(_message(item))

    def _advance(self, offset: int) -> None:
        self.next, self.moved = offset, time.monotonic()
        self.log.silent = False

    def _event(self, item: Any, error: Any) -> None:
        codes = self.reader.kafka.KafkaError
        if error.code() == codes._PARTITION_EOF:  # noqa: SLF001 - librdkafka's own name
            if item.partition() == self.partition and item.offset() >= self.stop:
                self._advance(item.offset())
            return
        self.reason = error.str()
        lost = {codes._AUTO_OFFSET_RESET, codes.OFFSET_OUT_OF_RANGE, codes.UNKNOWN_TOPIC_OR_PART}  # noqa: SLF001
        if error.code() in lost:
            self._look()
        if error.code() == codes._AUTHENTICATION:  # noqa: SLF001
            raise mistakes.refused(self.log.address.servers, error.str())
        if error.fatal() or error.code() == codes.TOPIC_AUTHORIZATION_FAILED:
            raise mistakes.unreachable(self.log.address.servers, error.str())

    def _silence(self) -> None:
        """Nothing came: perhaps the rest is holes, perhaps the broker is away, perhaps nobody waits any more."""
        waiting.check()
        position = self.reader.position(self.partition)
        if position > self.next:
            self._advance(position)
            return
        now = time.monotonic()
        timeout = min(self.log.timeout, _ASK) if self.log.silent else self.log.timeout
        if now - self.moved > timeout:
            self.log.silent = True
            raise mistakes.stalled(self.log.name, self.partition, self.next, timeout, self.reason)
        if now - self.noted > _NOTE_EVERY:
            self.noted = now
            _LOGGER.warning(
                "%s/%d: waiting for offset %s for %.0f s (%s)",
                self.log.name, self.partition, f"{self.next:,}", now - self.moved, self.reason,
            )  # fmt: skip
            self._look()

    def _look(self) -> None:
        """Whether what is waited for can still come."""
        try:
            topic = self.log.topic(_NOTE_EVERY)
        except AwayError:
            return  # wait on
        extents = {extent.partition: extent for extent in topic.extents}
        extent = extents.get(self.partition)
        if extent is None:
            raise mistakes.no_partition(self.log.name, str(self.partition))
        if extent.low > self.next:
            raise mistakes.expired(self.log.name, self.partition, self.next, extent.low, topic.settings)
        if extent.stop < self.stop:
            raise mistakes.truncated(self.log.name, self.partition, self.stop, extent.stop)


def _message(item: Any) -> Message:
    epoch = item.leader_epoch()
    headers = tuple((name, value or b"") for name, value in item.headers() or ())
    return Message(
        item.offset(), item.value(), item.key(), headers, -1 if epoch is None else epoch, item.timestamp()[1]
    )

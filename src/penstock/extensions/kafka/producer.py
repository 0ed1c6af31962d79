"""Writing to a topic: in order, acknowledged by all replicas, and never twice by the client's own retries."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Final, Self

from penstock.datasets.locations import Creation
from penstock.errors import SourceError
from penstock.extensions.kafka import admin, settings
from penstock.extensions.kafka.library import librdkafka, opened
from penstock.extensions.kafka.settings import TopicAddress

_PATIENCE: Final = 0.2  # seconds that one call to librdkafka may wait
OVERHEAD: Final = 512  # bytes that a record's frame may add to key, headers and value


def create(address: TopicAddress, creation: Creation, seconds: float = 30.0) -> None:
    """Make a topic; one that is there already is left as it is.

    Raises:
        SourceError: the cluster refused.
    """
    kafka, module = librdkafka(), librdkafka("confluent_kafka.admin")
    kept = -1 if creation.retention_hours is None else round(creation.retention_hours * 3_600_000)
    config = {"retention.ms": str(kept), "retention.bytes": "-1", "max.message.bytes": str(creation.max_bytes)}
    new = module.NewTopic(address.topic, creation.partitions, creation.replicas or -1, config=config)
    cluster = admin.connect(address.servers)  # a client that is let go of answers nothing
    try:
        cluster.create_topics([new], request_timeout=seconds)[address.topic].result()
    except kafka.KafkaException as error:
        if error.args[0].code() != kafka.KafkaError.TOPIC_ALREADY_EXISTS:
            raise _refused(str(address), error.args[0].str()) from None
    _wait(cluster, address, time.monotonic() + seconds)


def _wait(cluster: Any, address: TopicAddress, end: float) -> None:
    """A topic is made before every broker knows of it."""
    while True:
        try:
            admin.describe(cluster, address, 1.0)
        except SourceError:
            if time.monotonic() > end:
                raise
            time.sleep(_PATIENCE)
        else:
            return


class TopicWriter:
    """A context manager that sends messages to a topic; leaving it waits until all are acknowledged.

    Messages of a partition are kept in order, and a retry never makes a second copy (an idempotent producer). What was
    acknowledged when a process is killed is a prefix of what it sent to each partition.

    Attributes:
        address: the topic.
        acknowledged: messages that all replicas have.
    """

    def __init__(self, address: TopicAddress) -> None:
        self.address = address
        self.acknowledged = 0
        self._kafka = librdkafka()
        self._producer: Any = None
        self._failed: list[str] = []

    def __enter__(self) -> Self:
        self._producer = opened("Producer", settings.writing(self.address.servers))
        return self

    def send(
        self, value: bytes, key: bytes, headers: Sequence[tuple[str, bytes]] = (), partition: int | None = None
    ) -> None:
        """Hand over a message; waits while the buffer (64 MiB) is full.

        Args:
            value: the record.
            key: stable, so that a record can be known again.
            headers: names and values.
            partition: where to; None lets the key decide.

        Raises:
            SourceError: this or an earlier message was refused.
        """
        place = {} if partition is None else {"partition": partition}
        while True:
            self._check()
            try:
                self._producer.produce(
                    self.address.topic, value, key, headers=list(headers), on_delivery=self._delivered, **place
                )
            except BufferError:
                self._producer.poll(_PATIENCE)
            except self._kafka.KafkaException as error:
                raise _refused(f"{self.address.topic}: {key.decode(errors='replace')}", error.args[0].str()) from None
            else:
                self._producer.poll(0)
                return

    def flush(self) -> None:
        """Wait until all messages are acknowledged.

        Raises:
            SourceError: one was refused.
        """
        while self._producer.flush(_PATIENCE):
            self._check()
        self._check()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.flush()
            return
        self._producer.purge()
        self._producer.flush(_PATIENCE)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is None:
            self.acknowledged += 1
        elif not self._failed:
            self._failed.append(f"{(message.key() or b'').decode(errors='replace')}: {error.str()}")

    def _check(self) -> None:
        if self._failed:
            raise _refused(self.address.topic, self._failed[0])


def _refused(where: str, reason: str) -> SourceError:
    return SourceError(
        where,
        expected="a broker that takes it",
        found=reason,
        remedy="Check the broker and the topic's settings; what was acknowledged stays, and publishing again goes on "
        "behind it",
    )

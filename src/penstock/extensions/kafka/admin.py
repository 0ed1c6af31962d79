"""Questions about a topic that a cluster's controller answers."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

from penstock.extensions.kafka import mistakes, settings
from penstock.extensions.kafka.library import librdkafka, opened
from penstock.extensions.kafka.log import Extent, Topic
from penstock.extensions.kafka.settings import TopicAddress

Response = TypeVar("Response")

_ADMIN: Final = "confluent_kafka.admin"
_AGAIN: Final = 0.2  # seconds
_READER_ONLY: Final = frozenset(
    {
        "group.id", "enable.auto.commit", "auto.offset.reset", "enable.partition.eof", "isolation.level", "check.crcs",
        "max.partition.fetch.bytes", "fetch.wait.max.ms", "fetch.queue.backoff.ms", "queued.max.messages.kbytes",
    }
)  # fmt: skip


def connect(servers: str) -> Any:
    """An AdminClient, with a list of what brokers refused its credentials with, `refusals`."""
    chosen = {key: value for key, value in settings.reading(servers).items() if key not in _READER_ONLY}
    refusals: list[str] = []

    def hear(error: Any) -> None:
        if error.code() == error._AUTHENTICATION:  # noqa: SLF001 - librdkafka's own name
            refusals.append(error.str())

    client = opened("AdminClient", {**chosen, "error_cb": hear}, _ADMIN)
    client.refusals = refusals
    return client


def describe(admin: Any, address: TopicAddress, seconds: float) -> Topic:
    """A topic as it is now; asked again while leaders are being elected.

    Raises:
        SourceError: the cluster cannot be reached, or the topic is not there.
    """
    return _response(lambda kafka, left: _describe(kafka, admin, address.topic, left), address, seconds)


def topic_id(admin: Any, address: TopicAddress, seconds: float) -> str:
    """The id of a topic, for one question.

    Raises:
        SourceError: as `describe`.
    """
    return _response(lambda kafka, left: str(_about(kafka, admin, address.topic, left).topic_id), address, seconds)


def _response(ask: Callable[[Any, float], Response], address: TopicAddress, seconds: float) -> Response:
    """What the cluster answers, asked again while it says that it is not ready."""
    kafka = librdkafka()
    end = time.monotonic() + seconds
    while True:
        try:
            return ask(kafka, max(1.0, end - time.monotonic()))
        except kafka.KafkaException as error:
            if time.monotonic() > end or error.args[0].code() not in _passing(kafka.KafkaError):
                raise _explained(kafka, error, address) from None
        time.sleep(_AGAIN)


def _passing(codes: Any) -> set[int]:
    """Errors of a moment: a partition's leader is being elected, or has just moved, and not all have heard of it."""
    return {
        codes.NOT_LEADER_FOR_PARTITION,
        codes.LEADER_NOT_AVAILABLE,
        codes.FENCED_LEADER_EPOCH,
        codes.UNKNOWN_LEADER_EPOCH,
        codes.OFFSET_NOT_AVAILABLE,
        codes.REPLICA_NOT_AVAILABLE,
        codes.BROKER_NOT_AVAILABLE,
        codes.KAFKA_STORAGE_ERROR,
        codes.REQUEST_TIMED_OUT,
        codes.NETWORK_EXCEPTION,
        codes.NOT_CONTROLLER,
        codes.COORDINATOR_NOT_AVAILABLE,
    }


def _describe(kafka: Any, admin: Any, name: str, seconds: float) -> Topic:
    """One answer of the cluster for the topic's identity, two for its offsets, one for its settings."""
    about = _about(kafka, admin, name, seconds)
    cluster = admin.describe_cluster(request_timeout=seconds).result().cluster_id
    numbers = [partition.id for partition in about.partitions]
    extents = _extents(kafka, admin, name, numbers, seconds)
    return Topic(cluster, str(about.topic_id), name, extents, _settings(admin, name, seconds))


def _about(kafka: Any, admin: Any, name: str, seconds: float) -> Any:
    """A topic's identity; who is refused need not wait until the time is over."""
    answer = admin.describe_topics(kafka.TopicCollection([name]), request_timeout=seconds)[name]
    while True:
        try:
            return answer.result(timeout=_AGAIN)
        except TimeoutError:
            admin.poll(0)  # which is where errors of connections are heard
        if admin.refusals:
            refused = kafka.KafkaError._AUTHENTICATION  # noqa: SLF001
            raise kafka.KafkaException(kafka.KafkaError(refused, admin.refusals[-1]))


def _extents(kafka: Any, admin: Any, topic: str, numbers: list[int], seconds: float) -> tuple[Extent, ...]:
    spec = librdkafka(_ADMIN).OffsetSpec

    places = [kafka.TopicPartition(topic, number) for number in numbers]
    stable = {"isolation_level": kafka.IsolationLevel.READ_COMMITTED, "request_timeout": seconds}
    lows = admin.list_offsets(dict.fromkeys(places, spec.earliest()), **stable)
    stops = admin.list_offsets(dict.fromkeys(places, spec.latest()), **stable)
    low = {place.partition: future.result().offset for place, future in lows.items()}
    stop = {place.partition: future.result() for place, future in stops.items()}
    if min(*low.values(), *(found.offset for found in stop.values())) < 0:  # what is answered while nobody leads
        raise kafka.KafkaException(kafka.KafkaError(kafka.KafkaError.LEADER_NOT_AVAILABLE))
    return tuple(
        Extent(n, low[n], stop[n].offset, -1 if stop[n].leader_epoch is None else stop[n].leader_epoch)
        for n in sorted(numbers)
    )


def _settings(admin: Any, topic: str, seconds: float) -> dict[str, str]:
    module = librdkafka(_ADMIN)
    resource = module.ConfigResource(module.ResourceType.TOPIC, topic)
    entries = admin.describe_configs([resource], request_timeout=seconds)[resource].result()
    return {name: entry.value for name, entry in entries.items() if not entry.is_sensitive}


def offsets_at(admin: Any, address: TopicAddress, milliseconds: int, topic: Topic, seconds: float) -> dict[int, int]:
    """For every partition the first offset whose timestamp is not earlier, or its end."""
    spec = librdkafka(_ADMIN).OffsetSpec

    kafka = librdkafka()
    places = [kafka.TopicPartition(address.topic, extent.partition) for extent in topic.extents]
    asked = admin.list_offsets(dict.fromkeys(places, spec.for_timestamp(max(1, milliseconds))), request_timeout=seconds)
    try:
        found = {place.partition: future.result().offset for place, future in asked.items()}
    except kafka.KafkaException as error:
        raise _explained(kafka, error, address) from None
    if min(found.values()) < kafka.OFFSET_END:
        raise mistakes.unreachable(address.servers, "Broker: Leader not available")
    ends = {extent.partition: extent.stop for extent in topic.extents}
    return {number: ends[number] if offset < 0 else min(offset, ends[number]) for number, offset in found.items()}


def _explained(kafka: Any, error: Any, address: TopicAddress) -> Exception:
    reason = error.args[0]
    if reason.code() == kafka.KafkaError.UNKNOWN_TOPIC_OR_PART:
        return mistakes.unknown(address.topic, address.servers)
    if reason.code() == kafka.KafkaError._AUTHENTICATION:  # noqa: SLF001
        return mistakes.refused(address.servers, reason.str())
    return mistakes.unreachable(address.servers, reason.str())

"""What the partitions of a snapshot say about the topic that they were taken of, and whether it is still so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from penstock.extensions.kafka import mistakes
from penstock.extensions.kafka.log import Extent, Topic
from penstock.values import Partition, Snapshot

_NEAR: Final = 0.1  # fraction of what is held: what retention takes next


def number_of(partition: str) -> int:
    """The number in a partition's name."""
    return int(partition.rpartition("/")[2])


def name_of(topic: Topic, extent: Extent) -> str:
    """A partition's name in snapshots."""
    return f"{topic.name}/{extent.partition}"


def _fingerprint(topic: Topic, extent: Extent) -> str:
    """Which log this is: the cluster, the topic's own id, and the leader epoch of its end."""
    return f"{topic.cluster} {topic.id} {extent.epoch}"


def epoch_of(partition: Partition) -> int:
    """The leader epoch of a partition's end when it was taken."""
    return int(partition.fingerprint.rpartition(" ")[2])


def snapshot_of(topic: Topic, partitions: list[Partition]) -> Snapshot:
    """A snapshot of some partitions of a topic."""
    return Snapshot(f"kafka://{topic.name}", tuple(partitions))


def taken(topic: Topic, extent: Extent, start: int, stop: int) -> Partition:
    """Offsets of a partition, once it is known that retention has left the first of them."""
    if start < extent.low and start < stop:
        raise mistakes.expired(topic.name, extent.partition, start, extent.low, topic.settings)
    return Partition(name_of(topic, extent), start, stop, _fingerprint(topic, extent))


def safe_start(topic: Topic, extent: Extent) -> int:
    """The first offset that retention will leave for a while yet."""
    limits = (topic.settings.get("retention.ms", "-1"), topic.settings.get("retention.bytes", "-1"))
    cuts = any(int(limit) >= 0 for limit in limits)
    return extent.low + (round(_NEAR * (extent.stop - extent.low)) if cuts else 0)


def compare(partitions: Sequence[Partition], topic: Topic, *, whole: bool = True) -> None:
    """Partitions must be of this topic, reach no further, and, if `whole`, still begin where they did."""
    extents = {name_of(topic, extent): extent for extent in topic.extents}
    for partition in partitions:
        _same_topic(topic, partition)
        extent = extents.get(partition.name)
        if extent is None:
            raise mistakes.no_partition(topic.name, partition.name)
        if whole and extent.low > partition.start and len(partition):
            raise mistakes.expired(topic.name, extent.partition, partition.start, extent.low, topic.settings)
        if extent.stop < partition.stop:
            raise mistakes.truncated(topic.name, extent.partition, partition.stop, extent.stop)


def _same_topic(topic: Topic, partition: Partition) -> None:
    cluster = partition.fingerprint.split(" ")[0]
    if cluster != topic.cluster:
        raise mistakes.replaced(topic.name, "cluster", cluster, topic.cluster)
    refuse_another(topic.name, topic.id, partition)


def refuse_another(topic: str, topic_id: str, partition: Partition) -> None:
    """A topic that was deleted and made again has the same name, and other records at the same offsets."""
    expected = partition.fingerprint.split(" ")[1]
    if expected != topic_id:
        raise mistakes.replaced(topic, "the topic with id", expected, topic_id)


def refuse_compacted(topic: Topic) -> None:
    """Compaction takes records out of the middle of a topic, so what is read is not what was there."""
    if "compact" in (found := topic.settings.get("cleanup.policy", "delete")):
        raise mistakes.compacted(topic.name, found)

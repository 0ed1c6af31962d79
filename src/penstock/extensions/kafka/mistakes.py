"""The errors of topics, in one voice for Kafka and the fake."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.errors import AwayError, EmptySourceError, ExpiredError, SourceError, UnknownSourceError

_HOUR: Final = 3_600_000
_CHECK_BROKER: Final = "Check the address, that the broker runs, and the settings in PENSTOCK_KAFKA_PROPERTIES"
_NEW_RUN: Final = "start a new run from its weights with --init RUN"


def expired(topic: str, partition: int, start: int, low: int, settings: Mapping[str, str]) -> ExpiredError:
    """Retention has deleted offsets that are needed."""
    return ExpiredError(
        f"{topic}/{partition}",
        expected=f"offsets from {start:,} on",
        found=f"offsets from {low:,} on",
        remedy=f"These records are lost: {_NEW_RUN}. Next time keep records longer (retention.ms, retention.bytes), or "
        "copy the topic to shards with penstock pull",
        message=f"{topic}/{partition}: the offsets {start:,} to {low - 1:,} are needed, but deleted "
        f"({policy(settings)}).",
    )


def policy(settings: Mapping[str, str]) -> str:
    """What a topic keeps, as people say it."""
    kept = []
    if (age := int(settings.get("retention.ms", "-1"))) >= 0:
        kept.append(f"records for {age / _HOUR:g} hours")
    if (size := int(settings.get("retention.bytes", "-1"))) >= 0:
        kept.append(f"{size:,} bytes a partition")
    return f"the topic keeps {' and '.join(kept)}" if kept else "records were deleted by hand, as the topic keeps all"


def truncated(topic: str, partition: int, stop: int, found: int) -> SourceError:
    """The end of the log was lost."""
    return SourceError(
        f"{topic}/{partition}",
        expected=f"offsets up to {stop - 1:,}",
        found=f"an end at {found:,}",
        remedy=f"The broker lost records (an unclean leader election?). Restore them, or {_NEW_RUN}",
    )


def rewritten(topic: str, partition: int, offset: int, epoch: int, found: int) -> SourceError:
    """An offset of the snapshot was written again, by a later leader."""
    return SourceError(
        f"{topic}/{partition}#{offset}",
        expected=f"a record written in leader epoch {epoch} or before",
        found=f"one of epoch {found}",
        remedy=f"The broker lost records and wrote others in their place. Restore them, or {_NEW_RUN}",
    )


def replaced(topic: str, what: str, expected: str, found: str) -> SourceError:
    """Another topic or cluster behind the same name."""
    return SourceError(
        topic,
        expected=f"{what} {expected}",
        found=found,
        remedy=f"Name the cluster and the topic that the run was started with, or {_NEW_RUN}",
    )


def no_partition(topic: str, name: str) -> SourceError:
    """A partition that the snapshot names is not there."""
    return SourceError(
        topic,
        expected=f"a partition {name}",
        found="none of that name",
        remedy="Read the partitions that the snapshot names",
    )


def compacted(topic: str, found: str) -> SourceError:
    """A topic whose content changes by itself."""
    return SourceError(
        topic,
        expected="a topic that keeps its records (cleanup.policy=delete)",
        found=f"cleanup.policy={found}: compaction removes records between epochs",
        remedy="Set cleanup.policy=delete, or publish the records to another topic",
    )


def nothing(topic: str) -> EmptySourceError:
    """An empty snapshot."""
    return EmptySourceError(
        topic,
        expected="at least one record",
        found="none between the start and the end of the snapshot",
        remedy="Publish some with penstock publish, or choose another --from and --until",
    )


def stalled(topic: str, partition: int, position: int, seconds: float, reason: str) -> SourceError:
    """The broker was away for too long."""
    return SourceError(
        f"{topic}/{partition}",
        expected=f"offset {position:,} within {seconds:.0f} seconds",
        found=f"nothing ({reason})",
        remedy="Bring the broker back, then go on with --resume; no record is lost",
    )


def unreachable(servers: str, reason: str) -> AwayError:
    """No broker answers."""
    return AwayError(
        f"kafka://{servers}",
        expected="a broker that answers",
        found=reason,
        remedy=_CHECK_BROKER,
        message=f"kafka://{servers}: no broker answers ({reason}).",
    )


def refused(servers: str, reason: str) -> AwayError:
    """A broker does not accept who asks."""
    remedy = "Check user and password in PENSTOCK_KAFKA_PROPERTIES, or in the PENSTOCK_KAFKA_... variables"
    return AwayError(
        f"kafka://{servers}",
        expected="a broker that accepts the credentials",
        found=reason,
        remedy=remedy,
        message=f"kafka://{servers}: the broker refuses the credentials ({reason}).",
    )


def unknown(topic: str, servers: str) -> UnknownSourceError:
    """No such topic."""
    return UnknownSourceError(
        f"kafka://{servers}/{topic}",
        expected="a topic of that name",
        found="none",
        remedy="Check the name, or publish to it with penstock publish DIR URL --create",
    )

"""Kafka topics: how they are made, and their records as shards."""

from __future__ import annotations

from penstock.datasets.locations import Creation
from penstock.errors import DatasetError

_RECORD = 16  # MiB of the largest record


def creation(
    shards: int,
    partitions: int | None,
    replicas: int | None,
    retention: float | None,
    max_size: int | None,
    *,
    create: bool,
) -> Creation | None:
    """How a topic is made; None for one that is there.

    Args:
        shards: of the split that goes into it.
        partitions: by default one per shard.
        replicas: of every partition; by default the cluster's.
        retention: hours after which records are deleted; by default never.
        max_size: the largest record, in MiB; by default 16.
        create: whether it is made.

    Raises:
        DatasetError: an option for a new topic is given without `create`.
    """
    if create:
        return Creation(partitions or shards, replicas, retention or None, (max_size or _RECORD) << 20)
    given = {"partitions": partitions, "replicas": replicas, "retention": retention, "max-size": max_size}
    options = [f"--{name}" for name, value in given.items() if value is not None]
    if options:
        raise DatasetError(
            ", ".join(options),
            remedy="Add --create, or change the topic that there is with Kafka's own tools",
            message=f"{' and '.join(options)} can only be given for a new topic.",
        )
    return None

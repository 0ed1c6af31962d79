"""publish, pull."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

import penstock as ps
from penstock.cli.options import Trust
from penstock.cli.raw_options import Some
from penstock.progress import Progress, counted

Target = Annotated[str, Parameter(help="kafka://HOST:PORT/TOPIC. Splits other than train go to TOPIC.SPLIT.")]
Origin = Annotated[str, Parameter(help="kafka://HOST:PORT/TOPIC. Splits other than train are in TOPIC.SPLIT.")]
Start = Annotated[
    str,
    Parameter(
        name="--from",
        help="Start of the snapshot: earliest, a time, or offsets as PARTITION:OFFSET, such as 0:100,1:250.",
    ),
]
Until = Annotated[
    str, Parameter(name="--until", help="End of the snapshot: a time, or offsets. By default the current end.")
]


def publish(
    dataset: Annotated[str, Parameter(help="A packed dataset.")], topic: Target, /, *,
    split: Annotated[
        list[str] | None, Parameter(help="Split to publish. By default all. May be repeated.")
    ] = None,
    create: Annotated[bool, Parameter(help="Create the topics if they do not exist.")] = False,
    partitions: Annotated[
        int | None, Parameter(validator=Some, help="Partitions of a new topic. By default one per shard.")
    ] = None,
    replicas: Annotated[
        int | None, Parameter(validator=Some, help="Replication factor of a new topic. By default the cluster's.")
    ] = None,
    retention: Annotated[
        float | None, Parameter(help="Retention of a new topic in hours. By default 0: no limit.")
    ] = None,
    max_size: Annotated[
        int | None, Parameter(validator=Some, help="Largest record of a new topic, in MiB. By default 16.")
    ] = None,
    trust: Trust = False,
) -> None:  # fmt: skip
    """Send a packed dataset to Kafka topics, and read it back to compare.

    After a kill, publish again: it continues where it stopped, and sends no record twice.
    """
    data = ps.open(dataset, trust=trust)
    for name in split or data.splits:
        with Progress(f"publish {name}", "records") as progress:
            found = data[name].publish(
                topic, create=create, partitions=partitions, replicas=replicas, retention=retention, max_size=max_size,
                progress=progress,
            )  # fmt: skip
        print(
            f"{name}: {counted(found.records, 'record')} in topic {found.topic}, {found.sent:,} sent now, all read back"
        )
        print(f"  {found.about}")


def pull(
    topic: Origin, /, *,
    output: Annotated[Path, Parameter(name=["--output", "-o"], help="Folder to fill.")],
    split: Annotated[
        list[str] | None, Parameter(help="Split to pull. By default train. May be repeated.")
    ] = None,
    start: Start = "", until: Until = "",
    shard_size: Annotated[int, Parameter(validator=Some, help="Approximate size of a shard in MiB.")] = 64,
) -> None:  # fmt: skip
    """Write a snapshot of Kafka topics to TFRecord shards, to train from local disk."""
    with Progress("pull", "offsets") as progress:
        pulled = ps.pull(
            topic, output, splits=split or ["train"], start=start, until=until, shard_size=shard_size, progress=progress
        )
    for name, found in pulled.opened.description.splits.items():
        print(f"{name}: {counted(found.records, 'record')} in {counted(len(found.shards), 'shard')}")
    print(f"dataset {output}")

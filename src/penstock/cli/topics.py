"""publish, pull."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter, validators

from penstock.cli.data import Trust
from penstock.custom import carried
from penstock.datasets import FolderDataset, TopicDataset
from penstock.datasets import publish as publish_split
from penstock.datasets import pull as pull_splits
from penstock.datasets.topic_format import topic_of
from penstock.errors import DatasetError
from penstock.progress import Progress, counted
from penstock.sources.kafka import Address, KafkaLog, parse_range
from penstock.sources.kafka.producer import Creation

Some = validators.Number(gte=1)
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
    dataset: Annotated[Path, Parameter(help="A packed dataset.")], topic: Target, /, *,
    split: Annotated[
        list[str] | None, Parameter(help="Split to publish. By default all. May be repeated.", negative="")
    ] = None,
    create: Annotated[bool, Parameter(help="Create the topics if they do not exist.", negative="")] = False,
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
    said = {"--partitions": partitions, "--replicas": replicas, "--retention": retention, "--max-size": max_size}
    if not create and (named := [option for option, value in said.items() if value is not None]):
        raise DatasetError(
            ", ".join(named),
            expected="--create",
            found="a topic that exists",
            remedy="Add --create",
            message=f"{' and '.join(named)} can only be given for a new topic. Add --create, or change the topic that "
            "there is with Kafka's own tools.",
        )
    if trust:
        carried.trust_folder(dataset)
    opened = FolderDataset.open(dataset)
    address = Address.parse(topic)
    for name in split or opened.description.splits:
        shards = len(opened.split(name).shards)
        new = Creation(partitions or shards, replicas, retention or None, (max_size or 16) << 20)
        with Progress(f"publish {name}", "records") as progress:
            found = publish_split(opened, address, name, new if create else None, progress=progress)
        print(
            f"{name}: {counted(found.records, 'record')} in topic {found.topic}, {found.sent:,} sent now, all read back"
        )
        _state(address, found.topic)


def _state(address: Address, topic: str) -> None:
    """What the topic is like: people should know what it will do with their records."""
    found = KafkaLog(Address(address.servers, topic)).topic()
    days = int(found.settings.get("retention.ms", "-1"))
    kept = "for ever" if days < 0 else f"for {days / 3_600_000:g} hours"
    size = int(found.settings.get("max.message.bytes", "0"))
    print(f"  {counted(len(found.extents), 'partition')}, records of at most {size:,} bytes, kept {kept}")


def pull(
    topic: Origin, /, *,
    output: Annotated[Path, Parameter(name=["--output", "-o"], help="Folder to fill.")],
    split: Annotated[
        list[str] | None, Parameter(help="Split to pull. By default train. May be repeated.", negative="")
    ] = None,
    start: Start = "", until: Until = "",
    shard_size: Annotated[int, Parameter(validator=Some, help="Approximate size of a shard in MiB.")] = 64,
) -> None:  # fmt: skip
    """Write a snapshot of Kafka topics to TFRecord shards, to train from local disk."""
    splits = split or ["train"]
    if (start or until) and splits != ["train"]:
        raise DatasetError(
            "--from, --until",
            expected="--split train",
            found=", ".join(splits),
            remedy="Pull the other splits by themselves, whole",
            message=f"--from and --until select records of the topic of train, but --split names {', '.join(splits)}. "
            "Pull the other splits by themselves, whole.",
        )
    address = Address.parse(topic)
    dataset = TopicDataset(address, parse_range(KafkaLog(address), start, until))
    with Progress("pull", "offsets") as progress:
        pulled = pull_splits(dataset, output, splits, shard_bytes=shard_size << 20, progress=progress)
    for name, found in pulled.description.splits.items():
        print(f"{name}: {counted(found.records, 'record')} in {counted(len(found.shards), 'shard')}")
    print(f"dataset {output}")


def describe(url: str) -> str:
    """A topic as `inspect` says it."""
    dataset = TopicDataset(Address.parse(url))
    about = dataset.description
    lines = [f"{url}: {about.task}, records in Kafka"]
    lines.append(f"classes ({len(about.classes)}): {', '.join(about.classes)}")
    lines.append(f"ignore label: {about.ignore_label}")
    for split in dataset.splits:
        snapshot = dataset.source(split).snapshot()
        topic = topic_of(dataset.address.topic, split)
        found = dataset.split(split)
        lines.append(
            f"{split}: {counted(len(snapshot), 'offset')} in topic {topic}, height x width at most {found.height} x "
            f"{found.width}"
        )
        lines += [f"  {part.name:<24} {part.start:>12,} to {part.stop:>12,}" for part in snapshot.partitions]
    return "\n".join(lines)

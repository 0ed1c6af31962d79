"""A packed dataset in Kafka: its splits are topics, described by their first records."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from penstock.custom import import_path_of
from penstock.datasets.class_lists import check_letters
from penstock.datasets.description import Description, SplitInfo, check_task
from penstock.datasets.verification import Verdict
from penstock.errors import DatasetError, EmptySourceError, SourceError, UnknownSourceError
from penstock.extensions.kafka.client import KafkaLog
from penstock.extensions.kafka.log import Log, Message
from penstock.extensions.kafka.mistakes import nothing
from penstock.extensions.kafka.ranges import Range
from penstock.extensions.kafka.settings import TopicAddress
from penstock.extensions.kafka.source import KafkaSource, together
from penstock.extensions.kafka.topic_format import ABOUT, About, parsed, topic_of
from penstock.extensions.kafka.verification import verify_topics
from penstock.progress import silent
from penstock.values import Snapshot

_LOOKED_AT: Final = 64  # offsets among which the first record must be, behind holes
_BLOCK_BYTES: Final = 16 << 20
_WINDOW_BYTES: Final = 64 << 20


class TopicState(NamedTuple):
    """What was found of a training split: what it holds, and the number of its offsets."""

    about: About
    records: int

    @classmethod
    def of(cls, first_record: Mapping[str, Any]) -> TopicState:
        """What `TopicDataset.first_record` gave.

        Raises:
            DatasetError: it is something else.
        """
        try:
            about = msgspec.convert({name: value for name, value in first_record.items() if name != "records"}, About)
            return cls(about, int(first_record["records"]))
        except (msgspec.ValidationError, KeyError, TypeError, ValueError):
            raise DatasetError(
                "data.json",
                expected="what the first record of a topic says",
                found="something else",
                remedy="Restore the file from a copy of the run",
            ) from None


@dataclass(frozen=True)
class TopicDataset:
    """A dataset whose splits are topics.

    Attributes:
        address: of the topic that holds the training split.
        range: the part of it to train on.
        known: what its first record said before; it may have been deleted since.
        open_log: how a topic is reached.
    """

    address: TopicAddress
    range: Range = Range()  # noqa: RUF009 - frozen
    known: TopicState | None = None
    open_log: Callable[[TopicAddress], Log] = KafkaLog

    @property
    def folder(self) -> str:
        """Where the dataset is, for messages."""
        return str(self.address)

    @property
    def name(self) -> str:
        """The name of the topic."""
        return self.address.topic

    @property
    def medium(self) -> str:
        """What keeps its records, in words."""
        return "Kafka"

    @property
    def manifest(self) -> None:
        """Topics have none."""
        return

    def place(self, split: str) -> str:
        """Where the records of a split are, in words."""
        return f"topic {topic_of(self.address.topic, split)}"

    @cached_property
    def description(self) -> Description:
        """What the topics hold, as the first record of the training split says it.

        Raises:
            DatasetError: it does not say it.
            SourceError: it cannot be read.
        """
        about, records = self.known or (self._about("train"), len(self.source("train").snapshot()))
        check_letters(about.classes, self.folder)
        if (
            import_path_of(about.task) is None
        ):  # those of a custom kind may be trained on with the task that has its code
            check_task(about.task, self.folder, {})
        state = hashlib.blake2b(
            "\n".join((about.task, *about.classes, str(about.ignore_label))).encode(), digest_size=16
        )
        splits = {"train": _split(about, records, len(about.classes))}
        return Description(
            about.task,
            about.classes,
            about.ignore_label,
            splits,
            "a Kafka topic",
            state.hexdigest(),
            channels=about.channels,
            bits=about.bits,
            mean=about.mean,
            std=about.std,
            modalities=about.modalities,
            original=about.original,
            mapping=about.mapping,
            value_range=about.value_range,
            colors=about.colors,
        )

    def split(self, name: str) -> SplitInfo:
        """One split's description.

        Raises:
            DatasetError: there is no such topic.
        """
        described = self._described  # looked at once: to look is to take a new snapshot
        if name in self.description.splits:
            return self.description.splits[name]
        try:
            if name not in described:
                about = self._about(name)
                described[name] = _split(about, len(self.source(name).snapshot()), len(about.classes))
            return described[name]
        except SourceError as error:
            raise DatasetError(
                self.folder,
                expected=f"a topic {topic_of(self.address.topic, name)} for the split {name}",
                found=str(error.found),
                remedy="Publish the split, or evaluate nothing with --set data.validation=''",
            ) from error

    def source(self, split: str) -> KafkaSource:
        """The records of one split; the same source whenever asked, as it keeps blocks and connections."""
        if split not in self._sources:
            address = replace(self.address, topic=topic_of(self.address.topic, split))
            self._sources[split] = KafkaSource(self.open_log(address), self.range if split == "train" else Range())
        return self._sources[split]

    def snapshot(self, split: str, source: KafkaSource, pinned: Snapshot | None = None) -> Snapshot:
        """What a split holds now, or a snapshot of before, once it is known to be there still.

        Raises:
            SourceError: it is not.
        """
        return source.pin(pinned) if pinned else source.snapshot()

    @cached_property
    def splits(self) -> tuple[str, ...]:
        """The splits that are there: train, and of val and test those that have a topic.

        Raises:
            DatasetError: one of them cannot be read.
        """
        found = [*self.description.splits]
        for name in ("val", "test"):
            try:
                self.split(name)
            except DatasetError as error:
                if not isinstance(error.__cause__, UnknownSourceError | EmptySourceError):
                    raise
                continue
            found.append(name)
        return tuple(found)

    def verify(
        self, splits: Sequence[str] = (), *, threads: int = 0, progress: Callable[[int, int], None] = silent
    ) -> Verdict:
        """Read every record of some splits, by default of all."""
        return verify_topics(self, splits or self.splits, progress=progress)

    def shuffle(self, split: str) -> tuple[int, int]:
        """Block and window of a shuffle. A block is about 16 MiB, which is read as fast as the topic without shuffling;
        a window about 64 MiB, so that the one that is used and the next one fit into memory together.
        """
        size = self.source(split).record_bytes
        block = together(size, _BLOCK_BYTES, 1024)
        return block, max(2, min(64, _WINDOW_BYTES // (block * size)))

    def occurrences(self, split: str) -> NDArray[np.bool_]:
        """Topics do not say which classes their records have.

        Raises:
            DatasetError: always.
        """
        raise DatasetError(
            f"{self.folder} ({split})",
            expected="a packed folder, for data.repeat_threshold",
            found="a topic, which does not list the classes of its records",
            remedy="Leave data.repeat_threshold out, or get the records with penstock pull",
        )

    @property
    def first_record(self) -> Mapping[str, Any] | None:
        """What the first record says: it may be deleted before the run is resumed."""
        split = self.description.splits["train"]
        return {**asdict(About.of(self.description, split)), "records": split.records}

    @cached_property
    def _sources(self) -> dict[str, KafkaSource]:
        return {}

    @cached_property
    def _described(self) -> dict[str, SplitInfo]:
        return {}

    def _about(self, split: str) -> About:
        source = self.source(split)
        messages = first_messages(source)
        if not messages:
            raise nothing(source.log.name)
        for message in messages:
            for name, value in message.headers:
                if name == ABOUT:
                    return parsed(value, source.log.name)
            break
        raise DatasetError(
            f"kafka://{source.log.name}",
            expected=f"a header {ABOUT} in the first record, that names task and classes",
            found="none",
            remedy="Publish with penstock publish, or add the header where the records are produced (docs/kafka.md)",
        )


def first_messages(source: KafkaSource) -> list[Message]:
    """The messages at the beginning of a topic's first partition that holds some."""
    for partition in source.snapshot().partitions:
        stop = min(partition.stop, partition.start + _LOOKED_AT)
        if found := [m for m in source.messages(partition.name, partition.start, stop) if m.value is not None]:
            return found
    return []


def _split(about: About, records: int, classes: int) -> SplitInfo:
    return SplitInfo(records, (), about.height, about.width, (0,) * classes, objects=about.objects, slices=about.slices)

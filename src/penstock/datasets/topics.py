"""A packed dataset in Kafka: a topic per split, every record carrying the dataset's description in a header.

The format, which any producer may write: the value is a `tf.train.Example` with the keys of `records.schema`; the
headers are `penstock-origin` (text), `penstock-digest` (BLAKE2b of the value, 32 hexadecimal digits) and
`penstock-dataset` (JSON: task, classes, ignore_label, height, width; perhaps channels, slices, modalities, original).
Only the last one is needed, and only in the first record of a snapshot.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from penstock.datasets.description import Description, Split, check_task
from penstock.datasets.listing import check_letters
from penstock.errors import DatasetError, SourceError
from penstock.sources.kafka import Address, KafkaLog, KafkaSource, Range, nothing

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.sources.kafka import Log, Message
    from penstock.values import Snapshot

ORIGIN: Final = "penstock-origin"
DIGEST: Final = "penstock-digest"
ABOUT: Final = "penstock-dataset"
_LOOKED_AT: Final = 64  # offsets among which the first record must be, behind holes


@dataclass(frozen=True)
class About:
    """What a record says of its dataset.

    Attributes:
        task: "segmentation", "matting", "classification", "detection" or "volumes".
        classes: names by id.
        ignore_label: the id that does not count.
        height, width: the largest upright image's, each by itself, in pixels.
        channels: of the images.
        slices: the most in a volume; 0 where the records are images.
        modalities: of the volumes that the records were made from; 0 where there were none.
        original: of every class, the id that it had in the raw masks; empty where it was the same.
        mapping: of raw ids, old to new, as they were packed.
        objects: the most boxes of an image; 0 where nobody counted.
    """

    task: str
    classes: tuple[str, ...]
    ignore_label: int = 255
    height: int = 0
    width: int = 0
    channels: int = 3
    slices: int = 0
    modalities: int = 0
    original: tuple[int, ...] = ()
    mapping: tuple[tuple[int, int], ...] = ()
    objects: int = 0

    @classmethod
    def of(cls, described: Description, split: Split) -> About:
        """What the records of a split say."""
        return cls(
            described.task,
            described.classes,
            described.ignore_label,
            split.height,
            split.width,
            described.channels,
            split.slices,
            described.modalities,
            described.original,
            described.mapping,
            split.objects,
        )

    def encoded(self) -> bytes:
        """As JSON; what says nothing is left out."""
        unsaid = {"channels": 3, "slices": 0, "modalities": 0, "original": (), "mapping": (), "objects": 0}
        return msgspec.json.encode({k: v for k, v in asdict(self).items() if unsaid.get(k) != v})


def topic_of(base: str, split: str) -> str:
    """The topic that holds a split: `train` is in the one that is named, others in topics beside it."""
    return base if split == "train" else f"{base}.{split}"


def digest(payload: bytes) -> bytes:
    """The digest of a record, as its header says it."""
    return hashlib.blake2b(payload, digest_size=16).hexdigest().encode()


class Known(NamedTuple):
    """What was found of a training split: what it holds, and the number of its offsets."""

    about: About
    records: int


@dataclass(frozen=True)
class TopicDataset:
    """A dataset whose splits are topics.

    Attributes:
        address: of the topic that holds the training split.
        range: the part of it to train on.
        known: what its first record said before; it may have been deleted since.
        open_log: how a topic is reached.
    """

    address: Address
    range: Range = Range()  # noqa: RUF009 - frozen
    known: Known | None = None
    open_log: Callable[[Address], Log] = KafkaLog

    @property
    def folder(self) -> str:
        """Where the dataset is, for messages."""
        return str(self.address)

    @property
    def name(self) -> str:
        """The topic's."""
        return self.address.topic

    @cached_property
    def description(self) -> Description:
        """What the topics hold, as the first record of the training split says it.

        Raises:
            DatasetError: it does not say it.
            SourceError: it cannot be read.
        """
        about, records = self.known or (self._about("train"), len(self.source("train").snapshot()))
        check_letters(about.classes, self.folder)
        check_task(about.task, self.folder)
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
            modalities=about.modalities,
            original=about.original,
            mapping=about.mapping,
        )

    def split(self, name: str) -> Split:
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
                remedy="Publish the split, or evaluate nothing with --set data.validation=",
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
        del split
        return source.pin(pinned) if pinned else source.snapshot()

    @cached_property
    def _sources(self) -> dict[str, KafkaSource]:
        return {}

    @cached_property
    def _described(self) -> dict[str, Split]:
        return {}

    def _about(self, split: str) -> About:
        source = self.source(split)
        messages = first_messages(source)
        if not messages:
            raise nothing(source.log.name)
        for message in messages:
            for name, value in message.headers:
                if name == ABOUT:
                    return _parsed(value, source.log.name)
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


def _parsed(value: bytes, topic: str) -> About:
    try:
        return msgspec.json.decode(value, type=About)
    except msgspec.DecodeError as error:
        raise DatasetError(
            f"kafka://{topic}",
            expected=f"a description of the dataset in the header {ABOUT}",
            found=str(error),
            remedy="Fix the producer: docs/kafka.md gives the format",
        ) from None


def _split(about: About, records: int, classes: int) -> Split:
    return Split(records, (), about.height, about.width, (0,) * classes, objects=about.objects, slices=about.slices)

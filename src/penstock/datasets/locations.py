"""Where a dataset is: nobody else looks at the scheme of a URI."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from penstock.datasets.description import FolderDataset
from penstock.datasets.topics import TopicDataset
from penstock.errors import DatasetError
from penstock.sources.kafka import KafkaLog, TopicAddress, is_topic, parse_range

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from penstock.datasets.description import Description, SplitInfo
    from penstock.datasets.topics import TopicState
    from penstock.datasets.verification import Verdict
    from penstock.values import Snapshot


class Dataset(Protocol):
    """A packed dataset, wherever it is."""

    @property
    def name(self) -> str:
        """A short name, for run folders."""
        ...

    @property
    def folder(self) -> Path | str:
        """Where it is, for messages."""
        ...

    @property
    def medium(self) -> str:
        """What keeps its records, in words."""
        ...

    def place(self, split: str) -> str:
        """Where the records of a split are, in words."""
        ...

    @property
    def description(self) -> Description:
        """What it holds.

        Raises:
            DatasetError: it does not say it.
            SourceError: it cannot be read.
        """
        ...

    @property
    def splits(self) -> tuple[str, ...]:
        """The names of its splits."""
        ...

    @property
    def first_record(self) -> TopicState | None:
        """What the first record says, if nothing else describes the dataset."""
        ...

    def occurrences(self, split: str) -> NDArray[np.bool_]:
        """Which classes every record of a split has: bool (records, classes), in the snapshot's order.

        Raises:
            DatasetError: nobody wrote it down.
        """
        ...

    def split(self, name: str) -> SplitInfo:
        """One split's description.

        Raises:
            DatasetError: there is no such split.
        """
        ...

    def source(self, split: str) -> Any:
        """The records of one split."""
        ...

    def snapshot(self, split: str, source: Any, pinned: Snapshot | None = None) -> Snapshot:
        """What a split holds now, or a snapshot of before, once it is known to be there still.

        Raises:
            PenstockError: it is not.
        """
        ...

    def verify(
        self, splits: Sequence[str] = (), *, threads: int = 4, progress: Callable[[int, int], None] = ...
    ) -> Verdict:
        """Read every record of some splits, by default of all."""
        ...


@dataclass(frozen=True)
class Location:
    """A folder of shards.

    Attributes:
        uri: as people wrote it.
    """

    uri: str

    remote: ClassVar[bool] = False
    """Whether asking for it reaches over the network."""

    grows: ClassVar[bool] = False
    """Whether records may be added, and a part of them be named by time or offset."""

    chooser: ClassVar[str] = "folder"
    """What chose `defaults`."""

    defaults: ClassVar[Mapping[str, Any]] = {}
    """Settings of a recipe that are better for it than the general ones, named as `section.key`."""

    @property
    def exists(self) -> bool:
        """Whether something is there, as far as can be seen without reaching for it."""
        return Path(self.uri).exists()

    def absolute(self) -> Location:
        """The same place, from any folder."""
        return Location(str(Path(self.uri).resolve()))

    def beside(self, folder: Path) -> Location:
        """The place, counted from a folder."""
        return Location(str(folder / self.uri))

    def open(self, start: str = "", until: str = "", known: TopicState | None = None) -> Dataset:
        """The dataset that is there.

        Args:
            start: where the part to train on begins, if it grows.
            until: where it ends.
            known: what its first record said before.

        Raises:
            DatasetError: there is none.
            SourceError: it cannot be reached.
        """
        del start, until, known
        return FolderDataset.open(Path(self.uri))

    def shuffle(self, split: str, start: str = "", until: str = "") -> tuple[int, int]:
        """Block and window of a shuffle of a split, where a recipe leaves them open: shards are read record by record.

        Raises:
            SourceError: it cannot be reached.
        """
        del split, start, until
        return 1, 1


@dataclass(frozen=True)
class TopicLocation(Location):
    """Topics of a Kafka cluster: kafka://HOST:PORT/TOPIC."""

    remote = True
    grows = True
    chooser = "topic"
    defaults: ClassVar[Mapping[str, Any]] = {"data.block": 0}  # chosen by the size of its records

    @property
    def exists(self) -> bool:
        """Not known until it is reached for."""
        return True

    def absolute(self) -> Location:
        """Itself."""
        return self

    def beside(self, folder: Path) -> Location:
        """Itself."""
        del folder
        return self

    def open(self, start: str = "", until: str = "", known: TopicState | None = None) -> Dataset:
        """The dataset that is there."""
        return self._dataset(start, until, known)

    def shuffle(self, split: str, start: str = "", until: str = "") -> tuple[int, int]:
        """Block and window that are chosen by the size of its records."""
        return self._dataset(start, until).shuffle(split)

    def _dataset(self, start: str, until: str, known: TopicState | None = None) -> TopicDataset:
        address = TopicAddress.parse(self.uri)
        return TopicDataset(address, parse_range(KafkaLog(address), start, until), known)


def locate(uri: str | os.PathLike[str]) -> Location:
    """Where a URI leads.

    Raises:
        DatasetError: its scheme is not supported.
    """
    if is_topic(uri):
        return TopicLocation(str(uri))
    scheme, separator, _ = str(uri).partition("://")
    if separator:
        raise DatasetError(
            str(uri),
            expected="a folder, or kafka://HOST:PORT/TOPIC",
            found=f"the scheme {scheme}://, which is not supported",
            remedy="Copy the dataset to a folder",
        )
    return Location(str(uri))

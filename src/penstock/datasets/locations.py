"""Where a dataset is. No other module interprets the scheme of a URI."""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from penstock.datasets.description import Description, FolderDataset, SplitInfo
from penstock.datasets.verification import Verdict
from penstock.errors import DatasetError, SourceError
from penstock.extending import brought, loaded
from penstock.values import Snapshot


class Dataset(Protocol):
    """A packed dataset, wherever it is."""

    @property
    def name(self) -> str:
        """A short name, for run folders."""

    @property
    def folder(self) -> Path | str:
        """Where it is, for messages."""

    @property
    def medium(self) -> str:
        """What keeps its records, in words."""

    def place(self, split: str) -> str:
        """Where the records of a split are, in words."""

    @property
    def description(self) -> Description:
        """What it holds.

        Raises:
            DatasetError: the dataset has no valid description.
            SourceError: it cannot be read.
        """

    @property
    def manifest(self) -> Path | None:
        """The file that names its records, with digests; None where there is none."""

    @property
    def splits(self) -> tuple[str, ...]:
        """The names of its splits."""

    @property
    def first_record(self) -> Mapping[str, Any] | None:
        """What the first record says, as JSON can hold it, if nothing else describes the dataset."""

    def occurrences(self, split: str) -> NDArray[np.bool_]:
        """Which classes every record of a split has: bool (records, classes), in the snapshot's order.

        Raises:
            DatasetError: nobody wrote it down.
        """

    def split(self, name: str) -> SplitInfo:
        """One split's description.

        Raises:
            DatasetError: there is no such split.
        """

    def source(self, split: str) -> Any:
        """The records of one split."""

    def snapshot(self, split: str, source: Any, pinned: Snapshot | None = None) -> Snapshot:
        """What a split holds now, or a snapshot of before, once it is known to be there still.

        Raises:
            PenstockError: it is not.
        """

    def verify(
        self, splits: Sequence[str] = (), *, threads: int = 0, progress: Callable[[int, int], None] = ...
    ) -> Verdict:
        """Read every record of some splits, by default of all."""


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

    def open(self, start: str = "", until: str = "", known: Mapping[str, Any] | None = None) -> Dataset:
        """The dataset that is there.

        Args:
            start: where the part to train on begins, if it grows.
            until: where it ends.
            known: the `first_record` of before, which may have been deleted since.

        Raises:
            DatasetError: there is none.
            SourceError: it cannot be reached.
        """
        return FolderDataset.open(Path(self.uri))

    def shuffle(self, split: str, start: str = "", until: str = "") -> tuple[int, int]:
        """Block and window of a shuffle of a split, where a recipe leaves them open: shards are read record by record.

        Raises:
            SourceError: it cannot be reached.
        """
        return 1, 1


@dataclass(frozen=True, slots=True)
class Creation:
    """How a stream is made.

    Attributes:
        partitions: how many.
        replicas: of every partition; None is the cluster's default.
        retention_hours: how long records are kept; None is for ever.
        max_bytes: the largest record that is accepted.
    """

    partitions: int = 1
    replicas: int | None = None
    retention_hours: float | None = None
    max_bytes: int = 16 << 20


@dataclass(frozen=True, slots=True)
class Published:
    """What is in a stream once a split was published.

    Attributes:
        topic: its name.
        records: in it.
        sent: of them, this time.
        about: what it does with records, in words.
    """

    topic: str
    records: int
    sent: int
    about: str


class Stream(Location, ABC):
    """Records that more are added to, over the network; an extension brings it, as for topics of Kafka."""

    remote = True
    grows = True
    chooser = "topic"

    @property
    def exists(self) -> bool:
        """Not known until it is reached for."""
        return True

    def absolute(self) -> Location:
        """Itself."""
        return self

    def beside(self, folder: Path) -> Location:
        """Itself."""
        return self

    @abstractmethod
    def publish(
        self, dataset: FolderDataset, split: str, creation: Creation | None, *, progress: Callable[[int, int], None]
    ) -> Published:
        """Send the records of a split, and read them back to compare.

        Args:
            dataset: a packed one.
            split: one of the dataset's.
            creation: how to make the stream if it is not there; None does not make it.
            progress: called with the records that are acknowledged, and those in all.
        """

    @abstractmethod
    def pull(
        self,
        output: Path,
        splits: Sequence[str],
        *,
        start: str,
        until: str,
        shard_bytes: int,
        progress: Callable[[int, int], None],
    ) -> FolderDataset:
        """Write the records of some splits to shards.

        Args:
            output: the folder to fill.
            splits: those to write.
            start: where the training split begins.
            until: where it ends.
            shard_bytes: about the size of a shard.
            progress: called with the offsets that are read, and those in all.
        """


@dataclass(frozen=True)
class Scheme:
    """Where datasets can be beside folders: an extension has one in its table `SCHEMES`, by the scheme of the URIs.

    Attributes:
        place: a class derived from `Stream`, as `package.module:NAME`.
        form: of its URIs, as messages say it.
    """

    place: str
    form: str


def locate(uri: str | os.PathLike[str]) -> Location:
    """Where a URI leads.

    Raises:
        DatasetError: its scheme is not supported.
    """
    if stream := _stream(str(uri)):
        return stream
    scheme, separator, _ = str(uri).partition("://")
    if separator:
        raise DatasetError(
            str(uri),
            expected=", or ".join(["a folder", *_forms()]),
            found=f"the scheme {scheme}://, which is not supported",
            remedy="Copy the dataset to a folder",
        )
    return Location(str(uri))


def stream_at(uri: str) -> Stream:
    """The stream that a URI leads to.

    Raises:
        SourceError: it leads to none.
    """
    if stream := _stream(uri):
        return stream
    raise SourceError(
        uri, expected=" or ".join(_forms()), found="another address", remedy="Write the address in this form"
    )


def _stream(uri: str) -> Stream | None:
    """What an extension has for the scheme of a URI; `Path` takes one of its two slashes away."""
    scheme = re.match(r"([a-z]+):/", uri)
    entry = brought("SCHEMES").get(scheme[1]) if scheme else None
    return cast("Stream", loaded(entry.place)(uri)) if entry else None


def _forms() -> list[str]:
    return [entry.form for entry in brought("SCHEMES").values()]

"""Where a dataset in topics is: kafka://HOST:PORT/TOPIC."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from penstock.datasets import Dataset, FolderDataset
from penstock.datasets.locations import Creation, Published, Stream
from penstock.extensions.kafka.client import KafkaLog
from penstock.extensions.kafka.dataset import TopicDataset, TopicState
from penstock.extensions.kafka.publishing import publish
from penstock.extensions.kafka.pulling import pull
from penstock.extensions.kafka.ranges import parse_range
from penstock.extensions.kafka.settings import TopicAddress


@dataclass(frozen=True)
class TopicLocation(Stream):
    """Topics of a Kafka cluster."""

    defaults: ClassVar[Mapping[str, Any]] = {"data.block": 0}  # chosen by the size of its records

    def open(self, start: str = "", until: str = "", known: Mapping[str, Any] | None = None) -> Dataset:
        """The dataset that is there."""
        return self._dataset(start, until, TopicState.of(known) if known else None)

    def shuffle(self, split: str, start: str = "", until: str = "") -> tuple[int, int]:
        """Block and window that are chosen by the size of its records."""
        return self._dataset(start, until).shuffle(split)

    def publish(
        self, dataset: FolderDataset, split: str, creation: Creation | None, *, progress: Callable[[int, int], None]
    ) -> Published:
        """Send the records of a split to the topic, or to one beside it that is named for the split."""
        return publish(dataset, TopicAddress.parse(self.uri), split, creation, progress=progress)

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
        """Write the records of some splits to shards, with a note of where every record came from."""
        return pull(self._dataset(start, until), output, splits, shard_bytes=shard_bytes, progress=progress)

    def _dataset(self, start: str, until: str, known: TopicState | None = None) -> TopicDataset:
        address = TopicAddress.parse(self.uri)
        return TopicDataset(address, parse_range(KafkaLog(address), start, until), known)

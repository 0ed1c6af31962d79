"""Reading every record of a topic back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.datasets.verification import Verdict
from penstock.errors import CorruptRecord, PenstockError
from penstock.extensions.kafka.topic_format import DIGEST, digest
from penstock.progress import silent
from penstock.values import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.extensions.kafka.dataset import TopicDataset
    from penstock.extensions.kafka.log import Message


def verify_topics(
    dataset: TopicDataset, splits: Sequence[str], *, progress: Callable[[int, int], None] = silent
) -> Verdict:
    """Read all records of some splits of a topic dataset, and compare each with its digest header where it has one."""
    sound, holes, faults = 0, 0, []
    snapshots = {split: dataset.source(split).snapshot() for split in splits}
    total = sum(len(snapshot) for snapshot in snapshots.values())
    for split, snapshot in snapshots.items():
        for partition in snapshot.partitions:
            there = 0
            for message in dataset.source(split).messages(partition.name, partition.start, partition.stop):
                if message.value is None:
                    continue
                there += 1
                try:
                    check_message(dataset, message, Record(f"{partition.name}#{message.offset}", message.value))
                    sound += 1
                except PenstockError as error:
                    faults.append(str(error))
                progress(sound + holes + len(faults), total)
            holes += len(partition) - there
    progress(total, total)
    return Verdict(sound, tuple(faults), holes)


def check_message(dataset: TopicDataset, message: Message, record: Record) -> None:
    """Hold a record against its digest, then decode it whole.

    Raises:
        DataError: something is wrong with it.
    """
    stated = next((value for name, value in message.headers if name == DIGEST), None)
    if stated is not None and stated != (found := digest(record.payload)):
        raise CorruptRecord(
            record.origin,
            expected=f"a record with digest {stated.decode(errors='replace')}",
            found=found.decode(),
            remedy="Something changed the record after it was published: publish it again",
        )
    dataset.description.kind.check(record, dataset.description)

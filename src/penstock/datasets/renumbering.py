"""Records with the class ids of another dataset, whose classes are the same ones by their names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from penstock.datasets.description import Description
from penstock.kinds import Kind
from penstock.sources.base import Source
from penstock.values import Record, Snapshot


@dataclass(frozen=True)
class Renumbered:
    """A source of records with other class ids. What is of a class that is not wanted does not count.

    Attributes:
        source: what holds the records.
        kind: the kind of the records.
        there: the description of their dataset.
        wanted: the description of the dataset whose class ids the records get.
    """

    source: Source
    kind: Kind
    there: Description
    wanted: Description

    def snapshot(self) -> Snapshot:
        """What the source holds now."""
        return self.source.snapshot()

    def read(self, partition: str, start: int, stop: int) -> Iterator[Record]:
        """The records `[start, stop)` of a partition, without those that do not count."""
        names = self.wanted.classes
        ids = {old: names.index(name) for old, name in enumerate(self.there.classes) if name in names}
        for record in self.source.read(partition, start, stop):
            payload = self.kind.renumbered(record, self.there, ids, self.wanted.ignore_label)
            if payload is not None:
                yield replace(record, payload=payload)


def differences(there: Description, wanted: Description) -> tuple[str, ...]:
    """Sentences on the classes that only one of two datasets has, of which the first is scored on."""
    new, gone = (
        ", ".join(name for name in one.classes if name not in other.classes)
        for one, other in ((there, wanted), (wanted, there))
    )
    notes = (f"classes not learnt, so that they do not count: {new}", f"classes learnt, but not in this data: {gone}")
    return tuple(note for note, names in zip(notes, (new, gone), strict=True) if names)

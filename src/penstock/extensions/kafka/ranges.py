"""Where in a topic to begin and to end, as people say it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass

from penstock.errors import SourceError
from penstock.extensions.kafka.log import Extent, Log


@dataclass(frozen=True)
class Range:
    """Which part of a topic: per partition the first offset and the one past the last; None is the topic's own."""

    starts: Mapping[int, int] | None = None
    stops: Mapping[int, int] | None = None

    def of(self, extent: Extent) -> tuple[int, int]:
        """The offsets of one partition, within what it holds; a start that is no longer held is left as it is."""
        stop = min((self.stops or {}).get(extent.partition, extent.stop), extent.stop)
        return min((self.starts or {}).get(extent.partition, extent.low), stop), stop

    def is_ahead(self, extent: Extent) -> bool:
        """Whether a partition does not reach the start yet."""
        return (self.starts or {}).get(extent.partition, 0) > extent.stop


def parse_range(log: Log, start: str, until: str) -> Range:
    """A range from words: `earliest` or nothing, a time such as `2026-11-21T08:00` (UTC unless it says otherwise), or
    offsets such as `0:100,1:250`.

    Raises:
        SourceError: the words are none of these.
    """
    return Range(_offsets(log, "--from", start), _offsets(log, "--until", until))


def _offsets(log: Log, option: str, words: str) -> dict[int, int] | None:
    if words in {"", "earliest"}:
        return None
    try:
        if all(part.replace(":", "", 1).isdecimal() and ":" in part for part in words.split(",")):
            pairs = [(int(number), int(offset)) for number, offset in (part.split(":") for part in words.split(","))]
            return _known(log, option, words, pairs)
        moment = dt.datetime.fromisoformat(words)
    except ValueError:
        raise SourceError(
            f"{option} {words}",
            expected="earliest, a time such as 2026-11-21T08:00, or offsets such as 0:100,1:250",
            found="none of these",
            remedy="Use one of these forms",
        ) from None
    return log.offsets_at(_milliseconds(moment))


def _known(log: Log, option: str, words: str, pairs: list[tuple[int, int]]) -> dict[int, int]:
    """The offsets by partition, once it is known that the topic has those."""
    there = {extent.partition for extent in log.topic().extents}
    if len(dict(pairs)) < len(pairs) or not set(dict(pairs)) <= there:
        raise SourceError(
            f"{option} {words}",
            expected=f"partitions of {log.name} ({', '.join(map(str, sorted(there)))}), each at most once",
            found=", ".join(str(number) for number, _ in pairs),
            remedy="Change the list",
        )
    return dict(pairs)


def _milliseconds(moment: dt.datetime) -> int:
    """Since 1970; in UTC unless it says otherwise."""
    moment = moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
    return int(moment.timestamp() * 1000)

"""`Chain`: the order of a source that grows, one snapshot after the other, each passed over once.

Every stage is a plan of its own over the records that came since the stage before. Where older records are to be mixed
in again, each global batch holds the same number of them, spread evenly over its places, so that every rank gets its
part; they are drawn without repetition within a stage, by a plan of their own.
"""

from __future__ import annotations

import bisect
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate

from penstock import seeds
from penstock.errors import PlanError
from penstock.order.plan import Plan, Shuffle
from penstock.values import Address, Cursor, Partition, Snapshot

_VERSION = 1


@dataclass(frozen=True)
class Stage:
    """One snapshot of a source that grows.

    Attributes:
        new: the records that came since the stage before. A partition that holds none says where the next stage begins.
        older: those that some of each batch are drawn from again; None draws none.
    """

    new: Snapshot
    older: Snapshot | None = None

    @property
    def together(self) -> Snapshot:
        """All that may be read in this stage: what is older ends where what is new begins."""
        parts = {partition.name: partition for partition in self.older.partitions} if self.older else {}
        for new in self.new.partitions:
            parts[new.name] = replace(new, start=parts.get(new.name, new).start)
        return Snapshot(self.new.source, tuple(parts.values()))


@dataclass(frozen=True)
class Chain:
    """Stage after stage, from position 0 to `end`.

    Attributes:
        stages: a whole number of global batches each (see `trimmed`).
        batch: the size of the global batch.
        mixed: how many samples of each global batch are older records, where a stage has some.
        seed: of the order.
        shuffle: within a stage.
    """

    stages: tuple[Stage, ...]
    batch: int
    mixed: int = 0
    seed: int = 0
    shuffle: Shuffle = Shuffle()  # noqa: RUF009 - frozen

    def __post_init__(self) -> None:
        if not 0 <= self.mixed < self.batch:
            message = f"{self.mixed} older records do not leave room for new ones in a batch of {self.batch}"
            raise ValueError(message)
        for number, stage in enumerate(self.stages):
            if not len(stage.new) or len(stage.new) % self.fresh(stage):
                message = f"stage {number} holds {len(stage.new)} records, no whole batches of {self.fresh(stage)}"
                raise ValueError(message)

    def fresh(self, stage: Stage) -> int:
        """How many samples of each global batch of a stage are new records."""
        return self.batch - (self.mixed if stage.older else 0)

    @property
    def end(self) -> int:
        """The first position behind the last stage."""
        return self._ends[-1] if self.stages else 0

    def __len__(self) -> int:
        return self.end

    def epoch(self, position: int) -> float:
        """How many stages a position has behind it."""
        if position >= self.end:
            return float(len(self.stages))
        number, local = self._place(position)
        return number + local / (self._ends[number] - self._first(number))

    def stage(self, position: int) -> int:
        """The number of the stage that a position lies in."""
        return self._place(position)[0]

    @cached_property
    def digest(self) -> str:
        """Names the order: equal digests give equal records at equal positions."""
        return self._digests[-1]

    @cached_property
    def _digests(self) -> list[str]:
        """The digests of the chain with no stage, with the first one, and so on."""
        state = hashlib.blake2b(digest_size=16)
        shuffle = f"{self.shuffle.block}/{self.shuffle.window}"
        state.update(f"chain {_VERSION}\n{self.seed}\n{shuffle}\n{self.batch}/{self.mixed}\n".encode())
        found = [state.hexdigest()]
        for stage in self.stages:
            older = stage.older.digest if stage.older else "-"
            state.update(f"{stage.new.digest} {older}\n".encode())
            found.append(state.hexdigest())
        return found

    def start(self, cursor: Cursor) -> int:
        """The position of a cursor, once it is known to belong to this chain, or to one that it continues.

        Raises:
            PlanError: the cursor counts in another one.
        """
        begun = bisect.bisect_left(self._ends, cursor.position) + 1  # stages that the position needs
        if cursor.plan not in ("", *self._digests[begun - (cursor.position == 0) :]):
            raise PlanError(
                f"position {cursor.position:,} of {len(self.stages)} snapshots",
                expected=f"a cursor of this order of records ({self.digest}), up to {self.end:,}",
                found=f"a cursor of another order ({cursor.plan})",
                remedy="The snapshots, the seed or the shuffle changed since the checkpoint. Restore them, or start a "
                "new run from its weights with --init RUN",
            )
        return cursor.position

    def at(self, position: int) -> Address:
        """The address of the record at a position below `end`."""
        number, local = self._place(position)
        stage, (new, older) = self.stages[number], self._plans(number)
        k, place = divmod(local, self.batch)
        mixed = self.batch - self.fresh(stage)
        before = place * mixed // self.batch  # older ones at lower places of the batch
        if older and (place + 1) * mixed // self.batch > before:
            return older.at(k * mixed + before)
        return new.at(k * (self.batch - mixed) + place - before)

    def reach(self, position: int, natural: int = 64) -> tuple[int, list[tuple[str, int, int]]]:
        """What will be wanted together with a position, in whole global batches. Stages are always shuffled."""
        number, local = self._place(position)
        fresh, (new, older) = self.fresh(self.stages[number]), self._plans(number)
        k = local // self.batch
        until = -(-new.reach(k * fresh)[0] // fresh)
        runs = _runs(new, k * fresh, until * fresh)
        if older:
            mixed = self.batch - fresh
            runs += _runs(older, k * mixed, until * mixed)
        return self._first(number) + until * self.batch, runs

    def _place(self, position: int) -> tuple[int, int]:
        number = bisect.bisect_right(self._ends, position)
        if number == len(self.stages):
            message = f"position {position} lies behind the end of the chain, {self.end}"
            raise IndexError(message)
        return number, position - self._first(number)

    def _first(self, number: int) -> int:
        return self._ends[number - 1] if number else 0

    @cached_property
    def _ends(self) -> list[int]:
        return list(accumulate(len(stage.new) // self.fresh(stage) * self.batch for stage in self.stages))

    def _plans(self, number: int) -> tuple[Plan, Plan | None]:
        if number not in self._made:
            stage = self.stages[number]
            own = Plan(stage.new, self._seed("new", number), self.shuffle)
            older = Plan(stage.older, self._seed("older", number), self.shuffle) if stage.older else None
            self._made[number] = own, older
        return self._made[number]

    def _seed(self, what: str, number: int) -> int:
        return seeds.below(2**63, seeds.key(self.seed, "stage", what, number))

    @cached_property
    def _made(self) -> dict[int, tuple[Plan, Plan | None]]:
        return {}


def _runs(plan: Plan, position: int, stop: int) -> list[tuple[str, int, int]]:
    """The runs of all windows that positions `[position, stop)` lie in."""
    runs = []
    while position < stop:
        position, more = plan.reach(position)
        runs += more
    return runs


def trimmed(snapshot: Snapshot, multiple: int) -> Snapshot:
    """A snapshot without its last few records, so that their number is a multiple.

    What is cut off the largest partition first is the beginning of the next snapshot, so none waits for long.
    """
    surplus = len(snapshot) % multiple
    stops = {}
    for partition in sorted(snapshot.partitions, key=len, reverse=True):
        taken = min(surplus, len(partition))
        surplus -= taken
        stops[partition.name] = partition.stop - taken
    cut = (replace(partition, stop=stops[partition.name]) for partition in snapshot.partitions)
    return Snapshot(snapshot.source, tuple(cut))


def seen(stages: Iterable[Stage], before: Iterable[Partition] = ()) -> tuple[Partition, ...]:
    """What some stages have passed over, partition by partition, with the newest fingerprints."""
    found = {partition.name: partition for partition in before}
    for stage in stages:
        for partition in stage.new.partitions:
            first = found.get(partition.name, partition).start
            found[partition.name] = replace(partition, start=first)
    return tuple(found.values())

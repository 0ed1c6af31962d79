"""`Feed`: batches in the plan's order, prepared by threads that work ahead of the consumer."""

from __future__ import annotations

import contextlib
import math
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count, pairwise
from typing import Any

import torch
from numpy.typing import NDArray

from penstock import cores, seeds
from penstock.errors import PenstockError, PlanError, StalledError
from penstock.feed import draws
from penstock.feed.batch import Batch, FedSample
from penstock.feed.decoded import Decoded, may_fit
from penstock.feed.prepare import Composing, Gathering, Prepare
from penstock.feed.slots import WEIGHT, Slot, Slots, make_slot
from penstock.feed.stalling import THREADS, stalled
from penstock.images import single_threaded
from penstock.order import Chain, Plan
from penstock.sources import Prefetching, Source, waiting
from penstock.values import Address, BatchSlice, Cursor, Record

_CHUNK = 8  # samples per unit of work: one future per sample spends half the time in the executor
_GATHERED = 256  # the same, of samples that are gathered at once: fewer wait for each other's interpreter lock
_TOGETHER = 8  # records of a shuffle's block from which on it is read as one run
_ASK = 0.2  # seconds between two questions whether a batch is still wanted
_PATIENCE = 30.0  # seconds for threads to end what they are at


@dataclass
class Meter:
    """How well the feed kept ahead: what one consumer saw since the feed was made.

    Attributes:
        batches: how many were given.
        ready: how many of them were complete when they were asked for.
        waited: seconds spent waiting for the others.
    """

    batches: int = 0
    ready: int = 0
    waited: float = 0.0


@dataclass(frozen=True)
class Feed:
    """Batches of prepared samples. It holds no position: `batches` starts anywhere.

    Attributes:
        plan: which record comes at which position.
        source: where records are read.
        prepare: what makes a sample of a record.
        batch: the size of the *global* batch, in samples.
        batch_slice: the part of it that this rank takes.
        augment: whether `prepare` is given random numbers, keyed by seed and position.
        threads: workers; by default one for every core that this process may use.
        prefetch: batches prepared ahead of the consumer; by default enough to keep every thread at work.
        pin_memory: whether the buffers are page-locked, for fast copies to a CUDA device.
        stall_timeout: seconds after which a batch that does not come is an error; 0 waits without end.
    """

    plan: Plan | Chain
    source: Source
    prepare: Prepare
    batch: int
    batch_slice: BatchSlice = BatchSlice()  # noqa: RUF009 - frozen
    augment: bool = True
    threads: int | None = None
    prefetch: int | None = None
    pin_memory: bool = False
    stall_timeout: float = 0.0
    meter: Meter = field(default_factory=Meter, compare=False)

    def __repr__(self) -> str:
        part = self.batch_slice
        ranks = f", slice {part.rank} of {part.world_size}" if part.world_size > 1 else ""
        return f"<Feed: batches of {self.batch}{ranks}>"

    def __post_init__(self) -> None:
        if self.batch < self.batch_slice.world_size:
            raise PlanError(
                "the global batch",
                expected=f"at least one sample for each of {self.batch_slice.world_size} ranks",
                found=f"a batch of {self.batch}",
                remedy="Make the batch larger or use fewer ranks",
            )

    def batches(
        self,
        start: Cursor = Cursor(),  # noqa: B008 - Cursor is frozen
        give_up: Callable[[], bool] = lambda: False,
    ) -> Iterator[Batch]:
        """Training batches from a cursor on, to the plan's end if it has one; nothing is padded or dropped.

        Closing the iterator (or dropping it) ends its threads, whatever they wait for.

        Args:
            start: where to begin.
            give_up: whether to end while a batch is waited for; asked a few times a second.

        Raises:
            InterruptedError: `give_up` said so.
            PlanError: the cursor belongs to another plan, or does not lie between two batches.
            Exception: what reading or preparing a sample raised, when its batch is asked for; one that is no
                PenstockError carries a note with the record's origin.
        """
        position = self.plan.start(start)
        if position % self.batch:
            raise PlanError(
                f"position {position:,}",
                expected=f"a multiple of the global batch of {self.batch}",
                found=f"a remainder of {position % self.batch}",
                remedy="Resume with the batch size that the checkpoint was made with",
            )
        first = position // self.batch
        numbers = count(first) if self.plan.end is None else range(first, self.plan.end // self.batch)
        return self._run(iter(numbers), give_up, limit=None)

    def walk(self, give_up: Callable[[], bool] = lambda: False) -> Iterator[Batch]:
        """One pass over the snapshot in the plan's order; the last batch is padded with samples of weight 0.

        Every rank gets the same number of batches, and every record comes exactly once over all ranks.

        Raises:
            InterruptedError: `give_up` said so while a batch was waited for.
        """
        return self._run(iter(range(-(-len(self.plan) // self.batch))), give_up, limit=len(self.plan))

    def __getitem__(self, position: int) -> FedSample:
        """The sample at any position, without threads: byte for byte the one in the batch."""
        slot = make_slot(self.prepare.fields, 1)
        origin = self._prepare(position, slot, 0)
        arrays = {name: array[0] for name, array in slot.arrays.items()}
        return FedSample(arrays, float(slot.weight[0]), origin, position)

    def _run(self, numbers: Iterator[int], give_up: Callable[[], bool], limit: int | None) -> Iterator[Batch]:
        size, threads = len(self.batch_slice.rows(self.batch)), self._threads
        ahead = self.prefetch or max(2, -(-2 * threads * len(self._pieces[0]) // size))
        slots = Slots(self.prepare.fields, size, pin_memory=self.pin_memory)
        pending: deque[tuple[int, Slot, list[Future[list[str]]]]] = deque()
        reached = None
        with _workers(threads) as pool:
            while True:
                while len(pending) <= ahead and (number := next(numbers, None)) is not None:
                    reached = self._reach(pool, number, reached, limit)
                    pending.append(self._submit(pool, number, slots.take(), limit))
                if not pending:
                    return
                number, slot, futures = pending.popleft()
                origins = self._wait(futures, give_up, number, limit)
                yield self._batch(number, slots.lend(slot), origins)

    def _reach(self, pool: ThreadPoolExecutor, number: int, reached: int | None, limit: int | None) -> int:
        """Have the source read ahead what a batch and the half window behind it will want, where it reads runs."""
        start = number * self.batch
        reached = start if reached is None else reached
        shuffle = self.plan.shuffle
        if not isinstance(self.source, Prefetching) or (shuffle and shuffle.block < _TOGETHER):
            return reached
        if self._decoded and self._decoded.whole:
            return reached
        further = shuffle.block * shuffle.window // 2 if shuffle else self.batch + self.source.block
        while reached < min(start + self.batch + further, limit or self.plan.end or math.inf):
            reached, runs = self.plan.reach(reached, self.source.block)
            for run in runs:
                pool.submit(self.source.prefetch, *run)
        return reached

    @property
    def _threads(self) -> int:
        return self.threads or cores.available()

    @cached_property
    def _pieces(self) -> list[range]:
        """The rows of this rank's slice, in pieces that are one unit of work each."""
        size = len(self.batch_slice.rows(self.batch))
        chunk = _GATHERED if self._decoded else max(1, min(_CHUNK, -(-size // self._threads)))
        return [range(a, b) for a, b in pairwise([*range(0, size, chunk), size])]

    def _submit(
        self, pool: ThreadPoolExecutor, number: int, slot: Slot, limit: int | None
    ) -> tuple[int, Slot, list[Future[list[str]]]]:
        base = self._base(number)
        futures = [pool.submit(self._chunk, base, rows, slot, limit) for rows in self._pieces]
        return number, slot, futures

    def _base(self, number: int) -> int:
        """The position of the first row of this rank's slice of a batch."""
        return number * self.batch + self.batch_slice.rows(self.batch).start

    def _chunk(self, base: int, rows: range, slot: Slot, limit: int | None) -> list[str]:
        """Prepare some rows of a slot; the origins of their records."""
        origins = []
        there = range(base + rows.start, base + rows.stop if limit is None else min(base + rows.stop, limit))
        gathered = self._gather(there, slot, rows.start) if there else {}
        for row in rows:
            if base + row not in there:
                slot.blank(row)
                origins.append("")
            else:
                origins.append(gathered.get(base + row) or self._prepare(base + row, slot, row))
        return origins

    def _gather(self, positions: range, slot: Slot, row: int) -> dict[int, str]:
        """Make samples that decoded records are kept of, in rows from `row` on; the records' origins by position."""
        if not self._decoded:
            return {}
        rows = slice(row, row + len(positions))
        out = {name: array[rows] for name, array in slot.arrays.items()}
        gathered = self._decoded.gather(positions, out, augment=self.augment)
        slot.weight[[row + position - positions.start for position in gathered]] = 1.0
        return gathered

    def _prepare(self, position: int, slot: Slot, row: int) -> str:
        address = self.plan.at(position)
        generator = draws.generator(self.plan, position, address) if self.augment else None
        try:
            record = self._read(address)
            if record is None:  # a hole in a log: the same on every rank and at every resume
                slot.blank(row)
                return address.origin
            self._fill(position, record, generator, slot.row(row))
        except PenstockError:
            raise
        except Exception as error:
            error.add_note(f"while preparing {address.origin} (position {position:,})")
            raise
        slot.weight[row] = 1.0
        return record.origin

    def _read(self, address: Address) -> Record | None:
        return next(iter(self.source.read(address.partition, address.offset, address.offset + 1)), None)

    def _fill(
        self, position: int, record: Record, generator: seeds.Generator | None, out: Mapping[str, NDArray[Any]]
    ) -> None:
        """Make the sample, perhaps of other records of its global batch too."""
        composing = self._composing
        count = composing.partners(generator) if composing and generator else 0
        if not count or not composing or not generator:
            self.prepare(record, generator, out)
            return
        first = position - position % self.batch
        places = [first + generator.integer(self.batch) for _ in range(count)]
        others = [self._read(self.plan.at(place)) or record for place in places]
        composing.compose([record, *others], generator, out)

    @cached_property
    def _decoded(self) -> Decoded | None:
        """The records, decoded, where samples can be gathered from them; what grows is not kept."""
        plan, prepare = self.plan, self.prepare
        if not isinstance(plan, Plan) or not isinstance(prepare, Gathering) or not prepare.gathers:
            return None
        return Decoded(prepare, plan, self._read) if may_fit(prepare.fields, len(plan.snapshot)) else None

    @cached_property
    def _composing(self) -> Composing | None:
        return self.prepare if isinstance(self.prepare, Composing) else None

    def _wait(
        self, futures: Sequence[Future[list[str]]], give_up: Callable[[], bool], number: int, limit: int | None
    ) -> tuple[str, ...]:
        self.meter.batches += 1
        self.meter.ready += all(future.done() for future in futures)
        began = time.perf_counter()

        def ask() -> None:
            if give_up():
                raise InterruptedError
            if 0 < self.stall_timeout < time.perf_counter() - began:
                pending = [not future.done() for future in futures]
                raise stalled(self._missing(number, pending, limit), self.stall_timeout)

        origins = tuple(origin for future in futures for origin in _result(future, ask))
        self.meter.waited += time.perf_counter() - began
        return origins

    def _missing(self, number: int, pending: Sequence[bool], limit: int | None) -> list[str]:
        """The origins of the records of a batch that are in pending pieces of it, each once."""
        base = self._base(number)
        rows = [row for piece, there in zip(self._pieces, pending, strict=True) if there for row in piece]
        positions = [base + row for row in rows if limit is None or base + row < limit]
        return list(dict.fromkeys(self.plan.at(position).origin for position in positions))

    def _batch(self, number: int, lent: dict[str, torch.Tensor], origins: tuple[str, ...]) -> Batch:
        cursor = Cursor((number + 1) * self.batch, self.plan.digest)
        return Batch(lent, lent.pop(WEIGHT), cursor, origins, self._base(number))


def _result(future: Future[list[str]], ask: Callable[[], None]) -> list[str]:
    while not future.done() and wait((future,), _ASK).not_done:
        ask()
    return future.result()


@contextlib.contextmanager
def _workers(threads: int) -> Iterator[ThreadPoolExecutor]:
    """The threads of a feed. When it ends they give up whatever they wait for, and end too; those that the system
    holds, as where a network disk is gone, are left to it after a while.
    """
    unwanted = threading.Event()
    pool, patience = ThreadPoolExecutor(threads, THREADS, waiting.bind, (unwanted.is_set,)), _PATIENCE
    with single_threaded():
        try:
            yield pool
        except StalledError:
            patience = 0.0
            raise
        finally:
            unwanted.set()
            if not sys.is_finalizing():  # else no thread starts any more, and Python has ended those of the pool
                end = threading.Thread(target=pool.shutdown, kwargs={"cancel_futures": True}, daemon=True)
                end.start()
                end.join(patience)

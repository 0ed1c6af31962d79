"""`verify`: read every record back - checksums, fields, images, labels - and name all that is wrong."""

from __future__ import annotations

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock import cores
from penstock.datasets.occurrences import digest_of, path_of
from penstock.errors import CorruptRecord, PenstockError
from penstock.images import single_threaded
from penstock.progress import counted, silent
from penstock.records import manifest, open_shard, read_all
from penstock.values import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from concurrent.futures import Future
    from pathlib import Path

    from penstock.datasets.description import FolderDataset, ShardInfo

    _Checked = tuple[list[manifest.ManifestEntry], list[str]]

_AHEAD: Final = 16  # pieces that are read and not checked
_PIECE: Final = 1 << 20  # bytes


@dataclass(frozen=True)
class Verdict:
    """What verification found: records read without fault, a sentence for every fault, offsets that hold no record."""

    sound: int
    faults: tuple[str, ...]
    holes: int = 0


def verify(
    dataset: FolderDataset,
    splits: Sequence[str] = (),
    *,
    threads: int = 0,
    progress: Callable[[int, int], None] = silent,
) -> Verdict:
    """Read all records of some splits, by default of all, and check them in threads, as `cores.readers` counts."""
    shards = [shard for split in splits or dataset.splits for shard in dataset.split(split).shards]
    total = sum(shard.records for shard in shards)
    faults: list[str] = []
    entries: list[manifest.ManifestEntry] = []
    with single_threaded(), ThreadPoolExecutor(cores.readers(threads)) as pool:
        try:
            for shard in shards:
                path, before = dataset.folder / shard.name, (len(entries), len(faults))
                for good, wrong in _checked(pool, dataset, path):
                    entries += good
                    faults += wrong
                    progress(len(entries) + len(faults), total)
                if len(faults) == before[1]:
                    faults += _as_described(path, shard, len(entries) - before[0])
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    if not faults and dataset.manifest:
        faults += _as_listed(dataset.manifest, splits or dataset.splits, entries)
    return Verdict(len(entries), tuple(faults))


def _as_listed(path: Path, splits: Sequence[str], entries: Sequence[manifest.ManifestEntry]) -> list[str]:
    try:
        listed = manifest.read(path)
    except (OSError, ValueError) as error:
        return [f"{path}: expected a manifest of the records, found {error}. Pack the dataset again."]
    if [entry for split in splits for entry in listed.get(split, ())] == [*entries]:
        return []
    return [f"{path}: expected the records of the shards, found others. Pack the dataset again."]


def _checked(pool: ThreadPoolExecutor, dataset: FolderDataset, path: Path) -> Iterator[_Checked]:
    """The records of a shard in pieces, in order. One thread reads them, ahead of those that check them."""
    waiting: deque[Future[_Checked]] = deque()
    for piece in _pieces(_records(path)):
        waiting.append(pool.submit(_check, dataset, piece))
        if len(waiting) > _AHEAD:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def _pieces(records: Iterable[Record | PenstockError]) -> Iterator[list[Record | PenstockError]]:
    piece: list[Record | PenstockError] = []
    size = 0
    for record in records:
        piece.append(record)
        size += len(record.payload) if isinstance(record, Record) else 0
        if size >= _PIECE:
            yield piece
            piece, size = [], 0
    yield piece


def _check(dataset: FolderDataset, records: Sequence[Record | PenstockError]) -> _Checked:
    """What the manifest says of those that are sound, and a sentence for each of the others."""
    entries, faults = [], []
    for record in records:
        try:
            if isinstance(record, PenstockError):
                raise record
            dataset.description.kind.check(record, dataset.description)
            entries.append(manifest.entry_of(record.payload, record.origin))
        except PenstockError as error:
            faults.append(str(error))
    return entries, faults


def _as_described(path: Path, shard: ShardInfo, sound: int) -> list[str]:
    """Whether a shard of sound records holds those that were packed: none lost, doubled, exchanged or moved."""
    if sound != shard.records:
        wrong = f"expected {counted(shard.records, 'record')}, as dataset.json says, found {sound:,}"
    elif shard.digest not in ("", found := open_shard(path).index.digest):
        wrong = f"expected the records that dataset.json describes ({shard.digest[:12]}), found others ({found[:12]})"
    elif shard.occurrences != digest_of(path):
        return [f"{path_of(path)}: expected the classes of the records, found another file. Pack the dataset again."]
    else:
        return []
    return [f"{path}: {wrong}. Pack the dataset again."]


def _records(path: Path) -> Iterator[Record | PenstockError]:
    """Every record of a shard, or the error in its place; after a damaged header nothing more can be found."""
    try:
        shard = open_shard(path)
    except CorruptRecord:
        try:
            yield from read_all(path)
        except PenstockError as error:
            yield error
        return
    except PenstockError as error:
        yield error
        return
    for number in range(len(shard)):
        try:
            yield from shard.read(number, number + 1)
        except PenstockError as error:
            yield error

"""The sidecar index of a shard: where every record begins, how long it is, and its checksum.

`SHARD.index` lies beside the shard, is written atomically, and is rebuilt by itself when it is missing or stale. In a
read-only folder the index lives in memory only. Its digest names the content of the shard wherever it is copied to.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np

from penstock import files
from penstock.errors import SourceError
from penstock.records import framing
from penstock.records.framing import FOOTER, HEADER, OVERHEAD, RecordLocation

_MAGIC: Final = b"penstock-index-1\n"
_MAX_HEAD: Final = 1 << 10  # bytes before the entries
_ENTRY: Final = 20  # bytes: offset and length of 8 each, checksum of 4


@dataclass(frozen=True)
class Index:
    """Byte offsets, payload lengths (bytes) and stored payload checksums of a shard's records, in file order."""

    offsets: array[int]
    lengths: array[int]
    checksums: array[int]

    def __len__(self) -> int:
        return len(self.offsets)

    @cached_property
    def digest(self) -> str:
        """A hash of all lengths and checksums: it changes when any record does."""
        state = hashlib.blake2b(digest_size=16)
        state.update(self.lengths.tobytes())
        state.update(self.checksums.tobytes())
        return state.hexdigest()


def empty() -> Index:
    """An index without records, to append to."""
    return Index(array("Q"), array("Q"), array("I"))


def scan(handle: BinaryIO, size: int, shard: str) -> Index:
    """Read all record headers of an uncompressed shard, skipping the payloads.

    Raises:
        CorruptRecord: the file is empty, is no TFRecord, or ends inside a record.
    """
    if not size:
        raise framing.empty_file(shard)
    index, position = empty(), 0
    while position < size:
        place = RecordLocation(shard, len(index), position)
        handle.seek(position)
        length = framing.read_header(handle.read(HEADER.size), place)
        end = position + length + OVERHEAD
        if end > size:
            raise framing.cut_short(place, length, size - position - HEADER.size)
        handle.seek(end - FOOTER.size)
        index.checksums.append(FOOTER.unpack(handle.read(FOOTER.size))[0])
        index.offsets.append(position)
        index.lengths.append(length)
        position = end
    return index


def path_of(shard: Path) -> Path:
    """Where the sidecar of a shard lies."""
    return shard.with_name(shard.name + ".index")


def _stamp(shard: Path) -> bytes:
    status = shard.stat()
    return f"{status.st_size} {status.st_mtime_ns}\n".encode()


def save(index: Index, shard: Path) -> None:
    """Write the sidecar atomically; a folder that cannot be written to is left without one."""
    body = b"".join((index.offsets.tobytes(), index.lengths.tobytes(), index.checksums.tobytes()))
    seal = hashlib.blake2b(body, digest_size=16).hexdigest().encode() + b"\n"
    try:
        with tempfile.NamedTemporaryFile(
            dir=shard.parent, prefix=f".{shard.name}.", suffix=".partial", delete=False
        ) as handle:
            handle.write(b"".join((_MAGIC, _stamp(shard), b"%d\n" % len(index), seal, body)))
        Path(handle.name).chmod(0o644)
        Path(handle.name).replace(path_of(shard))
    except OSError:
        return


def load(shard: Path) -> Index | None:
    """The sidecar, or None when it is missing, stale, or not whole."""
    try:
        files.check_regular(path_of(shard), _MAX_HEAD + shard.stat().st_size * _ENTRY // OVERHEAD)
        data = path_of(shard).read_bytes()
    except OSError:
        return None
    head, stamp = len(_MAGIC), _stamp(shard)
    if not data.startswith(_MAGIC + stamp):
        return None
    count, seal, body = ([*data[head + len(stamp) :].split(b"\n", 2), b"", b""])[:3]
    n = len(body) // _ENTRY
    if hashlib.blake2b(body, digest_size=16).hexdigest().encode() != seal or count != b"%d" % n:
        return None
    index = empty()
    index.offsets.frombytes(body[: 8 * n])
    index.lengths.frombytes(body[8 * n : 16 * n])
    index.checksums.frombytes(body[16 * n :])
    return index if _covers(index, int(stamp.split()[0])) else None


def _covers(index: Index, size: int) -> bool:
    """Whether the records lie one behind the other, from the beginning of a shard to its end."""
    offsets, lengths = np.frombuffer(index.offsets, np.uint64), np.frombuffer(index.lengths, np.uint64)
    ends = offsets + lengths + np.uint64(OVERHEAD)
    ordered = bool(len(ends)) and offsets[0] == 0 and ends[-1] == size and bool((lengths < size).all())
    return bool(ordered and (offsets[1:] == ends[:-1]).all())


def of(shard: Path) -> Index:
    """The index of an uncompressed shard: the sidecar where it is sound, a scan (then saved) where it is not.

    Raises:
        SourceError: the shard cannot be opened.
        CorruptRecord: the shard is damaged in a way that its headers show.
    """
    try:
        if (index := load(shard)) is not None:
            return index
        with shard.open("rb") as handle:
            index = scan(handle, os.fstat(handle.fileno()).st_size, str(shard))
    except OSError as error:
        raise unreadable(shard, error) from error
    save(index, shard)
    return index


def unreadable(shard: Path, error: OSError) -> SourceError:
    """The error for a shard that the operating system will not open."""
    return SourceError(
        str(shard),
        expected="a readable file",
        found=(error.strerror or str(error)).lower(),
        remedy="Check the path and its permissions",
    )


def spans(index: Index, start: int, stop: int, limit: int) -> Iterator[tuple[int, int]]:
    """Cut `[start, stop)` into runs of records whose framed bytes stay under `limit` where they can."""
    first = start
    for number in range(start, stop):
        size = index.offsets[number] + index.lengths[number] + OVERHEAD - index.offsets[first]
        if number > first and size > limit:
            yield first, number
            first = number
    if first < stop:
        yield first, stop

"""Random and sequential access to the records of one shard."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from penstock import files
from penstock.records import framing
from penstock.records import index as indexing
from penstock.records.framing import FOOTER, HEADER, OVERHEAD, RecordLocation
from penstock.records.index import Index
from penstock.values import Record

_READ_SIZE: Final = 8 << 20


@dataclass(frozen=True)
class Shard:
    """A TFRecord file that is ready to be read at any record, by any number of threads.

    It holds no file handle: every read opens, reads and closes, which costs about ten microseconds and leaves nothing
    to leak or to inherit across a fork. A compressed shard cannot be entered in the middle, so `content` holds all of
    it, decompressed; it is None for a plain one.
    """

    path: Path
    name: str
    index: Index
    content: bytes | None = None

    def __len__(self) -> int:
        return len(self.index)

    def read(self, start: int, stop: int) -> Iterator[Record]:
        """The records `[start, stop)` in order, each verified against both checksums, and that of the index.

        Raises:
            CorruptRecord: a record is damaged; the records before it have been given.
            SourceError: the file has gone.
        """
        for first, last in indexing.spans(self.index, start, stop, _READ_SIZE):
            base = self.index.offsets[first]
            end = self.index.offsets[last - 1] + self.index.lengths[last - 1] + OVERHEAD
            if first + 1 == last:
                yield self._single(first)
                continue
            data = self._bytes(base, end - base)
            for number in range(first, last):
                offset, length = self.index.offsets[number], self.index.lengths[number]
                framed = data[offset - base : offset - base + length + OVERHEAD]
                place = RecordLocation(str(self.path), number, offset)
                payload = framing.unframe(framed, length, place, self.index.checksums[number])
                yield Record(f"{self.name}#{number}", payload)

    def _single(self, number: int) -> Record:
        """One record, as samples are read in any order: its payload is read by itself, so that it is not copied."""
        offset, length = self.index.offsets[number], self.index.lengths[number]
        ends = (offset, HEADER.size), (offset + HEADER.size, length), (offset + HEADER.size + length, FOOTER.size)
        header, payload, footer = self._pieces(*ends)
        place, checksum = RecordLocation(str(self.path), number, offset), self.index.checksums[number]
        return Record(f"{self.name}#{number}", framing.verified(header, payload, footer, length, place, checksum))

    def _bytes(self, start: int, size: int) -> bytes:
        (data,) = self._pieces((start, size))
        return data

    def _pieces(self, *places: tuple[int, int]) -> list[bytes]:
        """What lies at some offsets, with so many bytes."""
        if self.content is not None:
            return [self.content[start : start + size] for start, size in places]
        try:
            handle = os.open(self.path, os.O_RDONLY)
            try:
                return [os.pread(handle, size, start) for start, size in places]
            finally:
                os.close(handle)
        except OSError as error:
            raise indexing.unreadable(self.path, error) from error


def open_shard(path: Path, name: str | None = None) -> Shard:
    """Open a shard: plain through its sidecar index, GZIP and ZLIB by decompressing it into memory.

    Raises:
        SourceError: the file cannot be opened.
        CorruptRecord: it is empty, no TFRecord, or damaged in a way that its headers show.
    """
    try:
        files.check_regular(path)
        with path.open("rb") as handle:
            packed = framing.is_compressed(handle.read(HEADER.size))
            handle.seek(0)
            content = framing.decompress(handle, str(path)) if packed else b""
        if not packed:
            return Shard(path, name or path.name, indexing.of(path))
    except OSError as error:
        raise indexing.unreadable(path, error) from error
    index = indexing.scan(io.BytesIO(content), len(content), str(path))
    return Shard(path, name or path.name, index, content)


def read_all(path: Path) -> Iterator[Record]:
    """All records of a shard, in order and verified, without writing an index.

    Raises:
        CorruptRecord: the first damage met; the records before it have been given.
    """
    files.check_regular(path)
    size = path.stat().st_size
    if not size:
        raise framing.empty_file(str(path))
    with path.open("rb") as handle:
        number = position = 0
        while position < size:
            place = RecordLocation(str(path), number, position)
            header = handle.read(HEADER.size)
            length = framing.read_header(header, place)
            if position + length + OVERHEAD > size:
                raise framing.cut_short(place, length, size - position - HEADER.size)
            body = handle.read(length + OVERHEAD - HEADER.size)
            yield Record(f"{path.name}#{number}", framing.unframe(header + body, length, place))
            position += length + OVERHEAD
            number += 1

"""TFRecord files that others wrote: their records one by one, and their fields."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from penstock.datasets import listing
from penstock.errors import SchemaError
from penstock.records import framing
from penstock.records.example import Fields
from penstock.records.framing import HEADER, OVERHEAD, RecordLocation

_SHARD: Final = re.compile(r"[.-]\d{5}-of-\d{5}$")
_ENDS: Final = (".tfrecord", ".tfrecords", ".record", ".records")


@dataclass(frozen=True)
class Entry:
    """One record: where it lies, and its fields."""

    path: Path
    number: int
    offset: int
    length: int
    fields: Fields


def shards_in(folder: Path) -> tuple[list[Path], Entry | None]:
    """All TFRecord files, and their first record; none where the first file is none."""
    shards = [path for path in listing.files(folder) if _is_shard(path)]
    return shards, next((entry for path in shards for entry in entries(path)), None)


def _is_shard(path: Path) -> bool:
    """By its name, which may say that it is compressed: its first bytes decide that."""
    name = path.name.removesuffix(".gz").removesuffix(".zlib")
    whole = _SHARD.sub("", name)
    return whole.endswith(_ENDS) or (whole != name and path.suffix != ".index")


def entries(path: Path) -> Iterator[Entry]:
    """All records of a file, verified."""
    with _opened(path) as file:
        offset = number = 0
        while header := file.read(HEADER.size):
            place = RecordLocation(str(path), number, offset)
            length = framing.read_header(header, place)
            body = file.read(length + OVERHEAD - HEADER.size)
            if len(body) < length + OVERHEAD - HEADER.size:
                raise framing.cut_short(place, length, len(body))
            payload = framing.unframe(header + body, length, place)
            yield Entry(path, number, offset, length, Fields(payload, f"{path.name}#{number}"))
            offset += length + OVERHEAD
            number += 1


def _opened(path: Path) -> io.BufferedIOBase:
    """A file of plain records, or what a compressed one holds."""
    with path.open("rb") as file:
        compressed = framing.is_compressed(file.read(HEADER.size))
    return io.BytesIO(_content(path, path.stat().st_mtime_ns)) if compressed else path.open("rb")


@lru_cache(maxsize=2)
def _content(path: Path, changed: int) -> bytes:  # noqa: ARG001 - of its seam
    """The last compressed files are kept, as their records are read one by one."""
    with path.open("rb") as handle:
        return framing.decompress(handle, str(path))


def read_field(path: Path, number: int, offset: int, length: int, field: str) -> bytes:
    """The first value of a field of a record."""
    return read_again(path, number, offset, length).first_bytes(field)


def read_again(path: Path, number: int, offset: int, length: int) -> Fields:
    """A record, which is read and verified again: all of them would not fit into memory."""
    with _opened(path) as file:
        file.seek(offset)
        payload = framing.unframe(file.read(length + OVERHEAD), length, RecordLocation(str(path), number, offset))
    return Fields(payload, f"{path.name}#{number}")


def described(entry: Entry) -> str:
    """The fields of a record with what they hold."""
    kinds = ((entry.fields.all_bytes, "bytes"), (entry.fields.ints, "int64"), (entry.fields.floats, "float"))
    shown = []
    for name in entry.fields.names():
        held = next((f"{len(found)} x {what}" for read, what in kinds if (found := values(read, name))), "empty")
        shown.append(f"{name} ({held})")
    return ", ".join(shown)


def values(read: Callable[[str], Sequence[Any]], name: str) -> Sequence[Any]:
    """The values of a field; none where it holds others."""
    try:
        return read(name)
    except SchemaError:
        return ()

"""The TFRecord framing, byte for byte as TensorFlow writes it.

    uint64 length | uint32 masked CRC32C of length | payload | uint32 masked CRC32C of payload      (little endian)

Source: tensorflow/core/lib/io/record_writer.h. The mask is `rotate_right(crc, 15) + 0xa282ead8`.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Iterator
from typing import BinaryIO, Final, NamedTuple

import google_crc32c

from penstock.errors import CorruptRecord
from penstock.progress import counted

HEADER: Final = struct.Struct("<QI")
FOOTER: Final = struct.Struct("<I")
OVERHEAD: Final = HEADER.size + FOOTER.size
MAX_UNPACKED: Final = 1 << 30
"""Bytes that a compressed shard may hold: all of them are kept in memory."""

_PIECE: Final = 1 << 20
_LENGTH: Final = struct.Struct("<Q")

_RESTORE = "Restore the shard from a copy, or pack it again"


class RecordLocation(NamedTuple):
    """Where a record lies in its shard, for messages: the shard's path, the record's number, the byte offset."""

    shard: str
    number: int
    byte: int

    def __str__(self) -> str:
        return f"{self.shard}#{self.number} (byte {self.byte:,})"


def masked_crc(data: bytes) -> int:
    """The masked CRC32C of some bytes, as an unsigned 32-bit integer."""
    crc = int(google_crc32c.value(data))
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def frame(payload: bytes) -> bytes:
    """One framed record."""
    length = _LENGTH.pack(len(payload))
    return b"".join((length, FOOTER.pack(masked_crc(length)), payload, FOOTER.pack(masked_crc(payload))))


def read_header(header: bytes, place: RecordLocation) -> int:
    """The payload's length in bytes, from the 12 bytes before it.

    Raises:
        CorruptRecord: the header is cut short, or its checksum does not match.
    """
    if len(header) < HEADER.size:
        raise CorruptRecord(
            str(place),
            expected=f"a record header of {HEADER.size} bytes",
            found=f"the end of the file after {counted(len(header), 'byte')} of it",
            remedy=f"The shard was cut short. {_RESTORE}",
        )
    length, stored = HEADER.unpack(header)
    if (computed := masked_crc(header[: _LENGTH.size])) != stored:
        whole = place.number == 0
        raise CorruptRecord(
            str(place),
            expected=f"a record length with checksum {computed:08x}",
            found=f"checksum {stored:08x}",
            remedy=f"The file is {'not a TFRecord, or its start is damaged' if whole else 'damaged'}. {_RESTORE}",
        )
    return int(length)


def check_payload(payload: bytes, stored: int, place: RecordLocation) -> None:
    """Compare a payload with the checksum stored behind it.

    Raises:
        CorruptRecord: they do not match.
    """
    if (computed := masked_crc(payload)) != stored:
        raise CorruptRecord(
            str(place),
            expected=f"a payload of {counted(len(payload), 'byte')} with checksum {stored:08x}",
            found=f"checksum {computed:08x}",
            remedy=f"Some bit of the record is wrong. {_RESTORE}",
        )


def unframe(framed: bytes, length: int, place: RecordLocation, checksum: int | None = None) -> bytes:
    """The verified payload of one whole framed record.

    Raises:
        CorruptRecord: the record is cut short, of another length, damaged, or not the one that was indexed.
    """
    payload = framed[HEADER.size : HEADER.size + length]
    return verified(framed[: HEADER.size], payload, framed[HEADER.size + length :], length, place, checksum)


def verified(
    header: bytes, payload: bytes, footer: bytes, length: int, place: RecordLocation, checksum: int | None = None
) -> bytes:
    """The payload of a framed record that was read in its three parts; arguments and errors as for `unframe`."""
    if (found := read_header(header, place)) != length:
        raise CorruptRecord(
            str(place),
            expected=f"a record of {counted(length, 'byte')}, as the index says",
            found=f"one of {counted(found, 'byte')}",
            remedy=f"The shard changed after it was indexed. {_RESTORE}",
        )
    if len(payload) + len(footer) != length + FOOTER.size:
        raise cut_short(place, length, len(payload) + len(footer))
    (stored,) = FOOTER.unpack(footer)
    check_payload(payload, stored, place)
    if checksum not in (None, stored):
        raise CorruptRecord(
            str(place),
            expected=f"the record that was indexed, with checksum {checksum:08x}",
            found=f"another of the same length, with checksum {stored:08x}",
            remedy=f"The shard changed after it was indexed. {_RESTORE}",
        )
    return payload


def empty_file(shard: str) -> CorruptRecord:
    """The error for a shard of no bytes."""
    return CorruptRecord(
        shard,
        expected="a TFRecord with at least one record",
        found="an empty file",
        remedy="Remove the file, or pack it again",
    )


def cut_short(place: RecordLocation, length: int, available: int) -> CorruptRecord:
    """The error for a record whose bytes run past the end of its shard."""
    return CorruptRecord(
        str(place),
        expected=f"a payload of {counted(length, 'byte')} and its checksum",
        found=f"the end of the file after {counted(max(available, 0), 'byte')} of them",
        remedy=f"The shard was cut short. {_RESTORE}",
    )


def is_compressed(start: bytes) -> bool:
    """Whether a shard is a GZIP or ZLIB file, told from its first 12 bytes.

    A TFRecord's own header is tried first: a length can begin with any byte, but then its checksum holds.
    """
    if len(start) >= HEADER.size and masked_crc(start[: _LENGTH.size]) == HEADER.unpack(start[: HEADER.size])[1]:
        return False
    zlib_header = len(start) > 1 and start[0] & 0x0F == 8 and (start[0] << 8 | start[1]) % 31 == 0  # noqa: PLR2004 - RFC 1950, 2.2
    return start[:2] == b"\x1f\x8b" or zlib_header


def decompress(handle: BinaryIO, shard: str) -> bytes:
    """The whole content of a GZIP or ZLIB shard, which cannot be entered in the middle.

    Raises:
        CorruptRecord: the compressed stream is damaged or cut short, holds no TFRecord, or more than fits into memory
            well.
    """
    pieces: list[bytes] = []
    size = 0
    try:
        for piece in _unpacked(handle):
            if not pieces:
                read_header(piece[: HEADER.size], RecordLocation(shard, 0, 0))  # before more of it is unpacked
            pieces.append(piece)
            size += len(piece)
            if size > MAX_UNPACKED:
                raise CorruptRecord(
                    shard,
                    expected=f"at most {MAX_UNPACKED >> 20:,} MiB in a compressed shard, which is kept in memory",
                    found="more",
                    remedy="Unpack the file (gunzip), or pack the data again into smaller shards",
                )
    except (OSError, EOFError, zlib.error) as error:
        raise CorruptRecord(
            shard, expected="a whole GZIP or ZLIB stream", found=f"a damaged one ({error})", remedy=_RESTORE
        ) from error
    return b"".join(pieces)


def _unpacked(handle: BinaryIO) -> Iterator[bytes]:
    """The content of a GZIP or ZLIB file, piece by piece."""
    kind = handle.read(2)
    handle.seek(0)
    if kind == b"\x1f\x8b":
        with gzip.open(handle) as stream:
            while piece := stream.read(_PIECE):
                yield piece
        return
    unpacker = zlib.decompressobj()
    while packed := unpacker.unconsumed_tail or handle.read(_PIECE):
        yield unpacker.decompress(packed, _PIECE)
    if not unpacker.eof:
        raise EOFError("the stream ends early")

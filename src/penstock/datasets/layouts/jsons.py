"""JSON files that annotation tools wrote."""

from __future__ import annotations

import codecs
from pathlib import Path
from typing import Any, Final

import msgspec

from penstock.errors import DatasetError

_SIXTEEN: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_NUMBERS: Final = (b"NaN", b"Infinity")


def read(path: Path) -> Any:
    """The value in a file, in UTF-8 with or without a byte order mark, or in UTF-16 with one.

    Raises:
        DatasetError: it is no JSON.
    """
    return decode(path.read_bytes(), str(path))


def read_with(path: Path, *keys: tuple[bytes, ...]) -> Any:
    """The value in a file that holds all words of one of some tuples; None for any other file, which is not decoded.

    Raises:
        DatasetError: it holds the words, but is no JSON.
    """
    data = _in_utf8(path.read_bytes(), str(path))
    if not any(all(word in data for word in words) for words in keys):
        return None
    return decode(data, str(path))


def decode(data: bytes, where: str) -> Any:
    """The value of some JSON.

    Raises:
        DatasetError: it is none.
    """
    try:
        return msgspec.json.decode(_in_utf8(data, where))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        found = str(error) or "values nested too deeply"
        numbers = [name.decode() for name in _NUMBERS if name in data]
        if numbers:
            found += f"; it holds {' and '.join(numbers)}, which JSON does not have"
        raise DatasetError(where, expected="JSON", found=found, remedy="Fix or remove it") from None


def _in_utf8(data: bytes, where: str) -> bytes:
    """Text without its byte order mark, in UTF-8. Windows PowerShell writes UTF-16."""
    if not data.startswith(_SIXTEEN):
        return data.removeprefix(codecs.BOM_UTF8)
    try:
        return data.decode("utf-16").encode()
    except UnicodeError as error:
        raise DatasetError(where, expected="JSON", found=str(error), remedy="Save the file as UTF-8") from None

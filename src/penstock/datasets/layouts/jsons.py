"""JSON files that annotation tools wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from penstock.errors import DatasetError

if TYPE_CHECKING:
    from pathlib import Path

_MARK: Final = b"\xef\xbb\xbf"


def read(path: Path) -> Any:
    """The value in a file, with or without a byte order mark.

    Raises:
        DatasetError: it is no JSON.
    """
    return decode(path.read_bytes(), str(path))


def read_with(path: Path, *keys: tuple[bytes, ...]) -> Any:
    """The value in a file that holds all words of one of some tuples; None for any other file, which is not decoded.

    Raises:
        DatasetError: it holds the words, but is no JSON.
    """
    data = path.read_bytes()
    if not any(all(word in data for word in words) for words in keys):
        return None
    return decode(data, str(path))


def decode(data: bytes, where: str) -> Any:
    """The value of some JSON.

    Raises:
        DatasetError: it is none.
    """
    try:
        return msgspec.json.decode(data.removeprefix(_MARK))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        found = str(error) or "values nested too deeply"
        raise DatasetError(where, expected="JSON", found=found, remedy="Fix or remove it") from None

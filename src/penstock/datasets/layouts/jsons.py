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
    try:
        return msgspec.json.decode(path.read_bytes().removeprefix(_MARK))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        found = str(error) or "values nested too deeply"
        raise DatasetError(str(path), expected="JSON", found=found, remedy="Fix or remove it") from None


def mentions(path: Path, *words: bytes) -> bool:
    """Whether a file holds all of some words, which is told before it is decoded."""
    data = path.read_bytes()
    return all(word in data for word in words)

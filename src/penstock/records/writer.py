"""Writing a shard: complete and synced under its name, or not there at all."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from types import TracebackType
from typing import Self

from penstock import files
from penstock.records import framing
from penstock.records import index as indexing
from penstock.records.framing import FOOTER
from penstock.records.index import Index


class ShardWriter:
    """A context manager that writes records to a hidden temporary file and renames it when the block ends well.

    Attributes:
        index: what has been written so far.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.index: Index = indexing.empty()
        self._temporary = path.with_name(f".{path.name}.{os.getpid()}.partial")
        self._position = 0

    def __enter__(self) -> Self:
        self._handle = self._temporary.open("wb")
        return self

    def write(self, payload: bytes) -> int:
        """Append one record and return its number."""
        framed = framing.frame(payload)
        with files.named(self.path):
            self._handle.write(framed)
        self.index.offsets.append(self._position)
        self.index.lengths.append(len(payload))
        self.index.checksums.append(FOOTER.unpack_from(framed, len(framed) - FOOTER.size)[0])
        self._position += len(framed)
        return len(self.index) - 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            with files.named(self.path), self._handle:
                if kind is None:
                    self._handle.flush()
                    os.fsync(self._handle.fileno())
        except OSError:
            self._discard()
            raise
        if kind is not None:
            self._discard()
            return
        self._temporary.replace(self.path)
        indexing.save(self.index, self.path)

    def _discard(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._temporary.unlink()

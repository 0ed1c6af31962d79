"""What inspect found of every file, kept for the next inspect and for pack: what did not change is not decoded again.

A finding is kept for an image in a file of its own, under the paths, sizes and times of change of its files and all
else that it follows from. Files that changed in the last seconds are not trusted, as some file systems keep time in
whole seconds.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import msgspec

from penstock import files
from penstock.images import PixelFormat
from penstock.kinds import KINDS
from penstock.kinds.base import Kind
from penstock.kinds.items import FilePart, InspectedItem, Item, Labels, Problem, hashed

_FRESH: Final = 3.0  # seconds in which a file may change again without its time showing it
_FOLDERS: Final = 32  # whose findings are kept


class _Finding(msgspec.Struct, array_like=True):
    """An `InspectedItem` without its item; `label` is written as the check left it, where it changes labels."""

    height: int
    width: int
    format: str
    size: int
    content: str
    key: str
    label_key: str
    pixels: list[tuple[int, int]]
    problems: list[tuple[str, str, str, bool, bool]]
    perceptual_hash: int
    label: bytes | None
    pixel_format: tuple[int, int]
    moments: list[tuple[float, float]]


@dataclass
class Findings:
    """The findings of one folder, read in one way.

    Attributes:
        kind: of the records.
        path: the file that keeps them; None keeps none.
        known: from the last time, by what they follow from.
        found: this time.
    """

    kind: Kind
    path: Path | None = None
    known: dict[str, _Finding] = field(default_factory=dict)
    found: dict[str, _Finding] = field(default_factory=dict)

    @classmethod
    def of(cls, folder: Path, labels: Labels, kind: Kind, channels: int) -> Findings:
        """The saved findings of a folder; empty if none were saved, or if the file cannot be read."""
        if KINDS.get(kind.name) is not kind or not kind.remembers:  # another kind's code may change
            return cls(kind)
        way = (_code(), str(folder.resolve()), repr(labels), kind.name, channels)
        path = _home() / f"{hashed(repr(way).encode(errors='surrogateescape'))}.msgpack"
        known: dict[str, _Finding] = {}
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            known = msgspec.msgpack.decode(path.read_bytes(), type=dict[str, _Finding])
        return cls(kind, path, known)

    def check(self, item: Item, read: Callable[[Item], InspectedItem]) -> InspectedItem:
        """What was found of an item whose files are as they were, or what they show now."""
        identity = _identity(item, self.kind) if self.path else ""  # before they are read, as they may change meanwhile
        if identity in self.known:
            self.found[identity] = self.known[identity]
            return self._inspected(item, self.known[identity])
        inspected = read(item)
        if identity and inspected.label is None:
            self.found[identity] = self._finding(inspected)
        return inspected

    def _finding(self, inspected: InspectedItem) -> _Finding:
        label = None
        if self.kind.checked_label is not None and isinstance(inspected.item.label, tuple):  # else it is a problem
            label = msgspec.msgpack.encode(inspected.item.label)
        return _Finding(
            inspected.height, inspected.width, inspected.format, inspected.size, inspected.content, inspected.key,
            inspected.label_key,
            list(inspected.pixels), [(p.kind, p.file, p.message, p.fatal, p.whole) for p in inspected.problems],
            inspected.perceptual_hash, label, (inspected.pixel_format.channels, inspected.pixel_format.bits),
            list(inspected.moments),
        )  # fmt: skip

    def _inspected(self, item: Item, finding: _Finding) -> InspectedItem:
        if finding.label is not None:
            label = msgspec.msgpack.decode(finding.label, type=self.kind.checked_label)
            item = replace(item, label=label, relative=False)
        problems = tuple(Problem(*problem) for problem in finding.problems)
        return InspectedItem(
            item, finding.height, finding.width, finding.format, finding.size, finding.content, finding.key,
            finding.label_key, tuple(finding.pixels), problems, perceptual_hash=finding.perceptual_hash,
            pixel_format=PixelFormat(*finding.pixel_format), moments=tuple(finding.moments),
        )  # fmt: skip

    def save(self, *, part: bool) -> None:
        """Write them down; a home that cannot be written to keeps none.

        Args:
            part: whether only a part of the folder was inspected, so that findings of the rest stay.
        """
        kept = {**self.known, **self.found} if part else self.found
        if self.path is None or not kept or kept == self.known:
            return
        with contextlib.suppress(OSError, UnicodeEncodeError):  # a name that is no UTF-8 is a problem of its own
            self.path.parent.mkdir(parents=True, exist_ok=True)
            files.replace_whole(self.path, msgspec.msgpack.encode(kept))
            newest = sorted(self.path.parent.glob("*.msgpack"), key=lambda path: -path.stat().st_mtime)
            for path in newest[_FOLDERS:]:
                path.unlink(missing_ok=True)


def _code() -> int:
    """When the code last changed that findings come from."""
    return max(path.stat().st_mtime_ns for path in Path(files.__file__).parent.rglob("*.py"))


def _home() -> Path:
    return files.state_folder() / "inspections"


def _identity(item: Item, kind: Kind) -> str:
    """What the finding of an item follows from; "" where that is more than its files, or these are new."""
    if not isinstance(item.image, Path) or item.slices:
        return ""
    beside = kind.label_files(item)
    parts = [item.split, item.name, "" if beside else repr(item.label), repr(item.relative), repr(item.size)]
    for place in (item.image, *beside):
        file = place.file if isinstance(place, FilePart) else place
        try:
            seen = file.stat()
        except OSError:
            return ""
        if time.time() - seen.st_mtime < _FRESH:
            return ""
        part = place.part if isinstance(place, FilePart) else ""
        parts += [str(file), part, str(seen.st_mtime_ns), str(seen.st_ctime_ns), str(seen.st_size), str(seen.st_ino)]
    return hashed("\0".join(parts).encode(errors="surrogateescape"))

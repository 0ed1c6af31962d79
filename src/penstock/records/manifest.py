"""The manifest of a packed dataset: what each record is called, and digests of its image and of its label.

Two manifests say which records were added, removed or relabelled, although the shards of one of them are gone.
"""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from penstock import files
from penstock.errors import SchemaError
from penstock.records.example import Fields

NAME: Final = "manifest.jsonl.gz"
_SHOWN: Final = 8  # names in a sentence
_LARGEST: Final = 1 << 28  # bytes
_MAX_RATIO: Final = 50  # of a manifest unpacked; digests take most of one, and do not become smaller
_NAMES: Final = frozenset({"image/filename", "image/source_id"})
_IMAGE: Final = frozenset(f"image/{name}" for name in ("encoded", "format", "height", "width", "channels", "slices"))


class ManifestEntry(NamedTuple):
    """A record: its name, and digests of its image and of its label, of 16 hexadecimal digits."""

    name: str
    image: str
    label: str


@dataclass(frozen=True)
class RecordChanges:
    """How the records of a split differ from those of another dataset: their names, sorted.

    Attributes:
        added: those that were in no split.
        removed: those that are in no split any more.
        relabelled: those with the same image and another label.
        redrawn: those with another image.
        arrived: those that were in another split.
        departed: those that are in another split now.
    """

    added: tuple[str, ...]
    removed: tuple[str, ...]
    relabelled: tuple[str, ...]
    redrawn: tuple[str, ...]
    arrived: tuple[str, ...] = ()
    departed: tuple[str, ...] = ()

    def __str__(self) -> str:
        named = {
            "added": self.added,
            "removed": self.removed,
            "relabelled": self.relabelled,
            "redrawn": self.redrawn,
            "from other splits": self.arrived,
            "gone to other splits": self.departed,
        }
        return "; ".join(f"{len(names)} {what}: {_some(names)}" for what, names in named.items() if names)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")


def entry_of(payload: bytes, origin: str) -> ManifestEntry:
    """The entry of a `tf.train.Example`: what is not its name or image is its label. Of others, all is the label."""
    try:
        fields = Fields(payload, origin)
        names = fields.names()
        called = [fields.first_bytes(each, b"").decode(errors="replace") for each in names if each in _NAMES]
    except SchemaError:
        return ManifestEntry(origin, "", hashlib.blake2b(payload, digest_size=8).hexdigest())
    image, label = [each for each in names if each in _IMAGE], [each for each in names if each not in _NAMES | _IMAGE]
    return ManifestEntry(next(iter(called), ""), fields.digest(image), fields.digest(label))


def write(path: Path, splits: Mapping[str, Iterable[ManifestEntry]]) -> None:
    """Write a manifest, a line for each record in the order of the shards; equal ones give equal bytes."""
    lines = (msgspec.json.encode([split, *entry]) for split, entries in splits.items() for entry in entries)
    files.write_atomically(path, gzip.compress(b"\n".join(lines) + b"\n", mtime=0))


def packed_bytes(path: Path) -> bytes:
    """A manifest as it lies on the disk.

    Raises:
        OSError: it cannot be read, or is larger than one of ten million records.
    """
    files.check_regular(path, _LARGEST)
    return path.read_bytes()


def read(path: Path) -> dict[str, list[ManifestEntry]]:
    """The entries of each split.

    Raises:
        ValueError: it is no manifest.
        OSError: it cannot be read.
    """
    packed, unpacker = packed_bytes(path), zlib.decompressobj(wbits=31)
    try:
        text = unpacker.decompress(packed, _MAX_RATIO * len(packed) + 1)
        lines = msgspec.json.Decoder(tuple[str, str, str, str]).decode_lines(text)
    except (zlib.error, msgspec.DecodeError) as error:
        raise ValueError(error) from None
    if not unpacker.eof:
        message = "it was cut short, or is too large"
        raise ValueError(message)
    found: dict[str, list[ManifestEntry]] = {}
    for split, *entry in lines:
        found.setdefault(split, []).append(ManifestEntry(*entry))
    return found


def changes(
    before: Mapping[str, Sequence[ManifestEntry]], now: Mapping[str, Sequence[ManifestEntry]], split: str
) -> RecordChanges | None:
    """How the records of a split differ from those of before, by their names; None where they are the same, in any
    order. A record whose image is in another split has moved.
    """
    old, new = _by_name(before.get(split, ())), _by_name(now.get(split, ()))
    there, here = _outside(before, split), _outside(now, split)
    both = sorted(old.keys() & new.keys())
    added, arrived = _parted(new, new.keys() - old.keys(), there)
    removed, departed = _parted(old, old.keys() - new.keys(), here)
    found = RecordChanges(
        added,
        removed,
        tuple(name for name in both if old[name].image == new[name].image and old[name].label != new[name].label),
        tuple(name for name in both if old[name].image != new[name].image),
        arrived,
        departed,
    )
    return found if str(found) else None


def _outside(splits: Mapping[str, Sequence[ManifestEntry]], split: str) -> set[str]:
    """The digests of the images of all other splits."""
    return {each.image for name, entries in splits.items() if name != split for each in entries} - {""}


def _parted(
    entries: Mapping[str, ManifestEntry], names: Iterable[str], elsewhere: set[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of records that are in no other split, and of those that are."""
    moved = sorted(name for name in names if entries[name].image in elsewhere)
    return tuple(sorted({*names} - {*moved})), tuple(moved)


def _by_name(entries: Sequence[ManifestEntry]) -> dict[str, ManifestEntry]:
    found, counts = {}, Counter[str]()
    for entry in sorted(entries):
        counts[entry.name] += 1
        again = f" ({counts[entry.name]})" if counts[entry.name] > 1 else ""
        found[f"{entry.name}{again}"] = entry
    return found

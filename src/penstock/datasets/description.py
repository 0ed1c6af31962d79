"""`dataset.json`: what a folder of shards holds, so that nobody has to type it again."""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from penstock import files
from penstock.custom import carried, import_path_of
from penstock.datasets.bounds import Bits, Channels, Count, LabelId, Side
from penstock.datasets.class_lists import check_letters
from penstock.datasets.listing import PACKED, is_plain
from penstock.datasets.occurrences import read_occurrences
from penstock.datasets.verification import Verdict, verify
from penstock.errors import DatasetError
from penstock.images import PixelFormat
from penstock.kinds import KINDS, Kind, find_kind
from penstock.progress import counted, silent
from penstock.records import read_all
from penstock.records.manifest import NAME as MANIFEST
from penstock.records.manifest import ManifestEntry, entry_of
from penstock.sources import FilesSource
from penstock.values import Snapshot

_LARGEST: Final = 1 << 28  # bytes of dataset.json
_FORMAT: Final = 2  # of dataset.json
_FILE_NAME: Final = re.compile(r"[^./\\\x00-\x1f\x7f-\x9f*?\[][^/\\\x00-\x1f\x7f-\x9f*?\[]*")
"""Of a shard: no path, no pattern of several files, and nothing that a terminal obeys."""


@dataclass(frozen=True)
class ShardInfo:
    """One shard.

    Attributes:
        name: of the file.
        records: how many there are.
        key: a hash over what was packed: names, images and labels, in order.
        digest: a hash over the records as written, lengths and checksums in order; what its index says.
        occurrences: a hash of the file beside it that says which classes its records have.
    """

    name: str
    records: Count
    key: str
    digest: str = ""
    occurrences: str = ""


@dataclass(frozen=True)
class SplitInfo:
    """One split.

    Attributes:
        records: how many there are.
        shards: where they are, in order.
        height, width: the largest upright image's, each by itself, in pixels.
        objects: the most objects in an image, for detection and instances.
        slices: the most slices in a volume; 0 where the records are images.
        per_class: of every class, pixels for segmentation, images for classification, objects for detection and
            instances.
        image_pixels: of every class, the labelled pixels of the images that it occurs in; of segmentation alone.
    """

    records: Count
    shards: tuple[ShardInfo, ...]
    height: Side
    width: Side
    per_class: tuple[Count, ...]
    objects: Count = 0
    slices: Side = 0
    image_pixels: tuple[Count, ...] = ()

    def joined(self, other: SplitInfo) -> SplitInfo:
        """This one and another behind it."""
        return SplitInfo(
            self.records + other.records,
            (*self.shards, *other.shards),
            max(self.height, other.height),
            max(self.width, other.width),
            tuple(map(sum, zip(self.per_class, other.per_class, strict=True))),
            max(self.objects, other.objects),
            max(self.slices, other.slices),
            tuple(map(sum, zip(self.image_pixels, other.image_pixels, strict=False))),
        )


@dataclass(frozen=True)
class Description:
    """The content of dataset.json.

    Attributes:
        task: the name of the kind of its records, which says what can be learnt.
        classes: names by id.
        ignore_label: the id that does not count; only segmentation has one.
        splits: by name.
        layout: what the data was packed from.
        content: a hash over the description without `layout`, `code` and the hashes of single files.
        original: of every class, the id that it had in the raw masks; empty where it was the same.
        mapping: of raw ids, old to new, as they were packed.
        channels, bits: of the images; bits are 8 or 16 per channel.
        colors: (red, green, blue) of every class, from the legend of masks in colour; empty where there was none, and
            not written then.
        value_range: the values of TIFF and DICOM images that became 0 and 65535; None where they were taken as they
            are, and not written then.
        mean, std: of every channel over all pixels of the training split, as fractions of the highest value; empty
            where nobody measured them.
        modalities: of the volumes that were packed; 0 where it was images.
        format: of this file.
        code: of a custom kind: the hash of its file, by its path in the folder.
        home: the folder that `task` counts from, where it is a place; not written.
    """

    task: str
    classes: tuple[str, ...]
    ignore_label: LabelId
    splits: dict[str, SplitInfo]
    layout: str
    content: str = ""
    original: tuple[int, ...] = ()
    channels: Channels = 3
    bits: Bits = 8
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    modalities: Channels = 0
    mapping: tuple[tuple[int, int], ...] = ()
    format: int = _FORMAT
    value_range: tuple[float, float] | None = None
    code: dict[str, str] = field(default_factory=dict)
    home: str = ""
    colors: tuple[tuple[LabelId, LabelId, LabelId], ...] = ()

    @property
    def of_raw(self) -> dict[int, int]:
        """The id of a class by its id in the raw masks, where they differ."""
        return dict(self.mapping) or {raw: label for label, raw in enumerate(self.original)}

    @property
    def pixel_format(self) -> PixelFormat:
        """Channels and bits of the images."""
        return PixelFormat(self.channels, self.bits, self.value_range)

    @property
    def kind(self) -> Kind:
        """The kind of its records.

        Raises:
            DatasetError: its code is elsewhere: topics carry none.
        """
        place = import_path_of(self.task)
        if place and not self.home:
            raise DatasetError(
                "task",
                expected=f"one of {', '.join(KINDS)}, as topics carry no code",
                found=self.task,
                remedy="Train on the dataset that was published",
            )
        return find_kind(self.task, self.home)

    def as_json(self) -> dict[str, Any]:
        """As JSON can hold it."""
        content = asdict(self)
        del content["home"]
        unsaid: dict[str, Any] = {"code": {}, "value_range": None, "colors": ()}
        return {name: value for name, value in content.items() if name not in unsaid or value != unsaid[name]}

    def digest(self) -> str:
        """The hash that `content` should hold."""
        splits = {
            name: replace(split, shards=tuple(replace(shard, digest="", occurrences="") for shard in split.shards))
            for name, split in self.splits.items()
        }
        whole = replace(self, splits=splits, content="", layout="", code={}, home="")
        return hashlib.blake2b(msgspec.json.encode(whole.as_json(), order="sorted"), digest_size=16).hexdigest()


def _instead_of(folder: Path) -> str:
    """What is there in place of a packed dataset."""
    if folder.is_dir():
        return "a folder without one"
    return "a file" if folder.exists() else "no such folder"


def check_task(task: str, where: str, code: Mapping[str, str]) -> None:
    """Refuse records of a kind that is neither built in nor in the code that a dataset carries.

    Raises:
        DatasetError: it is none of `KINDS`.
    """
    place = import_path_of(task)
    if task not in KINDS and not (place and place.source in code):
        raise DatasetError(
            f"{where}: task",
            expected=f"one of {', '.join(KINDS)}",
            found=task,
            remedy="Pack the dataset with this version of Penstock",
        )


@dataclass(frozen=True)
class FolderDataset:
    """A packed dataset: its folder and its description."""

    folder: Path
    description: Description

    @property
    def name(self) -> str:
        """The folder's."""
        return self.folder.name

    @property
    def medium(self) -> str:
        """What keeps its records, in words."""
        return "TFRecord shards"

    @property
    def manifest(self) -> Path | None:
        """The file that names its records, with digests; None where it was packed without."""
        path = self.folder / MANIFEST
        return path if path.is_file() else None

    def entries(self, split: str) -> Iterator[ManifestEntry]:
        """What a manifest says of the records of a split, read from its shards."""
        for shard in self.split(split).shards:
            for record in read_all(self.folder / shard.name):
                yield entry_of(record.payload, record.origin)

    def place(self, split: str) -> str:
        """Where the records of a split are, in words."""
        return counted(len(self.split(split).shards), "shard")

    @classmethod
    def open(cls, folder: Path) -> FolderDataset:
        """Read a dataset's description.

        Raises:
            DatasetError: there is none, or it does not make sense.
            RunError: it carries code that was changed, or that nobody trusts.
        """
        path = folder / PACKED
        try:
            files.check_regular(path, _LARGEST)
            description = msgspec.json.decode(path.read_bytes(), type=Description)
        except OSError:
            raise DatasetError(
                str(folder),
                expected=f"a packed dataset, with a {PACKED}",
                found=_instead_of(folder),
                remedy=_remedy(folder),
            ) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise DatasetError(
                str(path),
                expected="a description of a dataset",
                found="values nested too deeply"
                if isinstance(error, RecursionError)
                else f"invalid contents ({error})",
                remedy="Restore it, or pack the dataset again into another folder",
            ) from None
        if description.format != _FORMAT:
            raise DatasetError(
                str(path),
                expected=f"a description of format {_FORMAT}",
                found=f"one of format {description.format}",
                remedy="Pack the dataset again with this version of Penstock into another folder",
            )
        if description.content != description.digest() or not all(s.shards for s in description.splits.values()):
            raise DatasetError(
                str(path),
                expected=f"a description whose content is {description.digest()}",
                found=f"{description.content or 'none'}: it was edited",
                remedy="Restore it, or pack the dataset again into another folder",
            )
        if odd := [name for name in description.splits if not is_plain(name)]:
            raise DatasetError(
                str(path),
                expected="splits with plain names, which become parts of the names of files",
                found=repr(odd[0]),
                remedy="Pack the dataset again into another folder",
            )
        names = (shard.name for split in description.splits.values() for shard in split.shards)
        if (wrong := next((name for name in names if not _FILE_NAME.fullmatch(name)), None)) is not None:
            raise DatasetError(
                str(path),
                expected="shards with plain names of files in this folder",
                found=repr(wrong),
                remedy="Pack the dataset again into another folder",
            )
        check_letters(description.classes, str(path))
        check_task(description.task, str(path), description.code)
        carried.check(folder, description.code)
        return cls(folder, replace(description, home=str(folder.resolve())))

    def save(self) -> None:
        """Write the description, atomically."""
        files.write_atomically(self.folder / PACKED, files.to_json(self.description.as_json()))

    def split(self, name: str) -> SplitInfo:
        """One split's description, or that of several together: "train+val".

        Raises:
            DatasetError: there is no such split.
        """
        parts = name.split("+")
        if not set(parts) <= set(self.description.splits) or len(set(parts)) < len(parts):
            found = ", ".join(self.description.splits)
            remedy = "Choose one of them"
            if name == "val" and [*self.description.splits] == ["train"]:
                remedy = (
                    "Pack again with --validation 0.1 to set a tenth of train aside, or train without evaluation: "
                    "--set data.validation=''"
                )
            raise DatasetError(
                str(self.folder), remedy=remedy, message=f"{self.folder} has no split named {name}, only {found}."
            )
        return functools.reduce(SplitInfo.joined, (self.description.splits[part] for part in parts))

    @property
    def splits(self) -> tuple[str, ...]:
        """The names of its splits."""
        return tuple(self.description.splits)

    def verify(
        self, splits: Sequence[str] = (), *, threads: int = 0, progress: Callable[[int, int], None] = silent
    ) -> Verdict:
        """Read every record of some splits, by default of all."""
        return verify(self, splits, threads=threads, progress=progress)

    @property
    def first_record(self) -> None:
        """dataset.json says what the records hold."""
        return

    def occurrences(self, split: str) -> NDArray[np.bool_]:
        """Which classes every record of a split has: bool (records, classes), in the snapshot's order.

        Raises:
            DatasetError: the dataset was packed without this list.
        """
        classes = len(self.description.classes)
        shards = self.split(split).shards
        return np.concatenate(
            [read_occurrences(self.folder / each.name, each.records, classes, each.occurrences) for each in shards]
        )

    def source(self, split: str) -> FilesSource:
        """The records of one split."""
        return FilesSource(*(self.folder / shard.name for shard in self.split(split).shards))

    def snapshot(self, split: str, source: FilesSource, pinned: Snapshot | None = None) -> Snapshot:
        """All records of one split, once they are known to be those that were packed: shards do not change, so a
        snapshot of before is not needed.

        Raises:
            DatasetError: a shard holds others.
            CorruptRecord: a shard is damaged in a way that its headers show.
        """
        found = source.snapshot()
        for partition, shard in zip(found.partitions, self.split(split).shards, strict=True):
            if shard.digest not in ("", partition.fingerprint):
                raise DatasetError(
                    str(self.folder / shard.name),
                    expected=f"the {counted(shard.records, 'record')} that {PACKED} describes ({shard.digest[:12]})",
                    found=f"{len(partition):,} others ({partition.fingerprint[:12]})",
                    remedy="Restore the shard, or pack the dataset again",
                )
        return found


def _remedy(folder: Path) -> str:
    """What to do about a folder that holds no dataset."""
    if (recipe := folder / "recipe.toml").is_file():
        return (
            f"It is a run: resume it with penstock train --resume {folder}, or train anew with penstock train {recipe}"
        )
    return "Make one with penstock pack FOLDER -o DIR"

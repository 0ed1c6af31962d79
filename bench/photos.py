"""The photographs that the feed is measured on: as shards, and the very same bytes as files for peers that want files."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

import common

from penstock.datasets import LayoutOptions, PackOptions, inspect, pack, scenes
from penstock.kinds.fields import decode_segmentation
from penstock.sources import FilesSource

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Photos:
    """Made-up scenes.

    Attributes:
        size: (height, width) of each.
        count: how many there are.
        seekable: whether they are packed with restart markers.
    """

    size: tuple[int, int]
    count: int
    seekable: bool = False


SETS = {
    "photos": Photos(*common.sized(((375, 500), 1000), ((60, 80), 8))),
    "seekable": Photos(*common.sized(((375, 500), 1000), ((60, 80), 8)), seekable=True),
    "large": Photos(*common.sized(((1024, 1024), 200), ((64, 64), 4))),
    "large-seekable": Photos(*common.sized(((1024, 1024), 200), ((64, 64), 4)), seekable=True),
    "huge": Photos(*common.sized(((3000, 4000), 128), ((96, 128), 4))),
    "huge-seekable": Photos(*common.sized(((3000, 4000), 128), ((96, 128), 4)), seekable=True),
}


def made(work: Path, name: str) -> Path:
    """The folder of a set, which is made where it is not there."""
    folder, raw, photos = work / name, work / f"{name}-raw", SETS[name]
    if (folder / "files").is_dir():
        return folder
    scenes.write_folder(raw, {"train": photos.count}, photos.size, seed=1)
    pack(inspect(raw, how=LayoutOptions(seekable=photos.seekable)), folder, PackOptions(shard_bytes=16 << 20))
    shutil.rmtree(raw)
    files = work / f"{name}-files"
    files.mkdir(exist_ok=True)
    source = FilesSource(*sorted(folder.glob("*.tfrecord")))
    for partition in source.snapshot().partitions:
        for record in source.read(partition.name, partition.start, partition.stop):
            fields = decode_segmentation(record)
            (files / f"{fields.name}.jpg").write_bytes(fields.image)
            (files / f"{fields.name}.png").write_bytes(fields.mask)
    files.rename(folder / "files")
    return folder

"""TFRecord shards on local disk as a source: every shard is a partition, every record number an offset."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path

from penstock.errors import SourceError
from penstock.records import Shard, open_shard
from penstock.values import Partition, Record, Snapshot


class FilesSource:
    """Shards named by paths and globs (`*`, `?`, `[...]`, `**`), in sorted order, each once."""

    def __init__(self, *patterns: str | os.PathLike[str]) -> None:
        self.patterns: Sequence[str] = [os.fspath(pattern) for pattern in patterns]

    def __repr__(self) -> str:
        return f"FilesSource({', '.join(map(repr, self.patterns))})"

    @cached_property
    def shards(self) -> dict[str, Shard]:
        """The shards by partition name, opened (and indexed where needed) in parallel at the first use.

        Raises:
            SourceError: a pattern matches nothing, or a file cannot be opened.
            CorruptRecord: a shard is damaged in a way that its headers show.
        """
        names = _names([path for pattern in self.patterns for path in _expand(pattern)])
        with ThreadPoolExecutor(min(8, len(names))) as pool:
            opened = pool.map(open_shard, names.values(), names)
            return {shard.name: shard for shard in opened}

    def snapshot(self) -> Snapshot:
        """All records of all shards; the fingerprint of a shard is the digest of its index."""
        partitions = (Partition(name, 0, len(shard), shard.index.digest) for name, shard in self.shards.items())
        return Snapshot(" ".join(self.patterns), tuple(partitions))

    def read(self, partition: str, start: int, stop: int) -> Iterator[Record]:
        """The records `[start, stop)` of a shard, in order, both checksums verified."""
        if partition not in self.shards:
            raise SourceError(
                " ".join(self.patterns),
                expected=f"a shard named {partition}",
                found=f"{len(self.shards)} others",
                remedy="Open the same files that the snapshot was taken from",
            )
        return self.shards[partition].read(start, stop)


def _expand(pattern: str) -> list[Path]:
    if Path(pattern).is_file():  # first, as a folder's own name may hold a bracket
        return [Path(pattern)]
    if not glob.has_magic(pattern):
        raise SourceError(
            pattern,
            expected="a TFRecord file",
            found="a folder" if Path(pattern).is_dir() else "nothing",
            remedy="Name the file, or give a glob such as 'DIR/train-*.tfrecord'",
        )
    found = (Path(match) for match in glob.glob(pattern, recursive=True))  # noqa: PTH207 - patterns may be absolute
    if paths := sorted(path for path in found if path.is_file() and path.suffix != ".index"):
        return paths
    raise SourceError(
        pattern,
        expected="files that match the pattern",
        found="none",
        remedy="Check the folder and the pattern; quote it so that the shell leaves it alone",
    )


def _names(paths: Sequence[Path]) -> dict[str, Path]:
    """Partition names: the file names where they are distinct, else the paths below the common folder."""
    unique = list({path.resolve(): path.absolute() for path in paths}.values())
    if len({path.name for path in unique}) == len(unique):
        return {path.name: path for path in unique}
    root = os.path.commonpath([path.parent for path in unique])
    return {path.relative_to(root).as_posix(): path for path in unique}

"""Checkpoints that a run can do without: which they are, how much room they take, and their removal."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from penstock import files
from penstock.runs import manifests
from penstock.runs.folder import RunFolder
from penstock.runs.listing import DAMAGED, RUNNING, summarize

_ENDED: Final = frozenset({"finished", "stopped"})
"""States of runs that nobody is likely to go on with; of others the last checkpoint stays too."""


@dataclass(frozen=True)
class Prunable:
    """Checkpoints of a run beside its best ones; beside its last one, where none is the best or it has not ended.

    Attributes:
        folder: of the run.
        kept: the checkpoints that stay, the best one first.
        checkpoints: those that may go, the oldest first.
        bytes: that they take.
    """

    folder: RunFolder
    kept: tuple[str, ...]
    checkpoints: tuple[Path, ...]
    bytes: int


def prunable(paths: Sequence[Path]) -> list[Prunable]:
    """What may go of each run that has no tag, is not being trained, and has something to spare."""
    own = (path for path in paths if not path.is_symlink())  # which another folder has
    runs = [run for run in map(summarize, own) if not run.tags and run.state not in {RUNNING, DAMAGED}]
    found = (_of(RunFolder(run.path), has_ended=run.state in _ENDED) for run in runs)
    return [each for each in found if each.checkpoints]


def prune(run: Prunable) -> None:
    """Remove what may go of a run. Each checkpoint goes as a whole: one that is half removed looks like none.

    Raises:
        RunError: another process trains the run.
        CheckpointError: a checkpoint that is to stay is damaged.
    """
    with run.folder.locked():
        for name in run.kept:
            manifests.check(run.folder.checkpoints / name)
        last = run.folder.checkpoints / "last"
        if last.is_symlink() and last.resolve().name not in run.kept:
            files.link_atomically(last, run.kept[0])
        for path in run.checkpoints:
            trash = path.with_name(f".{path.name}.old.partial")
            shutil.rmtree(trash, ignore_errors=True)  # of a process that was killed
            path.rename(trash)
            shutil.rmtree(trash)


def _of(folder: RunFolder, *, has_ended: bool) -> Prunable:
    folders = (path for path in folder.checkpoints.iterdir() if path.is_dir() and not path.is_symlink())
    there = sorted(path for path in folders if _is_checkpoint(path.name) and _holds_nothing_else(path))
    others = sorted(path.name for path in folder.checkpoints.glob("best-*"))
    best, last = _marked(folder, ["best", *others]), _marked(folder, ["last"])
    kept = tuple(dict.fromkeys(best if has_ended and best else [*best, *last]))
    spare = tuple(path for path in there if path.name not in kept) if kept else ()
    sizes = (file.stat().st_size for path in spare for file in path.iterdir())
    return Prunable(folder, kept, spare, sum(sizes))


def _marked(folder: RunFolder, links: Sequence[str]) -> list[str]:
    """The checkpoints that links point at, those that are there."""
    found = [(folder.checkpoints / link).resolve().name for link in links]
    return [name for name in found if (folder.checkpoints / name).is_dir() and _is_checkpoint(name)]


def _holds_nothing_else(path: Path) -> bool:
    """Whether a folder holds a checkpoint, and no file of the user's."""
    names = {each.name for each in path.iterdir()}
    return "manifest.json" in names and all(each.endswith((".json", ".safetensors")) for each in names)


def _is_checkpoint(name: str) -> bool:
    """Whether a folder is called as checkpoints are, and not as somebody's copy of one."""
    return re.fullmatch(r"step-\d{8,}", name) is not None

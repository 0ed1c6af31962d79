"""Checkpoints: written under a temporary name, synced, hashed, and renamed; `last` moves only then.

checkpoints/step-00002000/{model.safetensors, ema.safetensors, optimizer.safetensors, state.json, manifest.json}
checkpoints/last -> step-00002000, best -> step-00001500
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch

from penstock import files
from penstock.errors import CheckpointError
from penstock.runs import manifests
from penstock.session import state as states

_LINKS: Final = ("last", "best")
_DEEPEST: Final = 50  # levels of a state


@dataclass(frozen=True)
class Checkpoint:
    """A saved state.

    Attributes:
        tensors: named tensors, by the file they are kept in ("model", "ema", "optimizer").
        state: everything else, as JSON can hold it.
    """

    step: int
    tensors: Mapping[str, Mapping[str, torch.Tensor]]
    state: Mapping[str, Any]


@dataclass(frozen=True)
class CheckpointStore:
    """The checkpoints of a run; `keep` of them, and those that are marked, are kept."""

    folder: Path
    keep: int = 2

    def save(self, checkpoint: Checkpoint) -> Path:
        """Write a checkpoint, make it the last, remove what is too old. A crash at any point leaves `last` whole."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.sweep()
        final = self.folder / f"step-{checkpoint.step:08d}"
        temporary = self.folder / f".{final.name}.{os.getpid()}.partial"
        temporary.mkdir()
        for name, tensors in checkpoint.tensors.items():
            states.write_tensors(temporary / f"{name}.safetensors", tensors)
        state = {**checkpoint.state, "tensors": _counted(checkpoint.tensors)}
        files.write_synced(temporary / "state.json", files.to_json(state))
        manifests.write(temporary, checkpoint.step)
        files.sync_folder(temporary)
        if final.exists():  # of a run that was killed before `last` moved here
            self._discard(final)
        temporary.rename(final)
        files.sync_folder(self.folder)
        self._point("last", final.name)
        self._prune()
        return final

    def mark(self, name: str, step: int) -> None:
        """Point a name, such as `best`, at the checkpoint of a step; the one that had it before may go."""
        self._point(name, f"step-{step:08d}")
        self._prune()

    def _point(self, link: str, target: str) -> None:
        path = self.folder / link
        if path.is_dir() and not path.is_symlink():  # a run that was copied with its links followed
            shutil.rmtree(path)
        files.link_atomically(path, target)

    def load(self, name: str = "last") -> Checkpoint | None:
        """A checkpoint by name: "last", "best", or "step-00002000"; None when "last" was never saved. In a run that was
        copied without its links, the newest is the last.

        Raises:
            CheckpointError: it is not there, or damaged; the error names those that are sound.
        """
        path = self._place(name)
        if path is None:
            return None
        try:
            return _read(path)
        except CheckpointError as error:
            raise self._with_others(error, path) from error

    def load_newest(self) -> tuple[Checkpoint | None, list[CheckpointError]]:
        """The last checkpoint or, where that is damaged, the newest one that is sound, and what is wrong with those
        that are newer; None when none was ever saved.

        Raises:
            CheckpointError: all there are are damaged.
        """
        try:
            return self.load(), []
        except CheckpointError as error:
            faults = [error]
        first = faults[0]
        for name in reversed(self.names()):
            try:
                return _read(self.folder / name), faults
            except CheckpointError as error:
                faults = [*faults, error] if error.where != first.where else faults
        raise first

    def _place(self, name: str) -> Path | None:
        """The folder of a checkpoint by name; None when "last" was never saved."""
        path = self.folder / name
        if not _exists(path):
            if name != "last" or (path.is_symlink() and not self.names()):
                raise self._missing(path)
            return self.folder / self.names()[-1] if self.names() else None
        return self.folder / path.resolve().name if path.is_symlink() else path  # a link that a training may move

    def _with_others(self, error: CheckpointError, path: Path) -> CheckpointError:
        """The error with the names of the checkpoints that could be used instead."""
        sound = [name for name in self.names() if name != path.name and _is_sound(self.folder / name)]
        remedy = (
            f"Choose a sound one with --checkpoint: {', '.join(sound)}" if sound else "No other checkpoint is sound"
        )
        return CheckpointError(error.where, expected=error.expected, found=error.found, remedy=remedy)

    def rewind(self, checkpoint: Checkpoint) -> None:
        """Make an earlier checkpoint the last one: what the run saved after it goes."""
        name, later = f"step-{checkpoint.step:08d}", self.after(checkpoint.step)
        if not (self.folder / name).is_dir() or (not later and (self.folder / "last").resolve().name == name):
            return
        self._point("last", name)
        best = checkpoint.state.get("best")
        if best and (self.folder / f"step-{best[0]:08d}").is_dir():
            self._point("best", f"step-{best[0]:08d}")
        elif (self.folder / "best").is_symlink():
            (self.folder / "best").unlink()
        for other in later:
            self._discard(self.folder / other)
        for path in self.folder.glob("best-*"):
            if not path.exists():
                path.unlink()

    def after(self, step: int) -> list[str]:
        """The checkpoints of later steps."""
        return [name for name in self.names() if name > f"step-{step:08d}"]

    def names(self) -> list[str]:
        """The checkpoints there are, oldest first."""
        return sorted(path.name for path in self.folder.glob("step-*") if path.is_dir())

    @property
    def newest(self) -> int:
        """The step of the newest checkpoint; 0 where there is none."""
        return max((int(name.removeprefix("step-")) for name in self.names()), default=0)

    def _missing(self, path: Path) -> CheckpointError:
        return CheckpointError(
            str(path),
            expected=f"a checkpoint: last, best or one of {', '.join(self.names()) or '(none saved yet)'}",
            found=f"a link to {path.readlink().name}, which is none" if path.is_symlink() else "no such checkpoint",
            remedy="Choose one of them",
        )

    def _prune(self) -> None:
        kept = {path.resolve().name for path in self.folder.iterdir() if path.is_symlink() or path.name in _LINKS}
        for name in self.names()[: -self.keep]:
            if name not in kept:
                self._discard(self.folder / name)

    def _discard(self, path: Path) -> None:
        """Rename first: a half-removed checkpoint must not look like one."""
        trash = path.with_name(f".{path.name}.old.partial")
        if trash.exists():
            shutil.rmtree(trash)
        path.rename(trash)
        shutil.rmtree(trash)

    def sweep(self) -> None:
        """Remove what a killed process left half written, or half removed; only whoever trains the run may."""
        for leftover in files.leftovers(self.folder):
            if leftover.is_symlink() or leftover.is_file():
                leftover.unlink()
            else:
                shutil.rmtree(leftover)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a link to itself
        return False


def _read(path: Path) -> Checkpoint:
    """The checkpoint in a folder, once it is known to be whole."""
    step, names = manifests.check(path)
    tensors = {
        file.removesuffix(".safetensors"): states.read_tensors(path / file)
        for file in names
        if file.endswith(".safetensors")
    }
    state = manifests.read_json(path / "state.json")
    if not isinstance(state, dict):
        raise manifests.damaged(path / "state.json", "the state of a training", "something else")
    if _is_deep(state):
        raise manifests.damaged(path / "state.json", "the state of a training", "values nested too deeply")
    found = _counted(tensors)
    if state.pop("tensors", found) != found:  # 0.2.0 did not count them
        text = ", ".join(f"{count} in {file}.safetensors" for file, count in found.items())
        raise manifests.damaged(path, "as many tensors as state.json counts", text)
    return Checkpoint(step, tensors, state)


def _is_deep(value: Any) -> bool:
    """Whether values are nested deeper than any hook's state is, so that copying them would end in a traceback."""
    level = [value]
    for _ in range(_DEEPEST):
        level = [inner for each in level for inner in (each.values() if isinstance(each, dict) else each)]
        level = [each for each in level if isinstance(each, dict | list)]
    return bool(level)


def _counted(tensors: Mapping[str, Mapping[str, torch.Tensor]]) -> dict[str, int]:
    """How many tensors each file has: an optimizer without its state would begin anew in silence."""
    return {file: len(named) for file, named in tensors.items()}


def _is_sound(path: Path) -> bool:
    try:
        _read(path)
    except CheckpointError:
        return False
    return True

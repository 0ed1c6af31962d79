"""Checkpoints: written under a temporary name, synced, hashed, and renamed; `last` moves only then.

checkpoints/step-00002000/{model.safetensors, ema.safetensors, optimizer.safetensors, state.json, manifest.json}
checkpoints/last -> step-00002000, best -> step-00001500
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock import files
from penstock.errors import CheckpointError
from penstock.session import state as states

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import torch


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
    """The checkpoints of a run; `keep` of them, and the best one, are kept."""

    folder: Path
    keep: int = 2

    def save(self, checkpoint: Checkpoint) -> Path:
        """Write a checkpoint, make it the last, remove what is too old. A crash at any point leaves `last` whole."""
        self._sweep()
        final = self.folder / f"step-{checkpoint.step:08d}"
        temporary = self.folder / f".{final.name}.{os.getpid()}.partial"
        temporary.mkdir()
        for name, tensors in checkpoint.tensors.items():
            states.write_tensors(temporary / f"{name}.safetensors", tensors)
        files.write_synced(temporary / "state.json", files.to_json(dict(checkpoint.state)))
        hashes = {path.name: files.sha256(path) for path in sorted(temporary.iterdir())}
        manifest = {"format": 1, "step": checkpoint.step, "sha256": hashes}
        files.write_synced(temporary / "manifest.json", files.to_json(manifest))
        files.sync_folder(temporary)
        if final.exists():  # of a run that was killed before `last` moved here
            self._discard(final)
        temporary.rename(final)
        files.sync_folder(self.folder)
        self._point("last", final.name)
        self._prune()
        return final

    def mark_best(self, step: int) -> None:
        """Point `best` at the checkpoint of a step; the one that was best before may go."""
        self._point("best", f"step-{step:08d}")
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
            CheckpointError: it is not there, or a file's hash is not the one in its manifest.
        """
        path = self.folder / name
        if not path.exists():
            if name != "last" or path.is_symlink():
                raise self._missing(path)
            if not self.names():
                return None
            path = self.folder / self.names()[-1]
        path = self.folder / path.resolve().name if path.is_symlink() else path  # which a training may move
        manifest = _read_json(path / "manifest.json")
        if not _is_whole(manifest):
            raise CheckpointError(
                str(path / "manifest.json"),
                expected="a manifest that names the checkpoint's step and files",
                found="something else",
                remedy="Use another checkpoint of the run, with --checkpoint",
            )
        for file, expected in manifest["sha256"].items():
            _check_hash(path / file, expected)
        tensors = {
            file.removesuffix(".safetensors"): states.read_tensors(path / file)
            for file in manifest["sha256"]
            if file.endswith(".safetensors")
        }
        return Checkpoint(manifest["step"], tensors, _read_json(path / "state.json"))

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

    def after(self, step: int) -> list[str]:
        """The checkpoints of later steps."""
        return [name for name in self.names() if name > f"step-{step:08d}"]

    def names(self) -> list[str]:
        """The checkpoints there are, oldest first."""
        return sorted(path.name for path in self.folder.glob("step-*") if path.is_dir())

    def _missing(self, path: Path) -> CheckpointError:
        return CheckpointError(
            str(path),
            expected=f"a checkpoint: last, best or one of {', '.join(self.names()) or '(none saved yet)'}",
            found="nothing of that name",
            remedy="Name one of those",
        )

    def _prune(self) -> None:
        kept = {(self.folder / link).resolve().name for link in ("last", "best")}
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

    def _sweep(self) -> None:
        """Remove what a killed process left half written."""
        for leftover in self.folder.glob(".*.partial"):
            if leftover.is_symlink() or leftover.is_file():
                leftover.unlink()
            else:
                shutil.rmtree(leftover)


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise CheckpointError(
            str(path), expected="a readable JSON file", found=str(error), remedy="Use another checkpoint of the run"
        ) from error


def _is_whole(manifest: Any) -> bool:
    """Whether a manifest says which step it is of, and the hashes of the files that there must be."""
    hashes = manifest.get("sha256") if isinstance(manifest, dict) else None
    if not isinstance(hashes, dict) or not all(isinstance(each, str) for each in hashes.values()):
        return False
    return type(manifest.get("step")) is int and {"model.safetensors", "state.json"} <= set(hashes)


def _check_hash(path: Path, expected: str) -> None:
    found = files.sha256(path) if path.is_file() else "no such file"
    if found != expected:
        raise CheckpointError(
            str(path),
            expected=f"a file with SHA-256 {expected[:16]}...",
            found=found if found == "no such file" else f"{found[:16]}...",
            remedy="The checkpoint is damaged: use another one with --checkpoint step-NNNNNNNN",
        )

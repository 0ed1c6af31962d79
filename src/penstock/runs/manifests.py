"""The manifest of a checkpoint: its run and step, and the SHA-256 of every file, under a seal. Without torch."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from penstock import files
from penstock.errors import CheckpointError

_NAME: Final = "manifest.json"
_LARGEST: Final = 1 << 26  # bytes of a file of JSON in a checkpoint


def write(folder: Path, step: int) -> None:
    """Write the manifest of the files that are in a folder."""
    hashes = {path.name: files.sha256(path) for path in sorted(folder.iterdir())}
    manifest = {"format": 1, "run": _run_of(folder), "step": step, "sha256": hashes}
    files.write_synced(folder / _NAME, files.to_json({**manifest, "seal": _seal(manifest)}))


def check(folder: Path) -> tuple[int, list[str]]:
    """The step and the files of a checkpoint, once every file is known to be as it was written.

    Raises:
        CheckpointError: one is missing or damaged, or the checkpoint is that of another run.
    """
    manifest = read_json(folder / _NAME)
    if not _is_whole(manifest, folder.name):
        expected = "a sealed manifest that names the checkpoint's step and files"
        raise damaged(folder / _NAME, expected, "something else")
    stated, run = manifest.get("run", ""), _run_of(folder)
    if stated and run and stated != run:
        raise CheckpointError(
            str(folder),
            expected="a checkpoint of this run",
            found="that of another run",
            remedy="Remove it, and use another checkpoint of the run",
        )
    for file, expected in manifest["sha256"].items():
        _check_hash(folder / file, expected)
    return manifest["step"], [*manifest["sha256"]]


def _run_of(checkpoint: Path) -> str:
    """What tells the run of a checkpoint from others, as its settings.json says; "" where it does not."""
    try:
        settings = read_json(checkpoint.parent.parent / "settings.json")
    except CheckpointError:
        return ""
    return str(settings.get("run", "")) if isinstance(settings, dict) else ""


def read_json(path: Path) -> Any:
    """What a JSON file of a checkpoint holds.

    Raises:
        CheckpointError: it cannot be read.
    """
    try:
        files.check_regular(path, _LARGEST)
        return json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise damaged(path, "a JSON file", f"an unreadable one ({error})") from error


def damaged(path: Path, expected: str, found: str) -> CheckpointError:
    """The error for a file of a checkpoint that is not what was saved."""
    remedy = "The checkpoint is damaged: use another one of the run"
    return CheckpointError(str(path), expected=expected, found=found, remedy=remedy)


def _seal(manifest: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps({**manifest, "seal": None}, sort_keys=True).encode()).hexdigest()


def _is_whole(manifest: Any, folder: str) -> bool:
    """Whether a manifest is as it was written: with the hashes of the files that there must be, and the step that its
    folder is named after. A folder of another name is a link that was followed when the run was copied.
    """
    hashes = manifest.get("sha256") if isinstance(manifest, dict) else None
    if not isinstance(hashes, dict) or not {"model.safetensors", "state.json"} <= set(hashes):
        return False
    plain = all(isinstance(digest, str) and "/" not in name and name != ".." for name, digest in hashes.items())
    step, seal = manifest.get("step"), manifest.get("seal")
    names = {f"step-{step:08d}", "last", "best"} if type(step) is int else set()
    return plain and folder in names and seal == _seal(manifest)


def _check_hash(path: Path, expected: str) -> None:
    found = files.sha256(path) if path.is_file() else "no such file"
    if found != expected:
        raise damaged(
            path, f"a file with SHA-256 {expected[:16]}...", found if found == "no such file" else f"{found[:16]}..."
        )

"""What a run depends on besides its recipe: versions, machine, command, source revision."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from penstock import files

_PACKAGES: Final = (
    "penstock",
    "torch",
    "torchvision",
    "timm",
    "segmentation-models-pytorch",
    "numpy",
    "opencv-python-headless",
    "simplejpeg",
    "protobuf",
)
_SAFE: Final = (
    "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "safe.bareRepository=explicit",
)  # fmt: skip
_LARGEST: Final = 1 << 20  # bytes of changes that a run keeps


def environment(folder: Path | None = None) -> dict[str, Any]:
    """A description of this process that can be written as JSON.

    Args:
        folder: of a run, which keeps the changes in the working directory that no git commit has.
    """
    changes = revision = b""
    if not _may_execute():
        changes = _git("diff", "HEAD", "--no-ext-diff", "--no-textconv", "--ignore-submodules=all")
        revision = _git("rev-parse", "HEAD")  # `describe --dirty` would ask submodules, whose settings are their own
    digest = hashlib.sha256(changes).hexdigest()[:16] if changes else None
    if folder and 0 < len(changes) <= _LARGEST:
        files.write_atomically(folder / f"uncommitted-{digest}.patch", changes)
    return {
        "command": sys.argv,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "packages": {name: _version(name) for name in _PACKAGES},
        "revision": revision.decode().strip() + ("-dirty" if changes else "") or None,
        "uncommitted": digest,
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _may_execute() -> bool:
    """Whether settings of the working directory could have git execute something: the folder may be a stranger's."""
    filters = _git("config", "--show-scope", "--name-only", "--get-regexp", r"^filter\.")
    return any(line.startswith((b"local", b"worktree")) for line in filters.splitlines())


def _git(*words: str) -> bytes:
    """What git says in the working directory; nothing where it is none of git's."""
    command = ["git", *_SAFE, *words]
    environment = {**os.environ, "GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none"}
    try:
        return subprocess.run(command, capture_output=True, timeout=5, check=True, env=environment).stdout  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return b""

"""What a run depends on besides its recipe: versions, machine, command, source revision."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import sys
from importlib import metadata
from typing import TYPE_CHECKING, Any, Final

from penstock import files

if TYPE_CHECKING:
    from pathlib import Path

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
    changes = _git("diff", "HEAD", "--no-ext-diff", "--no-textconv", "--ignore-submodules=all")
    digest = hashlib.sha256(changes).hexdigest()[:16] if changes else None
    if folder and 0 < len(changes) <= _LARGEST:
        files.write_atomically(folder / f"uncommitted-{digest}.patch", changes)
    return {
        "command": sys.argv,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "packages": {name: _version(name) for name in _PACKAGES},
        "revision": _revision(),
        "uncommitted": digest,
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _revision() -> str | None:
    """The git commit of the working directory, where there is one."""
    return _git("describe", "--always", "--dirty", "--abbrev=40").decode().strip() or None


def _git(*words: str) -> bytes:
    """What git says in the working directory; nothing where it is none of git's, or where its settings could have git
    execute something: the folder may be a stranger's.
    """
    filters = _called("config", "--show-scope", "--name-only", "--get-regexp", r"^filter\.")
    if any(line.startswith((b"local", b"worktree")) for line in filters.splitlines()):
        return b""
    return _called(*words)


def _called(*words: str) -> bytes:
    command = ["git", *_SAFE, *words]
    environment = {**os.environ, "GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none"}
    try:
        return subprocess.run(command, capture_output=True, timeout=5, check=True, env=environment).stdout  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return b""

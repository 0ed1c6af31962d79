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
_LARGEST: Final = 1 << 20  # bytes of changes that a run keeps


def environment(folder: Path | None = None) -> dict[str, Any]:
    """A description of this process that can be written as JSON.

    Args:
        folder: of a run, which keeps the changes in the working directory that no git commit has.
    """
    changes = _git("diff", "HEAD")
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
    """What git says in the working directory; nothing where it is none of git's."""
    try:
        return subprocess.run(["git", *words], capture_output=True, timeout=5, check=True).stdout  # noqa: S603, S607
    except (OSError, subprocess.SubprocessError):
        return b""

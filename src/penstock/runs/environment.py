"""What a run depends on besides its recipe: versions, machine, command, source revision."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from importlib import metadata
from typing import Any, Final

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


def environment() -> dict[str, Any]:
    """A description of this process that can be written as JSON."""
    return {
        "command": sys.argv,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "packages": {name: _version(name) for name in _PACKAGES},
        "revision": _revision(),
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _revision() -> str | None:
    """The git commit of the working directory, where there is one."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True)  # noqa: S603 - constant
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None

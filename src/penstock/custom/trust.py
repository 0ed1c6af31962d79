"""What this user lets Penstock execute: files by hashes, installed objects by names, recipes by their folders.

What the user has used is trusted; all else once --trust is given. The list is in the user's state folder
(XDG_STATE_HOME); where nothing can be kept there, it holds until the process ends.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Final

from penstock import files

_NOW: Final[set[str]] = set()


def remember(*entries: str) -> None:
    """Trust some entries: hashes, or what `module` and `folder` give."""
    new = [entry for entry in entries if entry not in _trusted()]
    _NOW.update(new)
    with contextlib.suppress(OSError):
        if new:
            path = _list()
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a", encoding="utf-8", errors="surrogateescape") as handle:
                handle.writelines(f"{entry}\n" for entry in new)


def holds(entry: str) -> bool:
    """Whether an entry is trusted."""
    return entry in _trusted()


def module(place: object) -> str:
    """The entry of an installed object, `package.module:NAME`."""
    return f"module {place}"


def folder(path: Path) -> str:
    """The entry of a folder whose recipes may name custom parts."""
    return f"folder {str(path.resolve()).encode(errors='surrogateescape').hex()}"


def _trusted() -> set[str]:
    try:
        return _NOW | set(_list().read_text(encoding="utf-8", errors="surrogateescape").splitlines())
    except OSError:
        return set(_NOW)


def _list() -> Path:
    return files.state_folder() / "trusted"

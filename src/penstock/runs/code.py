"""The code of its own that a run or a dataset carries: files that settings name by their places, copied, with hashes.

Whoever loads such a run executes its code, so that of others must be trusted: what this user has copied before is; all
else only once somebody says so. The hashes of trusted files are in the user's state folder (XDG_STATE_HOME).
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from penstock import files, names
from penstock.errors import RunError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FOLDER: Final = "code"
_TRUSTED_NOW: Final[set[str]] = set()


def keep(place: names.Place, setting: str, folder: Path) -> names.Place:
    """Copy the file of a place, and what it imports from beside it, into a folder, and trust them.

    Args:
        place: absolute, or of a module.
        setting: that names it, for errors.
        folder: of a run or a dataset.

    Returns:
        The place of the copy, counted from the folder.

    Raises:
        RecipeError: the file is not there.
        RunError: another file of the same name was copied before.
    """
    source = names.source_file(place, setting)
    for file in (source, *names.siblings(place)):
        _copy(file, place, setting, folder)
    return names.Place(f"{FOLDER}/{source.name}", place.name)


def _copy(source: Path, place: names.Place, setting: str, folder: Path) -> None:
    copy = folder / FOLDER / source.name
    data = source.read_bytes()
    if copy.exists() and copy.read_bytes() != data:
        raise RunError(
            f"{setting} = {place}",
            expected="files of different names, as all are copied into one folder",
            found=f"another {source.name}",
            remedy="Rename one of them",
        )
    copy.parent.mkdir(exist_ok=True)
    files.write_atomically(copy, data)
    trust(names.digest(copy))


def digests(folder: Path) -> dict[str, str]:
    """The hashes of the files of code that a run or a dataset carries, by their paths in it."""
    return {f"{FOLDER}/{file.name}": names.digest(file) for file in sorted((folder / FOLDER).glob("*.py"))}


def check(folder: Path, stated: Mapping[str, str]) -> None:
    """Whether the code that a folder carries is what was copied, and may be executed.

    Args:
        folder: of a run or a dataset.
        stated: the hashes of its files when they were copied.

    Raises:
        RunError: a file is missing or was changed, or nobody trusts it.
    """
    found = digests(folder)
    for name in {**stated, **found}:
        if found.get(name) != stated.get(name):
            raise RunError(
                str(folder / name),
                expected=f"the code that was copied ({stated.get(name, 'none')[:12]})",
                found=found.get(name, "no such file")[:12],
                remedy="Restore it, or start a new run from its weights with --init RUN",
            )
    for name, digest in found.items():
        if digest not in _trusted():
            raise RunError(
                str(folder / name),
                expected="code that you have used before, or --trust",
                found="code from elsewhere",
                remedy="Read it, then add --trust, in Python trust=True",
                message=f"{folder / name}: loading {folder} would execute this code, which does not come from you. "
                "Read it, then add --trust, in Python trust=True.",
            )


def trust_folder(folder: Path) -> None:
    """Let the code that a run or a dataset carries be executed, now and later."""
    for digest in digests(folder).values():
        trust(digest)


def trust(digest: str) -> None:
    """Remember that a file may be executed; where nothing can be kept, only until the process ends."""
    if digest in _trusted():
        return
    _TRUSTED_NOW.add(digest)
    with contextlib.suppress(OSError):
        path = _list()
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as handle:
            handle.write(f"{digest}\n")


def _trusted() -> set[str]:
    try:
        return _TRUSTED_NOW | set(_list().read_text().split())
    except (OSError, UnicodeDecodeError):
        return set(_TRUSTED_NOW)


def _list() -> Path:
    return files.state_folder() / "trusted"

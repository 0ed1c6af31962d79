"""The custom code that a run or a dataset carries below code/: copies of the files that settings name, with hashes.

Whoever opens such a folder may execute that code. So every file below code/, of any kind and at any depth, is hashed,
and what is not listed is refused; the files must be trusted (`trust`); and the bytes that were hashed are executed.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from penstock import files
from penstock.custom import loading, trust
from penstock.custom.import_path import ImportPath
from penstock.custom.importing import Listed
from penstock.errors import RunError

FOLDER: Final = "code"
_LARGEST: Final = 1 << 26  # bytes of all code of a run


def keep(place: ImportPath, setting: str, folder: Path) -> ImportPath:
    """Copy the file of a place, and what it imports from beside it, into a folder, and trust them.

    Returns:
        The place of the copy, counted from the folder.

    Raises:
        RecipeError: the file is not there.
        RunError: another file of the same name was copied before.
    """
    sources = loading.sources(place, setting)
    for name, data in sources.items():
        copy = folder / FOLDER / name
        if copy.exists() and copy.read_bytes() != data:
            raise RunError(
                f"{setting} = {place}",
                expected="files of different names, as all are copied into one folder",
                found=f"another {name}",
                remedy="Rename one of them",
            )
        copy.parent.mkdir(parents=True, exist_ok=True)
        files.write_atomically(copy, data)
    trust.remember(*map(loading.digest, sources.values()), *([] if place.is_file else [trust.module(place)]))
    return ImportPath(f"{FOLDER}/{next(iter(sources))}", place.name)


def digests(folder: Path) -> dict[str, str]:
    """The hashes of the files of code that a run or a dataset carries, by their paths in it."""
    return {f"{FOLDER}/{name}": loading.digest(data) for name, data in _contents(folder).items()}


def check(folder: Path, stated: Mapping[str, str]) -> None:
    """Whether the code that a folder carries is what was copied, and may be executed.

    Raises:
        RunError: a file is missing, was added or changed, or nobody trusts it.
    """
    contents = _contents(folder)
    found = {f"{FOLDER}/{name}": loading.digest(data) for name, data in contents.items()}
    for name in {**stated, **found}:
        if name not in stated:
            raise RunError(
                str(folder / name),
                remedy="Remove it",
                message=f"{folder / name} was not copied when {folder} was made.",
            )
        if found.get(name) != stated[name]:
            raise RunError(
                str(folder / name),
                expected=f"the code that was copied ({str(stated[name])[:12]})",
                found=found.get(name, "no such file")[:12],
                remedy="Restore it, or start a new run from its weights with --init RUN",
            )
    for name, digest in found.items():
        if not trust.holds(digest):
            raise untrusted(str(folder / name), folder, "this code, which does not come from you")
    loading.admit(Listed((folder / FOLDER).resolve(), contents))


def untrusted(where: str, opened: Path, what: str) -> RunError:
    """The error for code that would be executed, and that nobody trusts."""
    return RunError(
        where,
        remedy="Read it, then add --trust, in Python trust=True",
        message=f"{where}: loading {opened} would execute {what}.",
    )


def trust_folder(folder: Path) -> None:
    """Let the code that a run or a dataset carries be executed, now and later."""
    trust.remember(*digests(folder).values())


def _contents(folder: Path) -> dict[str, bytes]:
    """The bytes of all files below code/, by their paths from there, but for what was left half written."""
    root = folder / FOLDER
    there = sorted(root.rglob("*"))
    if link := next((path for path in (root, *there) if path.is_symlink()), None):
        raise RunError(
            str(link),
            expected="files that were copied",
            found=f"a link to {link.readlink()}",
            remedy="Put the file itself in its place",
        )
    found = [path for path in there if path.is_file() and not files.is_leftover(path)]
    if sum(path.stat().st_size for path in found) > _LARGEST:
        raise RunError(
            str(root), expected=f"code of at most {_LARGEST:,} bytes", found="more", remedy="Remove what is no code"
        )
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in found}

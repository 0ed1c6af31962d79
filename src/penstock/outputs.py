"""Files and folders that commands write where the user says: never over what is the user's.

A file may be written where there is none, or where there are the very bytes that the same command wrote there before:
not over another file, and not over one that was changed since. What was written is kept as hashes in the user's state
folder (XDG_STATE_HOME). Devices and pipes are written to.
"""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path

from penstock import files
from penstock.errors import OutputError


def check(path: Path, command: str, suffixes: tuple[str, ...] = ()) -> None:
    """Whether a command may write a file.

    Args:
        path: of the file.
        command: "penstock show", for example.
        suffixes: one of which the file's name must have; () for any. What has one may be a folder, as a Core ML model
            is.

    Raises:
        OutputError: the name has another suffix, or another file is there.
    """
    if path.is_dir() and path.suffix.lower() not in suffixes:
        return  # writing says what is wrong with it
    if _is_stream(path) or (path.exists() and not path.is_file() and not path.is_dir()):
        return  # devices and pipes take whatever comes
    if suffixes and path.suffix.lower() not in suffixes:
        raise OutputError(
            f"-o {path}",
            expected=f"a name that ends in {' or '.join(suffixes)}",
            found=path.suffix or "none",
            remedy="Choose another name",
        )
    if path.exists() and not _is_known(path, command):
        raise OutputError(
            f"-o {path}",
            expected=f"a new file, or one as {command} has written it",
            found="another file, or one that was changed since",
            remedy="Choose another name, or remove it first",
        )


def write(path: Path, data: bytes, command: str) -> None:
    """Write a file whole, and remember it.

    Raises:
        OutputError: as `check`.
        OSError: it cannot be written.
    """
    check(path, command)
    files.replace_whole(path, data)
    if path.is_file() and not _is_stream(path):
        remember(path, command)


def remember(path: Path, command: str) -> None:
    """Note that a command has written a file, or a folder that is one model, as it is now."""
    with contextlib.suppress(OSError):  # then it will not be written over
        files.replace_whole(_note(path), _entry(command, path))


def check_folder(folder: Path, command: str, *, own: bool) -> None:
    """Whether a command may fill a folder.

    Raises:
        OutputError: it holds something else.
    """
    if folder.is_dir() and any(not path.name.startswith(".") for path in folder.iterdir()) and not own:
        raise OutputError(
            f"-o {folder}",
            expected=f"a new or empty folder, or one that {command} has filled",
            found="a folder with other files in it",
            remedy="Choose another folder",
        )


def link_below(folder: Path, path: Path) -> Path | None:
    """The link among a path below a folder and the folders between the two; None where there is none."""
    inside = [path, *path.parents][: len(path.relative_to(folder).parts)]
    return next((each for each in inside if each.is_symlink()), None)


def _is_stream(path: Path) -> bool:
    """Whether a path is an open stream of the process, such as standard output, which may be a file."""
    return str(path) in {"/dev/stdout", "/dev/stderr"} or path.parent.as_posix() in {"/dev/fd", "/proc/self/fd"}


def _is_known(path: Path, command: str) -> bool:
    try:
        return _note(path).read_bytes() == _entry(command, path)
    except OSError:
        return False


def _entry(command: str, path: Path) -> bytes:
    """What the note of a file says, or that of a folder with all that is in it."""
    found = hashlib.blake2b(digest_size=16)
    for each in sorted(path.rglob("*")) if path.is_dir() else [path]:
        found.update(b"%b\0" % bytes(each.relative_to(path)))
        if each.is_file():
            found.update(hashlib.blake2b(each.read_bytes()).digest())
    return f"{command} {found.hexdigest()}\n".encode()


def _note(path: Path) -> Path:
    name = hashlib.blake2b(bytes(path.resolve()), digest_size=16).hexdigest()
    return files.state_folder() / "written" / name

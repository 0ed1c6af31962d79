"""Files that are either whole or not there: what must survive a crash is written through here."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import math
import os
import re
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

PARTIAL: Final = ".*.partial"
"""The names of files that are being written."""
_OURS: Final = re.compile(r"\..+\.(\d+|old|[a-z0-9_]{8})\.partial")  # with the number of a process, or by chance


def state_folder() -> Path:
    """Where Penstock keeps what it knows of this user's files: below XDG_STATE_HOME."""
    state = os.environ.get("XDG_STATE_HOME")
    home = Path(state) if state else Path.home() / ".local" / "state"
    return home / "penstock"


def check_regular(path: Path, limit: int | None = None) -> None:
    """Check that a path is a regular file, as reading a pipe may never end.

    Raises:
        OSError: the path is no regular file, does not exist, or is larger than `limit`.
    """
    if "\0" in str(path):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    if limit is not None and path.stat().st_size > limit:
        raise OSError(errno.EFBIG, f"larger than {limit:,} bytes", str(path))
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))


def sync_folder(folder: Path) -> None:
    """Make renames within a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_synced(path: Path, data: bytes) -> None:
    """Write a file and wait until the disk has it; it may be seen half written."""
    with named(path), path.open("wb") as handle:
        handle.write(data)
        handle.flush()
        os.fsync(handle.fileno())


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file under a temporary name and rename it: readers see the old or the new one, whole."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.partial")
    with named(path):
        with _new(temporary) as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)  # until it has its name: `sweep` takes it for somebody's
            handle.write(data)
            handle.flush()
            os.fsync(handle.fileno())
            temporary.replace(path)
        sync_folder(path.parent)


def replace_whole(path: Path, data: bytes) -> None:
    """As `write_atomically`, but without waiting for the disk: for what can be made again. Makes its folder.

    Devices and pipes are written to, and the target of a link is replaced, not the link.

    Raises:
        IsADirectoryError: the path is a folder.
        OSError: it is a socket or a block device, or cannot be written.
    """
    with named(path):
        place = _to_replace(path)
        if place is None:
            with path.open("wb") as handle:
                handle.write(data)
            return
        temporary = place.with_name(f".{place.name}.{os.getpid()}.partial")
        place.parent.mkdir(parents=True, exist_ok=True)
        with _new(temporary) as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            handle.write(data)
            handle.flush()
            temporary.replace(place)


@contextlib.contextmanager
def _new(temporary: Path) -> Iterator[BinaryIO]:
    """A file under a temporary name, which is made anew: who knows the name could have put a link there. It is gone
    afterwards, unless it was renamed: a full disk leaves nothing behind.
    """
    temporary.unlink(missing_ok=True)
    try:
        with temporary.open("xb") as handle:
            yield handle
    finally:
        temporary.unlink(missing_ok=True)


def leftovers(folder: Path) -> list[Path]:
    """What Penstock was writing or removing in a folder, by its names: others may end in .partial too."""
    return [path for path in folder.glob(PARTIAL) if is_leftover(path)]


def is_leftover(path: Path) -> bool:
    """Whether a path has the name of a temporary file or folder of Penstock."""
    return _OURS.fullmatch(path.name) is not None


def sweep(folder: Path) -> None:
    """Remove the files that processes have left half written in a folder, and nobody writes any more."""
    for leftover in leftovers(folder):
        with contextlib.suppress(OSError), leftover.open("rb") as handle:  # it has its name by now, or is being written
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            leftover.unlink()


def _to_replace(path: Path) -> Path | None:
    """The regular file to put in a path's place; None where what is there is to be written to instead."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return path.resolve() if path.is_symlink() else path
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if stat.S_ISCHR(mode) or stat.S_ISFIFO(mode):
        return None
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "neither a file nor a device to write to", str(path))
    place = path.resolve() if path.is_symlink() else path
    return place if place.exists() else None  # a link of /proc to a file that has no name any more


@contextlib.contextmanager
def named(path: Path) -> Iterator[None]:
    """Let an error name the file that was asked for: not the temporary one, and not none, as on a full disk."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


def to_json(value: Any) -> bytes:
    """Readable JSON, the same bytes for the same value; floats that are not finite become null."""
    text = json.dumps(_finite(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    return text.encode(errors="backslashreplace")  # names of files may hold bytes that are no text


def to_line(value: Any) -> str:
    """JSON on one line, with floats that JSON cannot hold (nan, inf) as null."""
    try:
        return json.dumps(value, allow_nan=False) + "\n"
    except ValueError:
        return json.dumps(_finite(value), allow_nan=False) + "\n"


def _finite(value: Any) -> Any:
    """The value with floats that JSON cannot hold (nan, inf) as null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value


def link_atomically(link: Path, target: str) -> None:
    """Point a symbolic link at a name in its own folder, in one step."""
    temporary = link.with_name(f".{link.name}.{os.getpid()}.partial")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(target)
    temporary.replace(link)
    sync_folder(link.parent)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other processes that ask the same out of a folder for the length of a block; a killed one keeps no lock.

    Raises:
        BlockingIOError: another process is in it.
    """
    handle = os.open(folder, os.O_RDONLY)
    try:
        _lock(handle)
        yield
    finally:
        os.close(handle)


def _lock(handle: int) -> None:
    """Lock a folder for this process alone; `is_locked` of another one holds it for the length of a system call."""
    for pause in (0.01, 0.05, 0.0):
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not pause:
                raise
            time.sleep(pause)
        else:
            return


@contextlib.contextmanager
def held(folder: Path) -> Iterator[None]:
    """Wait until no other process is in such a block of the same folder, and keep others out for its length."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def is_locked(folder: Path) -> bool:
    """Whether a process of this machine is in the block of `locked`."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def sha256(path: Path) -> str:
    """The SHA-256 of a file's content, in hexadecimal."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()

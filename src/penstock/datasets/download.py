"""Published archives, downloaded: resumed where they broke off, held against their checksum, and unpacked."""

from __future__ import annotations

import hashlib
import http.client
import tarfile
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from penstock.errors import DatasetError
from penstock.progress import silent

_PIECE: Final = 1 << 20
_TIMEOUT: Final = 30.0  # seconds without a byte
_PARTIAL: Final = 206
_PAST: Final = 416  # the range begins behind the end: all is there


@dataclass(frozen=True, slots=True)
class Archive:
    """A tar archive.

    Attributes:
        url: where it is.
        md5: of its bytes, as its authors publish it.
        folder: what it unpacks to.
    """

    url: str
    md5: str
    folder: str


ARCHIVES: Final = {
    "cifar10": Archive(
        "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
        "c32a1d4ab5d03f1284b67883e8d13530",
        "cifar-10-batches-bin",
    ),
    "cifar100": Archive(
        "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
        "03b5dce01913d631647c71ecec9e9cb8",
        "cifar-100-binary",
    ),
}


def download(archive: Archive, folder: Path, progress: Callable[[int, int], None] = silent) -> Path:
    """Have an archive unpacked in a folder; nothing is done where it is.

    Returns:
        The folder that it was unpacked to.

    Raises:
        DatasetError: it cannot be had, or is not the one that its authors published.
    """
    unpacked = folder / archive.folder
    if unpacked.is_dir():
        return unpacked
    name = archive.url.rpartition("/")[2]
    if name in {"", ".", ".."}:
        fix = "Name the file, as in https://HOST/cifar-10-binary.tar.gz"
        raise DatasetError(archive.url, expected="the address of an archive", found="that of a folder", remedy=fix)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    if fetched := not path.is_file():
        part = path.with_name(f".{name}.part")  # hidden: a file NAME.part may be the user's
        _fetch(archive.url, part, progress)
        part.replace(path)
    _check(path, archive, fetched=fetched)
    _unpack(path, folder, archive.folder)
    return unpacked


def _fetch(url: str, part: Path, progress: Callable[[int, int], None]) -> None:
    """Add to a file what it lacks."""
    if "://" not in url:
        raise _broken(url, "no address: begin it with https://, or file:// for a file of this machine")
    there = part.stat().st_size if part.exists() else 0
    try:
        request = urllib.request.Request(url, headers={"Range": f"bytes={there}-"} if there else {})  # noqa: S310 - ours
        with urllib.request.urlopen(request, timeout=_TIMEOUT) as response:  # noqa: S310 - ours
            there = there if response.status == _PARTIAL else 0
            total = there + int(response.headers.get("Content-Length", 0))
            with part.open("ab" if there else "wb") as file:
                while piece := response.read(_PIECE):
                    file.write(piece)
                    there += len(piece)
                    progress(there >> 20, total >> 20)
        if there < total:
            raise _broken(url, f"{there:,} of {total:,} bytes before the connection ended")
    except urllib.error.HTTPError as error:
        error.close()  # it is the response, too
        if error.code != _PAST:
            raise _broken(url, f"{error.code} {error.reason}") from None
    except (OSError, http.client.HTTPException, ValueError) as error:  # of an address that is none
        raise _broken(url, str(getattr(error, "reason", error)) or type(error).__name__) from None


def _broken(url: str, found: str) -> DatasetError:
    name = url.rpartition("/")[2]
    return DatasetError(
        url,
        expected="the archive",
        found=found,
        remedy="Run the command again: it goes on where it broke off. Or download "
        f"{name} by hand into the output folder",
    )


def _check(path: Path, archive: Archive, *, fetched: bool) -> None:
    """Remove a downloaded archive with a wrong checksum, as resuming the download could not fix it."""
    with path.open("rb") as file:
        found = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    if found == archive.md5:
        return
    if not fetched:
        raise DatasetError(
            str(path),
            expected=f"an archive with MD5 {archive.md5}",
            found=found,
            remedy="Put the archive of its authors in its place, or remove it to have it downloaded",
        )
    path.unlink()
    raise DatasetError(
        str(path),
        expected=f"an archive with MD5 {archive.md5}",
        found=f"{found}; it was removed",
        remedy="Run the command again to download it anew",
    )


def _unpack(path: Path, folder: Path, name: str) -> None:
    beside = folder / f".{name}.partial"
    with tarfile.open(path) as archive:
        archive.extractall(beside, filter="data")
    (beside / name).replace(folder / name)
    beside.rmdir()

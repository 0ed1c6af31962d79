"""Images by what tables call them: a path, a name, or a name without its ending."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Final

from penstock.datasets import listing
from penstock.kinds.items import FilePart, Problem, named

_SHOWN: Final = 3  # files in a sentence
_NUMBER: Final = re.compile(r"([0-9]{1,18})(\.0+)?")


def plain(text: str) -> str:
    """The name of a file in composed Unicode, with slashes of either kind, with or without a dot in front."""
    path = text.partition("?")[0] if "://" in text else text
    return listing.composed(PureWindowsPath(path).as_posix())


def folder_of(folder: Path, split: str) -> Path | None:
    """The folder of a split, or the only one whose name holds that of the split: train_images."""
    called = [path for path in listing.folders(folder) if listing.role_of(path.name)[1] == split]
    return listing.splits(folder).get(split) or (called[0] if len(called) == 1 else None)


class Images:
    """The images of a folder, which messages name from a root above it."""

    def __init__(self, folder: Path, root: Path | None = None, near: Path | None = None) -> None:
        self._inside = folder
        self._near = [folder, folder / "images", *([near] if near else [])]
        self._nearest = near
        self.folder = root or folder

    def find(self, text: str) -> Path | None:
        """The image that a cell names; None where there is none, or where the name fits several."""
        name = plain(text)
        direct = (listing.file_of(place, PureWindowsPath(text).as_posix()) for place in self._near)
        if found := next(filter(None, direct), None):
            return found
        there = self._of_that_name(name) or self._of_that_number(name)
        return there[0] if len(there) == 1 else self._of_that_end(name, there)

    def _of_that_end(self, name: str, there: Sequence[Path]) -> Path | None:
        """The one of several files whose path ends as the name does, or that lies where its table's images lie."""
        parts = name.split("/")
        for start in range(len(parts) - 1):
            end = "/" + "/".join(parts[start:])
            found = [path for path in there if f"/{listing.composed(path.as_posix())}".endswith(end)]
            if found:
                return found[0] if len(found) == 1 else None
        near = [path for path in there if len(parts) == 1 and self._nearest and path.is_relative_to(self._nearest)]
        return near[0] if len(near) == 1 else None

    def among(self, text: str) -> str:
        """The end of a sentence on an image that was not found: where files of its name are, if there are several."""
        there = self._of_that_name(plain(text))
        if not there:
            return "nothing"
        places = [path.relative_to(self._inside).as_posix() for path in there]
        if len(there) == 1:
            return f"only {places[0]}"
        return f"{len(there)} files of that name ({', '.join(places[:_SHOWN])}{', ...' if len(there) > _SHOWN else ''})"

    def _of_that_name(self, name: str) -> list[Path]:
        last = PurePosixPath(name).name
        return self._by_name.get(last) or self._folded.get(last.casefold(), []) if name else []

    def _of_that_number(self, name: str) -> list[Path]:
        """The images of a number, which has lost zeros or got a fraction where a table was written: 7.0 is 0007.jpg."""
        match = _NUMBER.fullmatch(name)
        return self._by_number.get(int(match[1]), []) if match else []

    @cached_property
    def _by_number(self) -> dict[int, list[Path]]:
        found: dict[int, list[Path]] = {}
        for path in filter(listing.is_image, listing.files(self._inside)):
            if match := _NUMBER.fullmatch(path.stem):
                found.setdefault(int(match[1]), []).append(path)
        return found

    @cached_property
    def _folded(self) -> dict[str, list[Path]]:
        """The same without regard to case, as where the names were written on Windows or macOS."""
        found: dict[str, list[Path]] = {}
        for name, paths in self._by_name.items():
            found.setdefault(name.casefold(), []).extend(paths)
        return found

    @cached_property
    def _by_name(self) -> dict[str, list[Path]]:
        found: dict[str, list[Path]] = {}
        for path in filter(listing.is_image, listing.files(self._inside)):
            found.setdefault(listing.composed(path.name), []).append(path)
            found.setdefault(listing.composed(path.stem), []).append(path)
        return found


def unnamed_images(folder: Path, images: Sequence[Path | FilePart]) -> list[Problem]:
    """Notes of images that no annotation names, but for masks and thumbnails of annotated ones."""
    known = [each for each in images if isinstance(each, Path)]
    there = {(path.parent, path.stem) for path in known}
    parents, stems = {path.parent for path in known}, {path.stem for path in known}
    found = []
    for path in filter(listing.is_image, listing.files(folder)):
        beside = path.parent in parents and (path.parent, path.stem) not in there
        if beside or path.stem not in stems:
            name = named(path, folder)
            message = f"{name}: no annotation names it: it is left out."
            found.append(Problem("image without annotations", name, message, fatal=False))
    return found

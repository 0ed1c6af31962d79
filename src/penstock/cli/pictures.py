"""What there is to predict: pictures, folders and lists of them, films, and a picture from standard input."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import cv2
import numpy as np

from penstock.cli.app import STDIN
from penstock.datasets.layouts.masks import is_mask
from penstock.datasets.listing import files as list_files
from penstock.datasets.listing import is_picture, text_of
from penstock.errors import DatasetError, ImageError
from penstock.images.upright import read_upright

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    Pixels = NDArray[np.uint8]

FILMS: Final = frozenset({".mp4", ".avi", ".mov", ".mkv", ".webm", ".m4v"})


@dataclass(frozen=True)
class Picture:
    """One picture to predict.

    Attributes:
        name: of its answers, without an ending.
        place: the file that it is in.
        where: for tables and errors.
        read: gives it, upright: uint8 RGB (height, width, 3); raises ImageError or OSError.
    """

    name: str
    place: Path
    where: str
    read: Callable[[], Pixels]


def find(paths: list[Path]) -> list[Picture]:
    """The pictures behind some paths: themselves, those in folders to the bottom, those that a text file lists (but no
    further lists), the frames of films, and one from standard input for "-".

    Raises:
        DatasetError: a path is not there, or there is no picture at all.
    """
    found = [picture for path in paths for picture in _behind(path)]
    if not found:
        raise DatasetError(
            ", ".join(map(str, paths)), expected="JPEG or PNG pictures", found="none", remedy="Check the path"
        )
    return found


def _behind(path: Path) -> Iterator[Picture]:
    if path == Path(STDIN):
        yield Picture("stdin", path, "standard input", _from_stdin)
    elif path.is_dir():
        yield from _inside(path)
    elif not path.is_file():
        raise DatasetError(str(path), expected="a picture or a folder", found="nothing", remedy="Check the path")
    elif path.suffix.lower() == ".txt":
        yield from _on_list(path)
    elif path.suffix.lower() in FILMS:
        yield from _frames(path.stem, path)
    else:
        yield _of_file(path.stem, path)


def _inside(folder: Path) -> Iterator[Picture]:
    for entry in list_files(folder):
        name = entry.relative_to(folder).with_suffix("").as_posix()
        if is_picture(entry) and not is_mask(entry, folder):
            yield _of_file(name, entry)
        elif entry.suffix.lower() in FILMS:
            try:
                yield from _frames(name, entry)
            except DatasetError as error:
                yield Picture(name, entry, str(entry), partial(_refuse_film, error))


def _refuse_film(error: DatasetError) -> Pixels:
    raise ImageError(error.where, expected=error.expected, found=error.found, remedy=error.remedy)


def _of_file(name: str, path: Path) -> Picture:
    return Picture(name, path, str(path), lambda: read_upright(path.read_bytes(), str(path)))


def _from_stdin() -> Pixels:
    if sys.stdin is None:
        raise ImageError("standard input", expected="a picture", found="it closed", remedy="Pipe a picture into it")
    return read_upright(sys.stdin.buffer.read(), "standard input")


def _on_list(file: Path) -> Iterator[Picture]:
    """What the lines of a text file name, counted from its own folder or from here; a line of nothing is a picture that
    cannot be read.
    """
    for number, text in enumerate(text_of(file).splitlines(), 1):
        line = text.strip()
        if not line or Path(line).suffix.lower() == ".txt":
            continue
        place = next((each for each in (file.parent / line, Path(line)) if _exists(each)), None)
        if place is None:
            where = f"{file}, line {number}"
            yield Picture(f"{file.stem}-{number}", file, where, partial(_refuse_line, where, line))
        else:
            yield from _behind(place)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a name that is too long, or holds a NUL
        return False


def _refuse_line(where: str, line: str) -> Pixels:
    raise ImageError(where, expected="the path of a picture", found=f"{line}, where nothing is", remedy="Mend the list")


def _frames(name: str, path: Path) -> Iterator[Picture]:
    """The frames of a film, NAME/000000, NAME/000001, ...; they must be read in that order."""
    film = cv2.VideoCapture(str(path))
    count = int(film.get(cv2.CAP_PROP_FRAME_COUNT)) if film.isOpened() else 0
    if count < 1:
        raise DatasetError(
            str(path),
            expected="a film that OpenCV can read",
            found="no frames",
            remedy="Convert it, for example with ffmpeg to H.264 in .mp4",
        )
    for number in range(count):
        where = f"{path}#{number}"
        yield Picture(f"{name}/{number:06d}", path, where, partial(_next_frame, film, where))


def _next_frame(film: Any, where: str) -> Pixels:
    there, frame = film.read()
    if not there:
        raise ImageError(where, expected="a frame", found="the end of the film", remedy="The film was cut short")
    pixels: Pixels = np.ascontiguousarray(frame[..., ::-1])
    return pixels

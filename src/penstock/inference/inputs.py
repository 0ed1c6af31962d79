"""What there is to predict: images, folders and lists of them, addresses, videos, cameras, and an image from standard
input.
"""

from __future__ import annotations

import re
import sys
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import cv2
import numpy as np

from penstock import files
from penstock.datasets.layouts.masks import is_mask
from penstock.datasets.listing import files as list_files
from penstock.datasets.listing import is_image, is_packed, text_of
from penstock.errors import DatasetError, ImageError, PenstockError
from penstock.images import PixelFormat, probe
from penstock.images.formats import stored
from penstock.images.header import MAX_BYTES
from penstock.images.pixels import check_format
from penstock.images.upright import read_upright
from penstock.progress import counted
from penstock.values import AnyPixels

STDIN: Final = "/dev/stdin"
_CAMERA: Final = re.compile(r"camera:(?P<number>\d+)(/(?P<count>[1-9]\d*))?")
_SCHEMES: Final = ("http://", "https://")
_SECONDS: Final = 30.0  # without an answer from a server
_EIGHT: Final = 8
_SHOWN: Final = 5  # types of files in a line
VIDEOS: Final = frozenset({".mp4", ".avi", ".mov", ".mkv", ".webm", ".m4v"})


@dataclass(frozen=True)
class InputImage:
    """One image to predict.

    Attributes:
        name: of its predictions, without a suffix.
        place: the file that it is in.
        where: for tables and errors.
        read: gives it in a format, upright: (height, width, channels); raises ImageError or OSError.
    """

    name: str
    place: Path
    where: str
    read: Callable[[PixelFormat], AnyPixels]


def parsed(texts: Sequence[str]) -> list[Path | str]:
    """Inputs as people write them: paths, web addresses, and cameras (camera:0, or camera:0/300 for 300 images)."""
    return [text if text.startswith(_SCHEMES) or _CAMERA.fullmatch(text) else Path(text) for text in texts]


def find(paths: Sequence[Path | str]) -> list[InputImage]:
    """The images behind some paths: themselves, those in folders to the bottom, those that a text file lists (but no
    further lists), those at addresses, the frames of videos and cameras, and one from standard input for "-".

    Raises:
        DatasetError: a path is not there, or there is no image at all.
    """
    found = [image for path in paths for image in _behind(path)]
    if not found:
        raise _nothing([Path(path) for path in paths])
    return found


def left_out(paths: Sequence[Path | str]) -> str:
    """What lies in folders beside the images that are predicted, as a line; "" for nothing."""
    masks, others = 0, Counter[str]()
    for folder in (path for path in paths if isinstance(path, Path) and path.is_dir()):
        for entry in list_files(folder):
            if is_image(entry):
                masks += is_mask(entry, folder)
            elif entry.suffix.lower() not in VIDEOS:
                others[entry.suffix.lower()] += 1
    parts = [counted(masks, "mask")] if masks else []
    shown = [(counted(count, f"{end} file".strip()), end) for end, count in others.most_common(_SHOWN)]
    parts += [said if end else f"{said} without an ending" for said, end in shown]
    rest = sum(others.values()) - sum(count for _, count in others.most_common(_SHOWN))
    parts += [counted(rest, "other file")] if rest else []
    return f"left out: {', '.join(parts)}" if parts else ""


def other_depth(images: Sequence[InputImage], wanted: PixelFormat) -> str:
    """A note if the first file that can be read has other bits per channel than the images of the training; else ""."""
    for image in images:
        try:
            files.check_regular(image.place, MAX_BYTES)
            data = stored(image.place.read_bytes(), image.where, wanted.value_range)
            bits = probe(data, image.where).bits
        except (PenstockError, OSError):
            continue
        if (bits > _EIGHT) == (wanted.bits > _EIGHT):
            return ""
        return (
            f"note: {image.where} has {bits} bits per channel, but the model was trained on images of {wanted.bits}: "
            "values are scaled, and predictions may be wrong"
        )
    return ""


def _nothing(paths: Sequence[Path]) -> DatasetError:
    packed = next((path for path in paths if is_packed(path)), None)
    if packed:
        return DatasetError(
            str(packed),
            expected="images",
            found="a packed dataset",
            remedy="Name the folder of the raw images, or score the dataset with penstock evaluate RUN --split NAME",
        )
    return DatasetError(", ".join(map(str, paths)), expected="images", found="none", remedy="Check the path")


def _behind(path: Path | str) -> Iterator[InputImage]:
    if isinstance(path, str) and (camera := _CAMERA.fullmatch(path)):
        yield from _shots(path, int(camera["number"]), int(camera["count"] or 1))
    elif isinstance(path, str):
        name = Path(urlsplit(path).path).stem or "image"
        yield InputImage(name, Path(path), path, partial(_from_address, path))
    elif path == Path(STDIN):
        yield InputImage("stdin", path, "standard input", _from_stdin)
    elif path.is_dir():
        yield from _inside(path)
    elif not path.is_file():
        found = "a pipe or a device" if path.exists() else "no such file or folder"
        raise DatasetError(str(path), expected="an image or a folder", found=found, remedy="Check the path")
    elif path.suffix.lower() == ".txt":
        yield from _on_list(path)
    elif path.suffix.lower() in VIDEOS:
        yield from _frames(path.stem, path)
    else:
        yield _of_file(path.stem, path)


def _inside(folder: Path) -> Iterator[InputImage]:
    """The images and videos in a folder. Of a.jpg and a.png the second one is called a.png."""
    names: set[str] = set()
    for entry in list_files(folder):
        name = entry.relative_to(folder).with_suffix("").as_posix()
        if is_image(entry) and not is_mask(entry, folder):
            name = entry.relative_to(folder).as_posix() if name in names else name
            names.add(name)
            yield _of_file(name, entry)
        elif entry.suffix.lower() in VIDEOS:
            yield from _readable(name, entry)


def _refuse(error: DatasetError, _: PixelFormat) -> AnyPixels:
    raise ImageError(error.where, expected=error.expected, found=error.found, remedy=error.remedy)


def _of_file(name: str, path: Path) -> InputImage:
    def read(wanted: PixelFormat) -> AnyPixels:
        files.check_regular(path, MAX_BYTES)
        return read_upright(path.read_bytes(), str(path), wanted)

    return InputImage(name, path, str(path), read)


def _from_address(address: str, wanted: PixelFormat) -> AnyPixels:
    try:
        with urllib.request.urlopen(address, timeout=_SECONDS) as answer:  # noqa: S310 - http and https alone
            data = answer.read(MAX_BYTES)
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise ImageError(
            address, expected="an image at this address", found=str(reason), remedy="Check the address"
        ) from None
    return read_upright(data, address, wanted)


def _from_stdin(wanted: PixelFormat) -> AnyPixels:
    if sys.stdin is None:
        raise ImageError("standard input", expected="an image", found="no open stream", remedy="Pipe an image into it")
    data = sys.stdin.buffer.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ImageError(
            "standard input",
            expected=f"an image of at most {MAX_BYTES:,} bytes",
            found="more",
            remedy="Pipe one image into it",
        )
    return read_upright(data, "standard input", wanted)


def _on_list(file: Path) -> Iterator[InputImage]:
    """Inputs of a text file's lines, relative to its folder or the current one. A wrong line is a bad image."""
    files.check_regular(file, MAX_BYTES)
    for number, text in enumerate(text_of(file).splitlines(), 1):
        line = text.strip()
        if not line or Path(line).suffix.lower() == ".txt":
            continue
        place = next((each for each in (file.parent / line, Path(line)) if _exists(each)), None)
        if place is None:
            where = f"{file}, line {number}"
            yield InputImage(f"{file.stem}-{number}", file, where, partial(_refuse_line, where, line))
        else:
            yield from _readable(f"{file.stem}-{number}", place)


def _readable(name: str, place: Path) -> Iterator[InputImage]:
    """The images behind a path; a video, a folder or a pipe that gives none is an image that cannot be read."""
    try:
        found = list(_behind(place))
        if not found:
            raise DatasetError(str(place), expected="images", found="none", remedy="Check the path")  # noqa: TRY301
    except DatasetError as error:
        found = [InputImage(name, place, str(place), partial(_refuse, error))]
    yield from found


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a name that is too long, or holds a NUL
        return False


def _refuse_line(where: str, line: str, _: PixelFormat) -> AnyPixels:
    raise ImageError(
        where, expected="the path of an image", found=f"{line}, which does not exist", remedy="Fix the list"
    )


def _frames(name: str, path: Path) -> Iterator[InputImage]:
    """The frames of a video, NAME/000000, NAME/000001, ...; they must be read in that order."""
    video = cv2.VideoCapture(str(path))
    count = int(video.get(cv2.CAP_PROP_FRAME_COUNT)) if video.isOpened() else 0
    if count < 1:
        raise DatasetError(
            str(path),
            expected="a video that OpenCV can read",
            found="no frames",
            remedy="Convert it, for example with ffmpeg to H.264 in .mp4",
        )
    if count > (size := path.stat().st_size):
        raise DatasetError(
            str(path),
            expected="a video whose frames are in the file",
            found=f"a header that announces {count:,} frames, in {size:,} bytes",
            remedy="Copy it again, or repair its header, for example with ffmpeg -c copy",
        )
    for number in range(count):
        where = f"{path}#{number}"
        yield InputImage(f"{name}/{number:06d}", path, where, partial(_next_frame, video, where))


def _shots(said: str, number: int, count: int) -> Iterator[InputImage]:
    """So many frames of a camera, taken when they are read, in that order."""
    video = cv2.VideoCapture(number)
    if not video.isOpened():
        raise DatasetError(
            said,
            expected="a camera that OpenCV can open",
            found=f"none of number {number}",
            remedy="Connect it, or try another number",
        )
    for shot in range(count):
        where = f"{said}#{shot}"
        yield InputImage(f"camera{number}/{shot:06d}", Path(said), where, partial(_next_frame, video, where))


def _next_frame(video: Any, where: str, wanted: PixelFormat) -> AnyPixels:
    there, frame = video.read()
    if not there:
        raise ImageError(
            where,
            expected="a frame",
            found="the end of the video",
            remedy="Copy the video again, as it ends before its header says",
        )
    return check_format(np.ascontiguousarray(frame[..., ::-1]), wanted, where)

"""What a writer of folders is given, and how it names files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, Final

import numpy as np

from penstock import files, outputs
from penstock.errors import DatasetError, OutputError
from penstock.images.geometry import Size

_IMAGES: Final = {".jpg", ".jpeg", ".png"}
_FILES: Final = {*_IMAGES, ".txt", ".xml"}
"""Ends of files that are written, which no folder beside them may have."""
_LONGEST: Final = 200  # bytes of a part of a name: file systems take 255
_DEEPEST: Final = 1000  # bytes of all parts: file systems take 4,096
_DIGITS: Final = 9  # behind the point: more than a float32 holds of an image's side


@dataclass(frozen=True)
class LabelledImage:
    """One record, taken apart.

    Attributes:
        split: of the dataset.
        name: of the image, as the record has it; may be anything.
        data: the encoded image, JPEG or PNG.
        suffix: ".jpg" or ".png".
        size: of the upright image, (height, width).
        label: class ids or alpha values, uint8 (height, width); a class id; or a sequence of `Object`.
    """

    split: str
    name: str
    data: bytes
    suffix: str
    size: Size
    label: Any


class FolderWriter(ABC):
    """Writes labelled images into a folder of its own, one layout each.

    Attributes:
        folder: to fill.
        classes: the classes' names; their index is their id.
        colors: of the classes in the data's own legend, (red, green, blue); may be empty.
        ignore: the id of pixels that do not count.
        lost: what the layout cannot say, counted by name.
        flat: whether names must differ over all splits, and hold no folder.
        forbidden: characters that names of classes cannot have.
    """

    flat: ClassVar[bool] = False
    forbidden: ClassVar[str] = ""

    def __init__(
        self, folder: Path, classes: Sequence[str], colors: Sequence[tuple[int, int, int]], ignore: int
    ) -> None:
        self.folder, self.classes, self.colors, self.ignore = folder, tuple(classes), tuple(colors), ignore
        self.lost: Counter[str] = Counter()
        self._taken: dict[tuple[str, str], int] = {}

    def check_classes(self) -> None:
        """Raise a DatasetError unless the layout can hold the classes' names."""
        if (wrong := next((name for name in self.classes if not self.can_hold(name)), None)) is not None:
            raise DatasetError(
                f"class {wrong!r}",
                remedy="Choose another layout, or pack the data with another name",
                message=f"This layout cannot hold the name of the class {wrong!r}.",
            )

    def can_hold(self, name: str) -> bool:
        """Whether the name of a class stands in the layout's files as it is."""
        fits = 0 < len(name.encode()) <= _LONGEST
        return fits and name.isprintable() and name == name.strip() and not set(name) & set(self.forbidden)

    @abstractmethod
    def add(self, image: LabelledImage) -> None:
        """Write an image with its label.

        Raises:
            DataError: the label is damaged.
        """

    @abstractmethod
    def close(self) -> None:
        """Write what is about all images."""

    def write(self, path: str, data: bytes | str) -> None:
        """Write a file below the folder. What an interrupted call has written there is the same.

        Raises:
            OutputError: another file is there, or a link.
        """
        target, content = self.folder / path, data.encode() if isinstance(data, str) else data
        link = outputs.link_below(self.folder, target)
        if link or (target.exists() and not (target.is_file() and target.read_bytes() == content)):
            raise OutputError(
                str(link or target),
                expected="no file, or the one that an interrupted penstock unpack has written",
                found="a link" if link else "another one, or one that was changed since",
                remedy="Choose another folder with -o, or remove it",
            )
        if not target.exists():
            files.replace_whole(target, content)

    def write_classes(self) -> None:
        """classes.txt: a line for each id, as `penstock inspect` reads it."""
        self.write("classes.txt", "".join(f"{name}\n" for name in self.classes))

    def name(self, image: LabelledImage, below: str = "") -> str:
        """A name for an image's files, without suffix, that no other one has: never one that leaves the folder."""
        parts = [_plain(part) for part in PurePosixPath(image.name).parts if part not in {"/", ".", ".."}]
        parts = [f"{part}_" if PurePosixPath(part).suffix.lower() in _FILES else part for part in parts[:-1]] + parts[
            -1:
        ]
        while len("/".join(parts).encode()) > _DEEPEST:
            parts = parts[1:]
        if below and parts[:1] == [below] and len(parts) > 1:
            parts = parts[1:]
        if parts and PurePosixPath(parts[-1]).suffix.lower() in _IMAGES:
            parts[-1] = PurePosixPath(parts[-1]).stem
        name = (
            "_".join(parts).encode()[:_LONGEST].decode(errors="ignore") if self.flat else "/".join(parts)
        ) or "image"
        return self._unique(name, "" if self.flat else f"{image.split}/{below}")

    def _unique(self, name: str, scope: str) -> str:
        """Case does not tell names apart on every system."""
        key, found = (scope, name.casefold()), name
        while (scope, found.casefold()) in self._taken:
            self._taken[key] += 1
            found = f"{name}-{self._taken[key]}"
        self._taken[scope, found.casefold()] = 1
        return found


def _plain(part: str) -> str:
    """A part of a path without what ends lines in lists, means something to some system, or hides the file."""
    shown = "".join(each if each.isprintable() and each not in '\\:*?"<>|' else "_" for each in part)
    return shown.lstrip(".").encode()[:_LONGEST].decode(errors="ignore").strip() or "_"


def shortest(edge: float, side: int) -> float:
    """An edge of a box with as few digits as keep it what it is as a record has it: a float32 fraction of a side.

    Args:
        edge: in pixels.
        side: of the image, in pixels.
    """
    wanted = np.float32(edge / side)
    rounded = (round(edge, digits) for digits in range(_DIGITS))
    return next((each for each in rounded if np.float32(each / side) == wanted), edge)

"""Files and folders by the names that people give them."""

from __future__ import annotations

import os
import re
import unicodedata
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from functools import lru_cache
from pathlib import Path, PurePath
from typing import Final, NoReturn

from penstock.errors import DatasetError
from penstock.images import formats

_SYSTEM: Final = {"lost+found", "@eaDir", "#recycle", "__MACOSX", "$RECYCLE.BIN", "System Volume Information"}
"""Folders that systems make: of Linux, Synology's storage, macOS (in archives) and Windows."""
_YEAR: Final = re.compile(r"[-_ ]?(19|20)\d\d$")
_PLAIN: Final = re.compile(r"[\w-]+")
_WORDS: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_SHORT: Final = {
    "Tr": "train",
    "TR": "train",
    "Ts": "test",
    "TE": "test",
    "Va": "val",
}  # as nnU-Net and DUTS name folders
PACKED: Final = "dataset.json"
"""Describes a packed dataset."""
PREDICTIONS: Final = ".penstock-predictions"
"""Lists the files that `penstock predict` has written into a folder."""
JOURNAL: Final = ".packing"
"""Beside the shards while a dataset is being packed."""
IMAGES: Final = frozenset({".jpg", ".jpeg", ".jpe", ".jfif", ".png"}) | formats.SUFFIXES
SPLITS: Final = {
    "train": ("train", "training", "trn", "trainval"),
    "val": ("val", "valid", "validation", "validating", "dev", "eval", "evaluation"),
    "test": ("test", "testing", "tst"),
}


def is_plain(name: str) -> bool:
    """Whether a name can be part of the name of a file: letters, digits, - and _."""
    return _PLAIN.fullmatch(name) is not None


def split_named(text: str, where: str) -> str:
    """Our name for a split that somebody names in a file: any case, and train for training and so on.

    Raises:
        DatasetError: it cannot be the name of a file.
    """
    name = text.strip()
    known = split_of(name) or name
    if not is_plain(known):
        raise DatasetError(
            where,
            expected="a split with a plain name: letters, digits, - and _",
            found=repr(text),
            remedy="Call it train, val or test",
        )
    return known


def subfolder(folder: Path, names: tuple[str, ...]) -> Path | None:
    """The first subfolder with one of the names, whatever its case."""
    return _named_so(_subfolders(folder), names)


def folders(folder: Path) -> list[Path]:
    """The folders in a folder, sorted, hidden ones, packed datasets and predictions left out."""
    return [path for path in _subfolders(folder) if not path.name.startswith(".") and not _is_written(path)]


def _subfolders(folder: Path) -> list[Path]:
    """Sorted. The system tells what is a folder as it lists them: a class may hold a million images."""
    with os.scandir(folder) as entries:
        return sorted(folder / entry.name for entry in entries if entry.name not in _SYSTEM and entry.is_dir())


def _named_so(folders: list[Path], names: tuple[str, ...]) -> Path | None:
    there = {path.name.lower(): path for path in folders}
    return next((there[name.lower()] for name in names if name.lower() in there), None)


def splits(folder: Path) -> dict[str, Path]:
    """The subfolders that are splits, by our name for them: of several, the plain name, else that of the last year."""
    there = _subfolders(folder)
    dated = {split_of(path.name): path for path in there}
    found = {split: _named_so(there, names) or dated.get(split) for split, names in SPLITS.items()}
    return {split: path for split, path in found.items() if path is not None}


def split_of(name: str) -> str:
    """Our name for a split that is called so in any case, perhaps with a year behind; "" for what is none."""
    plain = _YEAR.sub("", name).lower()
    return next((split for split, names in SPLITS.items() if plain in names), "")


def composed(text: str) -> str:
    """A name in Unicode's composed form (NFC), in which names are compared: macOS writes accents apart from letters."""
    return unicodedata.normalize("NFC", text)


@lru_cache(1 << 16)
def role_of(name: str) -> tuple[str, str]:
    """A folder's name beside its split, and the split: `train_masks` is ("masks", "train"), `val` is ("", "val")."""
    words = _WORDS.findall(name)
    splits = {word: split for word in words if (split := _SHORT.get(word) or split_of(word))}
    return "_".join(word.lower() for word in words if word not in splits), next(iter(splits.values()), "")


def files(folder: Path) -> list[Path]:
    """All files below a folder, sorted, those of systems, hidden ones, packed datasets and predictions left out; links
    to folders are followed. Links to nothing are images or masks that cannot be read, by their names, or no files.

    Raises:
        DatasetError: a folder below it may not be read.
    """
    found, entered = [], set()
    for here, folders, names in os.walk(folder, onerror=_unreadable, followlinks=True):
        real = os.path.realpath(here)
        if real in entered or (here != str(folder) and _is_written(Path(here))):  # a link to a folder above it
            folders.clear()
            continue
        entered.add(real)
        folders[:] = [name for name in folders if not name.startswith(".") and name not in _SYSTEM]
        shown = (name for name in names if not name.startswith(".") and name != "Thumbs.db")
        paths = (Path(here, name) for name in shown)
        found += [path for path in paths if path.is_file() or (is_mask(path) and not path.exists())]
    return sorted(found)


def _unreadable(error: OSError) -> NoReturn:
    raise DatasetError(
        str(error.filename), expected="a folder that may be read", found=str(error), remedy="Change its permissions"
    ) from None


def _is_written(folder: Path) -> bool:
    """Whether we have written a folder: it is a dataset, or holds predictions."""
    return is_packed(folder) or (folder / PREDICTIONS).is_file()


def is_packed(folder: Path) -> bool:
    """Whether a folder holds a packed dataset, or one that is being packed, which is no raw data."""
    return (folder / JOURNAL).is_dir() or ((folder / PACKED).is_file() and any(folder.glob("*.tfrecord")))


def is_there(path: Path) -> bool:
    """Whether a path that somebody wrote is a file; one that is too long, or holds a NUL, is none."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def file_of(folder: Path, name: str) -> Path | None:
    """The file in a folder that somebody has written down, whichever form of Unicode both are in; None for none."""
    forms = dict.fromkeys((name, composed(name), unicodedata.normalize("NFD", name)))
    return next((path for form in forms if is_there(path := folder / form)), None)


def noted(folder: Path, name: str) -> Path:
    """As `file_of`, but the path as it is written down where there is no such file: no path holds the character 0."""
    return file_of(folder, name) or folder / name.replace("\0", "\N{REPLACEMENT CHARACTER}")


def plain(folder: Path, *patterns: str) -> list[Path]:
    """The files directly in a folder whose names fit, sorted pattern by pattern."""
    return [path for pattern in patterns for path in sorted(folder.glob(pattern)) if path.is_file()]


def is_image(path: PurePath) -> bool:
    """Whether a name ends as those of the images we read do."""
    return path.suffix.lower() in IMAGES


def is_mask(path: Path) -> bool:
    """Whether a name ends as those of the masks we read do."""
    return is_image(path) or path.suffix.lower() in {".npy", ".npz"}


def encoding_of(path: Path) -> str:
    """UTF-16 where a byte order mark says so, as Excel writes Unicode text, else UTF-8 with or without its mark."""
    with path.open("rb") as handle:
        return "utf-16" if handle.read(2) in {BOM_UTF16_LE, BOM_UTF16_BE} else "utf-8-sig"


def text_of(path: Path) -> str:
    """A file's text in UTF-8, or in UTF-16 with a byte order mark.

    Raises:
        DatasetError: it is no such text.
    """
    try:
        return path.read_text(encoding=encoding_of(path))
    except UnicodeError as error:
        raise DatasetError(
            str(path), expected="text in UTF-8", found=str(error), remedy="Save the file as UTF-8"
        ) from None


def is_text(name: str) -> bool:
    """Whether a name holds no control character, and is Unicode."""
    return not any(unicodedata.category(letter) in {"Cc", "Cs"} for letter in name)

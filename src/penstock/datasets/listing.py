"""Files and folders by the names that people give them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

PICTURES: Final = frozenset({".jpg", ".jpeg", ".png"})
SPLITS: Final = {
    "train": ("train", "training"),
    "val": ("val", "valid", "validation"),
    "test": ("test", "testing"),
}


def subfolder(folder: Path, names: tuple[str, ...]) -> Path | None:
    """The first subfolder with one of the names, whatever its case."""
    there = {entry.name.lower(): entry for entry in sorted(folder.iterdir()) if entry.is_dir()}
    return next((there[name.lower()] for name in names if name.lower() in there), None)


def splits(folder: Path) -> dict[str, Path]:
    """The subfolders that are splits, by our name for them."""
    found = {split: subfolder(folder, names) for split, names in SPLITS.items()}
    return {split: path for split, path in found.items() if path is not None}


def files(folder: Path) -> list[Path]:
    """All files below a folder, sorted, hidden ones and Windows' thumbnails left out."""
    found = (path for path in folder.rglob("*") if path.is_file() and path.name != "Thumbs.db")
    return sorted(p for p in found if not any(part.startswith(".") for part in p.relative_to(folder).parts))


def is_picture(path: Path) -> bool:
    """Whether a name ends as those of the pictures we read do."""
    return path.suffix.lower() in PICTURES


def read_classes(folder: Path) -> tuple[str, ...]:
    """The names in the folder's `classes.txt`, one a line; empty where there is none."""
    path = folder / "classes.txt"
    if not path.is_file():
        return ()
    return tuple(line.strip() for line in path.read_text().splitlines() if line.strip())

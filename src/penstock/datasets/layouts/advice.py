"""What to say of a folder that has no layout that is known: what lies in it, and which layouts come near."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from penstock.datasets import listing
from penstock.datasets.layouts import jsons, yolo
from penstock.datasets.layouts.catalogue import layouts
from penstock.datasets.layouts.csv_files import read_rows
from penstock.errors import DatasetError
from penstock.progress import counted

_HINTS: Final = {
    ".zip": "Unpack the archive, and name the folder in it",
    ".tar": "Unpack the archive, and name the folder in it",
    ".gz": "Unpack the archive, and name the folder in it",
    ".tgz": "Unpack the archive, and name the folder in it",
    ".rar": "Unpack the archive, and name the folder in it",
    ".7z": "Unpack the archive, and name the folder in it",
    ".parquet": "Write the images to files",
    ".nii.gz": "Put volumes into images/ and their labels into labels/, or call them CASE/CASE_t1 and CASE/CASE_seg",
}
_CONVERT: Final = "Convert the files to JPEG, PNG or TIFF"
_ANNOTATIONS: Final = frozenset({".xml", ".txt", ".json", ".jsonl", ".csv", ".yaml", ".yml", ".md", ".pdf", ""})
_TELLING: Final = frozenset({".xml", ".json", ".jsonl"})
_MAX: Final = 3
_KEYS: Final = 6  # of a JSON file, in a line


def has_annotations(folder: Path) -> bool:
    """Whether files lie there that perhaps say something of the images, beside a README."""
    return any(path.suffix.lower() in _TELLING for path in listing.files(folder))


def without_images(folder: Path) -> DatasetError | None:
    """The error for a folder that holds files, but no image of a known format; None for any other folder."""
    kinds: Counter[str] = Counter()
    for path in listing.files(folder):
        if listing.is_image(path):
            return None
        kinds[".nii.gz" if path.name.lower().endswith(".nii.gz") else path.suffix.lower()] += 1
    telling = [(end, count) for end, count in kinds.most_common() if end not in _ANNOTATIONS]
    if not telling:
        return None
    found = ", ".join(counted(count, f"{end} file") for end, count in telling[:_MAX])
    remedy = _HINTS.get(telling[0][0], _CONVERT)
    message = f"{folder}: no image of a known format was found, but {found}."
    return DatasetError(str(folder), expected="images", found=found, remedy=remedy, message=message)


def tree_of(layout: str) -> str:
    """The files of a layout, as a sentence; nothing for a custom layout."""
    return f" The layout {layout} has these files: {known.tree}." if (known := layouts().get(layout)) else ""


def nearest(folder: Path) -> str:
    """The three nearest layouts, each with what is there and what is missing; none without images."""
    found = list(_near(folder))[:_MAX]
    return "".join(f"\n  {line}" for line in found)


def _near(folder: Path) -> Iterator[str]:
    ends: dict[str, Counter[str]] = defaultdict(Counter)
    first: dict[str, Path] = {}
    for path in listing.files(folder):
        kind = "image" if listing.is_image(path) else path.suffix.lower()
        ends[kind][_parent(folder, path)] += 1
        first.setdefault(kind, path)
    images = _places(ends["image"], "image")
    if not ends["image"]:
        return
    if ends[".xml"]:
        wanted = (
            "XML of Pascal VOC, each with the name of its image, in annotations/ beside images/ or beside the image"
        )
        yield f"labelimg: {_places(ends['.xml'], 'XML file')}, {images}. Expected: {wanted}."
    if ends[".json"]:
        said = f"{_places(ends['.json'], 'JSON file')}, {images}. {first['.json'].name} holds {_keys(first['.json'])}"
        keys = "; or ".join(f"{known.keys} ({name})" for name, known in layouts().items() if known.keys)
        yield f"{said}. Expected: {keys}."
    if ".txt" in first and yolo.is_box(first[".txt"]):
        wanted = "text files in labels/ with the names of the images in images/"
        yield f"yolo: {_places(ends['.txt'], 'text file')}, {images}. Expected: {wanted}."
    for path in listing.plain(folder, "*.csv"):
        yield _csv(path)
    yield f"masks: {images}. Expected: the images in images/, and masks of the same names in masks/."
    if ends["image"]["the folder itself"]:
        yield f"named-masks: {images}. Expected: a mask a_mask.png beside each image a.jpg."
    yield f"folders: {images}. Expected: a folder for each class, with its images in it."
    yield f"csv: {images}, no table. Expected: a table labels.csv beside them, with the columns file and label."


def _places(places: Counter[str], what: str) -> str:
    """How many there are, by folder."""
    return ", ".join(f"{counted(count, what)} in {name}" for name, count in places.most_common(2))


def _parent(folder: Path, path: Path) -> str:
    inside = path.relative_to(folder).parts
    return f"{inside[0]}/" if len(inside) > 1 else "the folder itself"


def _keys(path: Path) -> str:
    """What a JSON file holds at its top."""
    try:
        found = jsons.read(path)
    except (DatasetError, OSError):
        return "no JSON"
    if isinstance(found, list):
        keys = (
            f"the keys {', '.join(list(found[0])[:_KEYS])}" if found and isinstance(found[0], dict) else "other values"
        )
        return f"a list of {counted(len(found), 'value')} with {keys}"
    return f"the keys {', '.join(list(found)[:_KEYS])}" if isinstance(found, dict) else "a single value"


def _csv(path: Path) -> str:
    """What a CSV file holds that names no images."""
    _, header = read_rows(path)
    return f"csv: {path.name} with the columns {', '.join(header[:_KEYS])}. Expected: columns file and label."

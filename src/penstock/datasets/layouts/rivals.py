"""What is there twice: labels in two versions of a folder, and images in two formats."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import combinations
from pathlib import Path
from typing import Final

from penstock.datasets import listing
from penstock.datasets.layout import Layout
from penstock.datasets.layouts.folders import MASKS_INSIDE
from penstock.errors import PenstockError
from penstock.images import probe
from penstock.images.formats import stored
from penstock.kinds.items import Problem, named
from penstock.progress import counted

_VERSION: Final = re.compile(
    r"([-_ .]?(v(ersion)?[-_ .]?\d+(\.\d+)?|(?<!\d)\d{1,2}(?!\d)|old|new|orig(inal)?|fix(ed)?|correct(ed|ions?)?|"
    r"clean(ed)?|refined|final|backup|bak|auto(matic)?|manual|raw))+$",
    re.IGNORECASE,
)
_V: Final = re.compile(r"v(ersion)?[-_ .]?\d+$", re.IGNORECASE)
_PREDICTED: Final = re.compile(r"(?<![a-z])(pred(iction)?s?|inferred|outputs?)(?![a-z])", re.IGNORECASE)
_TEXTS: Final = frozenset({".txt", ".xml", ".json"})
_FORMATS: Final = re.compile(r"png|tiff?|jpe?g|bmp", re.IGNORECASE)
_AWAY: Final = "Move the one away that is not meant"
_HALF: Final = 0.5  # of the files, or images
_MAX: Final = 12  # folders that may be versions of each other
_COMPARED: Final = 50  # files of two folders


def problems(folder: Path, found: Layout) -> Iterator[Problem]:
    """A problem of each second version of the labels, and of images in two formats."""
    images = {item.image: item for item in found.items if isinstance(item.image, Path)}
    stems = {path.stem for path in images}
    masks = {item.label.parent for item in images.values() if isinstance(item.label, Path)}
    files: dict[Path, dict[str, Path]] = defaultdict(dict)
    for path in listing.files(folder):
        if path.suffix.lower() in _TEXTS or listing.is_mask(path):
            files[path.parent][path.name] = path
    beside = {path.parent for path in images}
    texts = {place for place, own in files.items() if _holds_labels(own, stems)}
    painted = {place for place in files if masks and place not in beside}
    for one, other in _siblings(texts | painted) if not found.raters else ():
        both = {one, other}
        of_labels = both <= texts or (both <= painted and bool(both & masks))
        named_so = len(both & beside) == 1 or _are_versions(one.name, other.name)
        if of_labels and named_so and _differ(files[one], files[other]):
            name, second = named(other, folder), named(one, folder)
            choose = "Choose it with --images and --masks, or move the other one away" if both & masks else _AWAY
            message = (
                f"{name}: expected one folder of labels, found {second} too, whose files have the same names and other "
                f"content. {choose}."
            )
            yield Problem("labels in two versions", name, message, whole=True)
    if not any(problem.kind == MASKS_INSIDE for problem in found.problems):
        yield from _in_two_formats(folder, images)


def _siblings(places: set[Path]) -> Iterator[tuple[Path, Path]]:
    """Pairs of folders in one folder, where it holds few: of many each is one of a case."""
    together: dict[Path, list[Path]] = defaultdict(list)
    for place in sorted(places):
        together[place.parent].append(place)
    for each in together.values():
        yield from combinations(each if len(each) <= _MAX else (), 2)


def _holds_labels(own: Mapping[str, Path], stems: set[str]) -> bool:
    """Whether a folder holds labels in text for most of the images."""
    texts = [path for path in own.values() if path.suffix.lower() in _TEXTS]
    return bool(texts) and sum(path.stem in stems for path in texts) >= _HALF * max(len(own), len(stems))


def _are_versions(one: str, other: str) -> bool:
    """Whether two names are those of versions of the same labels; numbers alone may be those of cases."""
    cores = [_VERSION.sub("", name).lower() for name in (one, other)]
    numbered = all(name[-1].isdigit() and not _V.search(name) for name in (one, other))
    predicted = [bool(_PREDICTED.search(name)) for name in (one, other)]
    return (cores[0] == cores[1] and not numbered) or any(predicted) != all(predicted)


def _differ(one: Mapping[str, Path], other: Mapping[str, Path]) -> bool:
    """Whether two folders hold files of the same names and of one sort, some of which are not the same."""
    both = sorted(one.keys() & other.keys())
    if not both or len(both) < _HALF * max(len(one), len(other)):
        return False
    pairs = [(one[name], other[name]) for name in both[:: max(1, len(both) // _COMPARED)]]
    try:
        alike = listing.is_image(pairs[0][0]) and len({_channels(path) for path in pairs[0]}) > 1
        return not alike and any(a.read_bytes() != b.read_bytes() for a, b in pairs)
    except (PenstockError, OSError):  # which is named where they are read
        return False


def _channels(path: Path) -> int:
    return probe(stored(path.read_bytes(), path.name), path.name).channels


def _in_two_formats(folder: Path, images: Mapping[Path, object]) -> Iterator[Problem]:
    named_so: dict[str, list[Path]] = defaultdict(list)
    for path in images:
        inside = path.relative_to(folder) if path.is_relative_to(folder) else path
        above = [part for part in inside.parts[:-1] if not _FORMATS.fullmatch(part)]
        named_so["/".join([*above, path.stem])].append(path)
    twice = [paths for paths in named_so.values() if len({path.suffix.lower() for path in paths}) > 1]
    if len(twice) > _HALF * len(named_so):
        one, other = (named(path, folder) for path in sorted(twice[0])[:2])
        message = (
            f"{other}: expected each image once, found {one} too, as for {counted(len(twice), 'name')} of "
            f"{len(named_so):,}. Move the files of one format away."
        )
        yield Problem("images in two formats", other, message, whole=True)

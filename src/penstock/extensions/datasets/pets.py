"""Oxford-IIIT Pet (Parkhi et al. 2012): breeds, trimaps of the animals, and boxes of their heads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

from penstock.datasets import class_lists, listing
from penstock.datasets.layout import Layout
from penstock.datasets.layouts import voc
from penstock.kinds.items import Item, Labels, Problem, named

_LISTS: Final = {"train": "trainval.txt", "test": "test.txt"}
_TRIMAPS: Final = Labels(("background", "pet"), mapping={1: 1, 2: 0, 3: 255})  # 3 is the border
_SPECIES: Final = ("cat", "dog")
_WORDS: Final = 4  # of a line: name, breed, species, breed within the species


def recognise(folder: Path) -> Layout | None:
    """`images/` and `annotations/` with `trainval.txt` and `trimaps/`, by breed, masks or boxes; None without these."""
    annotations = folder / "annotations"
    if not (annotations / _LISTS["train"]).is_file() or not (annotations / "trimaps").is_dir():
        return None
    lists = {split: _lines(annotations / name) for split, name in _LISTS.items() if (annotations / name).is_file()}
    breeds = {breed: name.rpartition("_")[0] for lines in lists.values() for name, breed in lines}
    classes = tuple(breeds[number] for number in sorted(breeds))
    items: list[Item] = []
    problems: list[Problem] = []
    for split, lines in lists.items():
        for name, breed in lines:
            image = folder / "images" / f"{name}.jpg"
            if listing.is_there(image):
                items.append(Item(split, name, image, label=sorted(breeds).index(breed)))
            else:
                problems.append(_missing(named(image, folder), _LISTS[split]))
    reasons = ("images/ and annotations/ with trainval.txt and trimaps/", "the class of an image is its breed")
    layout = Layout("classification", "Oxford-IIIT Pet", reasons, tuple(items), Labels(classes), tuple(problems))
    return replace(layout, others=(_masks(layout, annotations), _heads(layout, annotations)))


def _lines(path: Path) -> list[tuple[str, int]]:
    """Names and numbers of breeds."""
    words = [line.split() for line in listing.text_of(path).splitlines() if not line.startswith("#")]
    return [(each[0], class_lists.id_in(each[1])) for each in words if len(each) == _WORDS and each[1].isdecimal()]


def _masks(breed: Layout, annotations: Path) -> Layout:
    items = tuple(replace(item, label=annotations / "trimaps" / f"{item.name}.png") for item in breed.items)
    reasons = (breed.reasons[0], "1 is the pet, 2 the background, 3 the border, which is ignored")
    return replace(breed, task="segmentation", reasons=reasons, items=items, labels=_TRIMAPS)


def _heads(breed: Layout, annotations: Path) -> Layout:
    """The images whose heads have boxes: those of trainval, most of them."""
    items = []
    for item in breed.items:
        path = annotations / "xmls" / f"{item.name}.xml"
        tree = voc.parse(path)
        if tree is not None:
            boxes = tuple(voc.boxes(tree, _SPECIES, path))
            items.append(replace(item, label=boxes, size=voc.size(tree)))
    reasons = (breed.reasons[0], "boxes of the heads in annotations/xmls/, counted from 1")
    return replace(breed, task="detection", reasons=reasons, items=tuple(items), labels=Labels(_SPECIES))


def _missing(name: str, source: str) -> Problem:
    message = f"{name}: expected it, as {source} names it, found nothing. Add it, or remove its line."
    return Problem("image missing", name, message)

"""Pascal VOC (Everingham et al. 2010): palette masks in `SegmentationClass/`, boxes in the XML of `Annotations/`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

from penstock.datasets import class_lists, listing
from penstock.datasets.layout import Layout
from penstock.datasets.layouts import legend, published, split_problems, typed
from penstock.datasets.layouts.masks import labels_of
from penstock.errors import DatasetError
from penstock.kinds.items import Box, Item, Labels, Problem, named
from penstock.progress import counted

CLASSES: Final = (
    "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow", "diningtable", "dog",
    "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
)  # fmt: skip
_SPLITS: Final = ("train", "val", "test")
_AUGMENTED: Final = ("train_aug.txt", "trainaug.txt")
_AUGMENTED_COUNT: Final = 10_582
_PUBLISHED: Final = (209, 511, 749, 964, 1112, 1464)  # images of train, 2007 to 2012
_PARTS: Final = {"filename", "folder", "object", "path", "segmented", "size", "source"}
"""What an annotation holds, any of which shows that it is one."""
_OTHERS: Final = {
    "robndbox": "a rotated box in <robndbox>, as roLabelImg writes it",
    "polygon": "an outline in <polygon>, as LabelMe's website and CVAT's LabelMe 3.0 write it",
}


def recognise_masks(folder: Path) -> Layout | None:
    """`JPEGImages/` and `SegmentationClass/`, divided by `ImageSets/Segmentation/`.

    With the masks of Hariharan et al. (2011) in `SegmentationClassAug/` and their list in `train_aug.txt`, that is the
    training split, without the images of val: 10,582 of them.
    """
    images, masks = folder / "JPEGImages", folder / "SegmentationClass"
    lists = _lists(folder, "Segmentation")
    if not images.is_dir() or not masks.is_dir() or not lists:
        return None
    more = next((path for name in _AUGMENTED if (path := folder / "ImageSets" / "Segmentation" / name).is_file()), None)
    more_masks = folder / "SegmentationClassAug"
    folders = dict.fromkeys(lists, masks)
    reasons = ["JPEGImages/ and palette masks in SegmentationClass/"]
    problems: list[Problem] = []
    if more and more_masks.is_dir():
        names, seen = _names(more, images), set(lists.get("val", ()))
        lists["train"], folders["train"] = [name for name in names if name not in seen], more_masks
        left = len(names) - len(lists["train"])
        reasons.append(f"train is {more.name}: {counted(len(lists['train']), 'image')}, {left:,} of val left out")
        problems += _unlike_published(more.relative_to(folder).as_posix(), len(lists["train"]), val="val" in lists)
    items: list[Item] = []
    for split, names in lists.items():
        for name in names:
            mask, image = listing.noted(folders[split], f"{name}.png"), _image(images, name)
            if not mask.is_file() and split == "test":
                continue  # the benchmark keeps its labels
            missing = list(_missing(folder, split, [image, mask]))
            problems += missing
            if not missing:
                items.append(Item(split, name, image, label=mask))
    if not more:
        problems += _unlisted(folder, masks, lists)
    own = labels_of(folder)
    labels = own if own.classes else Labels(("background", *CLASSES))
    if not own.classes and not more:
        problems += published.doubt(folder, "Pascal VOC", items, *_PUBLISHED)
    labels = legend.in_colormap(labels, next((item.label for item in items), None))
    return Layout("segmentation", "Pascal VOC", tuple(reasons), tuple(items), labels, tuple(problems))


def recognise_boxes(folder: Path) -> Layout | None:
    """`JPEGImages/` and XML in `Annotations/`, divided by `ImageSets/Main/`.

    Edges in the XML are counted from 1 and belong to the box, so a box reaches from xmin - 1 to xmax.
    """
    images, annotations = folder / "JPEGImages", folder / "Annotations"
    if not images.is_dir() or not any(annotations.glob("*.xml")):
        return None
    lists = _lists(folder, "Main") or {"train": sorted(path.stem for path in annotations.glob("*.xml"))}
    problems: list[Problem] = []
    trees: dict[str, ET.Element | None] = {}
    for name in (name for names in lists.values() for name in names):
        try:
            trees[name] = parse(listing.noted(annotations, f"{name}.xml"))
        except DatasetError as error:
            problems.append(Problem("damaged XML", f"Annotations/{name}.xml", str(error)))
    found = class_names(tree for tree in trees.values() if tree is not None)
    classes = class_lists.read_classes(folder) or (CLASSES if set(found) <= set(CLASSES) else found)
    items: list[Item] = []
    for split, names in lists.items():
        for name in (name for name in names if name in trees):
            image, tree = _image(images, name), trees[name]
            problems += _missing(folder, split, [image, listing.noted(annotations, f"{name}.xml")])
            if image.is_file() and tree is not None:
                problems += other_image(tree, image, folder)
                there: tuple[Box, ...] = ()
                try:
                    there = tuple(boxes(tree, classes, annotations / f"{name}.xml"))
                except DatasetError as error:
                    problems.append(Problem("object without a box", image.relative_to(folder).as_posix(), str(error)))
                items.append(Item(split, name, image, label=there, size=size(tree)))
    problems += [*from_zero(items, folder), *_unlisted(folder, annotations, lists)]
    reasons = (f"JPEGImages/ and boxes of {counted(len(classes), 'class')} in Annotations/*.xml, counted from 1",)
    return Layout("detection", "Pascal VOC boxes", reasons, tuple(items), Labels(classes), tuple(problems))


def _unlisted(folder: Path, labels: Path, lists: Mapping[str, Sequence[str]]) -> list[Problem]:
    """Notes of images with labels that no list names."""
    known = {name for names in lists.values() for name in names}
    left = sorted(path.stem for path in listing.files(labels) if path.stem not in known)
    images = (_image(folder / "JPEGImages", name) for name in left)
    return [split_problems.unlisted(named(path, folder)) for path in images if path.is_file()]


def _image(images: Path, name: str) -> Path:
    """The image of a name, whatever its suffix; a JPEG where there is none."""
    paths = (listing.file_of(images, f"{name}{end}") for end in (".jpg", ".jpeg", ".png", ".bmp", ".tif", ".webp"))
    return next(filter(None, paths), images / f"{name}.jpg")


def _unlike_published(name: str, count: int, *, val: bool) -> Iterator[Problem]:
    """Notes of a list that is not the one that results are published with."""
    if not val:
        message = f"{name}: expected val.txt beside it, whose images are left out of it, found none."
        yield Problem("images of val in train", name, message, fatal=False, whole=True)
    elif count != _AUGMENTED_COUNT:
        message = f"{name}: expected the {_AUGMENTED_COUNT:,} images of the published list, found {count:,}."
        yield Problem("another train_aug", name, message, fatal=False, whole=True)


def _lists(folder: Path, kind: str) -> dict[str, list[str]]:
    """Names by split; the lists of single classes are left out."""
    root = folder / "ImageSets" / kind
    paths = {split: root / f"{split}.txt" for split in _SPLITS}
    if not paths["train"].is_file() and not paths["val"].is_file():  # as VOC 2007 is given out
        paths["train"] = root / "trainval.txt"
    return {split: _names(path, folder / "JPEGImages") for split, path in paths.items() if path.is_file()}


def _names(path: Path, images: Path) -> list[str]:
    """The image that every line names: all of it, or its first word; the devkit of DeepLab writes whole paths there."""
    lines = (line.strip() for line in listing.text_of(path).splitlines() if line.strip())
    words = (line if _image(images, line).is_file() else line.split()[0] for line in lines)
    names = (word if "/" not in word else word.rpartition("/")[2].rpartition(".")[0] for word in words)
    return list(dict.fromkeys(names))  # an image that is listed twice is one


def read_xml(path: Path) -> ET.Element:
    """The root of an XML file.

    Raises:
        DatasetError: it is no XML.
    """
    try:
        return ET.parse(path).getroot()  # noqa: S314 - expat limits what entities grow to
    except (ET.ParseError, ValueError, LookupError) as error:
        raise DatasetError(str(path), expected="XML", found=str(error), remedy="Fix or remove the file") from None


def parse(path: Path) -> ET.Element | None:
    """The annotation in a file; None where there is no file.

    Raises:
        DatasetError: it is no XML, or another sort of it, which would be an image without objects.
    """
    if not path.is_file():
        return None
    tree = read_xml(path)
    inside = dict.fromkeys(each.tag for each in tree)
    if tree.tag != "annotation" or (inside and not _PARTS & inside.keys()):
        raise DatasetError(
            str(path),
            expected=f"an annotation of Pascal VOC, with one of {', '.join(sorted(_PARTS))}",
            found=f"<{tree.tag}>" + (f" with {', '.join(list(inside)[:3])}" if inside else ""),
            remedy="Fix or remove the file",
        )
    return tree


def size(tree: ET.Element) -> tuple[int, int]:
    """The (height, width) that the boxes were made for; (0, 0) where it is not said."""
    return typed.size(*(_text(tree, f"size/{side}") for side in ("height", "width")))


def from_zero(items: Iterable[Item], folder: Path) -> Iterator[Problem]:
    """A note where a box begins at 0: edges that are counted from 1 never do."""
    first = next((each for each in items for box in each.label or () if min(box.left, box.top) == -1), None)
    if first is not None:
        name = named(first.image, folder)
        message = (
            f"{name}: a box begins at 0, so that edges may be counted from 0. They are taken as Pascal VOC counts "
            "them, from 1: then all boxes lie a pixel too far left and up."
        )
        yield Problem("counted from 0", name, message, fatal=False, whole=True)


def other_image(tree: ET.Element, image: Path, folder: Path) -> Iterator[Problem]:
    """A note where the XML of an image says the name of another one that lies beside it."""
    other = listing.file_of(image.parent, _text(tree, "filename"))
    if other is not None and other != image and listing.is_image(other):
        name = named(image, folder)
        message = (
            f"{name}: its XML names {other.name} as its image. The boxes are those of {image.name}, as the XML file is "
            "called."
        )
        yield Problem("XML of another image", name, message, fatal=False)


def class_names(trees: Iterable[ET.Element]) -> tuple[str, ...]:
    """The names of the objects in some XML, sorted."""
    found = {_text(each, "name") for tree in trees for each in tree.iter("object")}
    return tuple(sorted(found - {""}))


def boxes(tree: ET.Element, classes: tuple[str, ...], path: Path) -> Iterator[Box]:
    """The boxes of an image's XML, whose edges are counted from 1 and belong to the box.

    Raises:
        DatasetError: an object has no class of the list, or no four numbers.
    """
    for each in tree.iter("object"):
        name = _text(each, "name")
        if other := next((tag for tag in _OTHERS if each.find(tag) is not None and each.find("bndbox") is None), None):
            raise DatasetError(
                str(path),
                expected="upright boxes in <bndbox>",
                found=f"{name}: {_OTHERS[other]}",
                remedy="Write the upright box around it, or leave the image out with --skip-bad",
            )
        edges: Mapping[str, str] = {edge: _text(each, f"bndbox/{edge}") for edge in ("xmin", "ymin", "xmax", "ymax")}
        try:
            if not name:
                raise ValueError  # noqa: TRY301 - named below
            left, top, right, bottom = (float(text) for text in edges.values())
            label = classes.index(name)
        except ValueError:
            raise DatasetError(
                str(path),
                expected="a class name and numbers xmin, ymin, xmax, ymax for every object",
                found=f"{name or 'no name'}: {', '.join(f'{edge} {text}' for edge, text in edges.items())}",
                remedy="Fix the file",
            ) from None
        yield Box(label, left - 1, top - 1, right, bottom, difficult=_text(each, "difficult") == "1")


def _text(element: ET.Element, path: str) -> str:
    return listing.composed((element.findtext(path) or "").strip())


def _missing(folder: Path, split: str, paths: list[Path]) -> Iterator[Problem]:
    for path in paths:
        if not path.is_file():
            name = path.relative_to(folder).as_posix()
            message = f"{name}: expected it, as the list of {split} names it, found nothing. Add it, or fix the list."
            yield Problem("file missing", name, message)

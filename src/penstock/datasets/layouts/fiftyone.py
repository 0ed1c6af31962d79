"""FiftyOne's exports: `data/` and `labels.json` with classes or boxes by the names of the images, or `samples.json`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.datasets import listing
from penstock.datasets.layouts import annotated, jsons, shapes
from penstock.datasets.layouts.annotated import AnnotatedImage, Annotations
from penstock.datasets.layouts.lookup import Images
from penstock.kinds.items import named
from penstock.progress import counted

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.datasets.layout import Layout
    from penstock.datasets.layouts.shapes import Shape


def recognise(folder: Path) -> Layout | None:
    """`labels.json` or `samples.json` beside `data/`, in the folder or in its splits; None where there are none."""
    places = [path for path in (folder, *listing.splits(folder).values()) if (path / "data").is_dir()]
    files = {path: tree for place in places for path in _files(place) if (tree := _entries(jsons.read(path)))}
    if not files:
        return None
    names = ", ".join(named(path, folder) for path in files)
    count = sum(len(entries) for entries, _ in files.values())
    classes = next((classes for _, classes in files.values() if classes), ())
    found = Annotations("FiftyOne", f"labels of {counted(count, 'image')} in {names}", classes=classes)
    for path, (entries, names_by_id) in files.items():
        images = Images(path.parent / "data")
        for wanted, said in entries.items():
            _add(found, folder, path, wanted, said, names_by_id, images)
    return found.layout(folder)


def _files(place: Path) -> list[Path]:
    return listing.plain(place, "labels.json", "samples.json")


def _entries(tree: Any) -> tuple[dict[str, Any], tuple[str, ...]] | None:
    """What is said of each image by its name, and the classes by id; None for other JSON."""
    if not isinstance(tree, dict):
        return None
    if isinstance(tree.get("labels"), dict):
        return tree["labels"], tuple(map(str, tree.get("classes") or ()))
    samples = tree.get("samples")
    if not isinstance(samples, list) or not all(isinstance(each, dict) and "filepath" in each for each in samples):
        return None
    return {str(each["filepath"]): _label_field(each) for each in samples}, ()


def _label_field(sample: dict[str, Any]) -> Any:
    """The labels of a sample: its ground truth, or the first field that has some."""
    fields = [sample.get("ground_truth"), *sample.values()]
    labelled = [each for each in fields if isinstance(each, dict) and {"label", "detections", "polylines"} & set(each)]
    if not labelled:
        return None
    return labelled[0].get("detections") or labelled[0].get("polylines") or labelled[0].get("label")


def _add(
    found: Annotations, folder: Path, path: Path, wanted: str, said: Any, classes: tuple[str, ...], images: Images
) -> None:
    image = images.find(wanted) or images.find(wanted.replace("\\", "/").rpartition("/")[2])
    if image is None:
        found.problems.append(annotated.image_missing(named(path, folder), wanted, images.among(wanted)))
        return
    shapes: tuple[Shape, ...] = ()
    tags: tuple[str, ...] = ()
    if isinstance(said, list):
        named_all = [
            {**each, "label": annotated.class_name(each.get("label"), classes)}
            for each in said
            if isinstance(each, dict)
        ]
        where = f"{named(path, folder)} ({wanted})"
        shapes = annotated.read_shapes(found, named_all, _shape, image=named(image, folder), where=where)
    elif said is not None:
        tags = (annotated.class_name(said, classes),)
    split = annotated.split_of(path, folder)
    found.images.append(AnnotatedImage(split, image.stem, image, path, shapes, tags, relative=True))


def _shape(each: dict[str, Any], where: str) -> Shape:
    """An object in fractions of the image's size: a box as x, y, width, height, or outlines."""
    del where
    if each.get("points"):
        outer, *holes = each["points"]
        return shapes.polygon(each["label"], outer, holes)
    left, top, width, height = (float(number) for number in each["bounding_box"])
    return shapes.rectangle(each["label"], [(left, top), (left + width, top + height)])

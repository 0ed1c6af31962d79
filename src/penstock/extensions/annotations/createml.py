"""Apple Create ML's JSON: for each image its name and boxes, by their middle and size in pixels."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from penstock.datasets import listing
from penstock.datasets.layout import Layout
from penstock.datasets.layouts import annotated, jsons, shapes, typed
from penstock.datasets.layouts.annotated import AnnotatedImage, Annotations
from penstock.datasets.layouts.lookup import Images
from penstock.datasets.layouts.shapes import Shape
from penstock.kinds.items import named
from penstock.progress import counted

_KEYS: Final = (b'"image"', b'"annotations"', b'"coordinates"')


def recognise(folder: Path) -> Layout | None:
    """JSON files of images with `coordinates`, in the folder or in its splits; None where there are none."""
    places = [folder, *listing.splits(folder).values()]
    paths = [path for place in places for path in listing.plain(place, "*.json")]
    files = {path: tree for path in paths if isinstance(tree := jsons.read_with(path, _KEYS), list)}
    if not files:
        return None
    names = ", ".join(named(path, folder) for path in files)
    found = Annotations("Create ML", f"boxes of {counted(sum(map(len, files.values())), 'image')} in {names}")
    images = Images(folder)
    for path, entries in files.items():
        for number, each in enumerate(entries, 1):
            _add(found, folder, path, number, each, images)
    return found.layout(folder)


def _add(found: Annotations, folder: Path, path: Path, number: int, each: Any, images: Images) -> None:
    name = named(path, folder)
    key = "imagefilename" if isinstance(each, dict) and "imagefilename" in each else "image"
    wanted = annotated.entry_of(found, each, key, str, file=name, where=f"{name}, image {number}")
    image = annotated.find_image(found, folder, path, wanted, images) if wanted is not None else None
    if image is None:
        return
    where, shown = f"{name} ({wanted})", named(image, folder)
    entries = annotated.entry_of(found, each, "annotations", typed.Entries, file=shown, where=where)
    shapes = annotated.read_shapes(found, entries or (), _shape, image=shown, where=where)
    found.images.append(AnnotatedImage(annotated.split_of(path, folder), image.stem, image, path, shapes))


def _shape(each: dict[str, Any], where: str) -> Shape:  # noqa: ARG001 - of its seam
    label = typed.get(each, "label", typed.Name)
    x, y, width, height = typed.numbers(each.get("coordinates"), ("x", "y", "width", "height"))
    corners = [(x - width / 2, y - height / 2), (x + width / 2, y + height / 2)]
    return shapes.rectangle(annotated.class_name(label), corners)

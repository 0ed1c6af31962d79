"""Apple Create ML's JSON: for each image its name and boxes, by their middle and size in pixels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

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
        for each in entries:
            _add(found, folder, path, each, images)
    return found.layout(folder)


def _add(found: Annotations, folder: Path, path: Path, each: dict[str, Any], images: Images) -> None:
    name, wanted = named(path, folder), str(each.get("image") or each.get("imagefilename") or "")
    image = annotated.find_image(found, folder, path, wanted, images)
    if image is None:
        return
    where = f"{name} ({wanted})"
    said = each.get("annotations") or ()
    shapes = annotated.read_shapes(found, said, _shape, image=named(image, folder), where=where)
    found.images.append(AnnotatedImage(annotated.split_of(path, folder), image.stem, image, path, shapes))


def _shape(each: dict[str, Any], where: str) -> Shape:
    del where
    x, y, width, height = (float(each["coordinates"][key]) for key in ("x", "y", "width", "height"))
    corners = [(x - width / 2, y - height / 2), (x + width / 2, y + height / 2)]
    return shapes.rectangle(annotated.class_name(each["label"]), corners)

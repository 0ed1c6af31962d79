"""Folders of images and depth maps: `penstock pack FOLDER -o DATA --layout examples/depth/depth_layout.py:recognise`.

images/train/a.jpg and depth/train/a.png, images/val/b.jpg and depth/val/b.png.
"""

from depth_kind import Depth

from penstock import Item, Labels, Layout


def recognise(folder):
    """Images in images/SPLIT, with depth maps of the same names in depth/SPLIT."""
    if not (folder / "depth").is_dir():
        return None
    items = []
    for image in sorted((folder / "images").glob("*/*.*")):
        depth = folder / "depth" / image.parent.name / f"{image.stem}.png"
        items.append(Item(image.parent.name, image.stem, image, depth if depth.exists() else None))
    return Layout(Depth(), "images and depth", ("there is a folder depth",), tuple(items), Labels(("depth",)))

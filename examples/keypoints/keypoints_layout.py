"""Folders of images and points: `penstock pack FOLDER -o DATA --layout examples/keypoints/keypoints_layout.py:recognise`.

images/train/a.jpg and points/train/a.json, images/val/b.jpg and points/val/b.json.
"""

import json

from keypoints_kind import Keypoints

from penstock import Item, Labels, Layout


def recognise(folder):
    """Images in images/SPLIT, with JSON files of the same names in points/SPLIT; the first file names the points."""
    if not (folder / "points").is_dir():
        return None
    items, names = [], ()
    for image in sorted((folder / "images").glob("*/*.*")):
        points = folder / "points" / image.parent.name / f"{image.stem}.json"
        if points.exists() and not names:
            try:
                names = tuple(json.loads(points.read_bytes()))
            except ValueError:
                pass
        items.append(Item(image.parent.name, image.stem, image, points if points.exists() else None))
    return Layout(Keypoints(), "images and points", ("there is a folder points",), tuple(items), Labels(names))

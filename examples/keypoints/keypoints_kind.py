"""Records of an image and its named points: JSON {"NAME": {"x": 1.5, "y": 2.5, "visible": true}, ...}.

The left upper corner of an image is (0, 0); the centre of its first pixel is (0.5, 0.5).
"""

import json
from collections import Counter
from dataclasses import replace

import cv2
import numpy as np

from penstock import Kind, Problem
from penstock.errors import LabelError
from penstock.images import codecs, drawing, probe, read_upright
from penstock.kinds import TILE, Counts, hashed, named, sentence
from penstock.records import Fields, encode

COLORS = ((255, 60, 60), (60, 255, 90), (80, 120, 255), (255, 220, 60), (255, 80, 255), (60, 255, 255))


def read_points(data, where, size, classes):
    """Points, float32 (points, 3): x, y and 1 where it is visible.

    Raises:
        LabelError: they are not the points that were named, or a visible one lies outside of the image.
    """
    remedy = 'Write {"NAME": {"x": 1.5, "y": 2.5, "visible": true}, ...} for every point'
    try:
        found = json.loads(data)
        rows = [[float(found[name][key]) for key in ("x", "y", "visible")] for name in classes]
    except (ValueError, KeyError, TypeError) as error:
        raise LabelError(
            f"{where} (points)", expected=f"points {', '.join(classes)}", found=repr(error), remedy=remedy
        ) from error
    if set(found) != set(classes):
        extra = ", ".join(sorted(set(found) - set(classes)))
        raise LabelError(f"{where} (points)", expected=f"points {', '.join(classes)}", found=extra, remedy=remedy)
    points = np.array(rows, np.float32).reshape(-1, 3)
    for name, (x, y, visible) in zip(classes, points, strict=True):
        if visible and not (0 <= x <= size[1] and 0 <= y <= size[0]):
            raise LabelError(
                f"{where} (points)",
                expected=f"{name} inside of {size[0]} x {size[1]} (height x width)",
                found=f"x {x:g}, y {y:g}",
                remedy="Correct it, or call it invisible",
            )
    return points


def marked(image, points, cross=False):
    """A copy of an image with its visible points as circles, or crosses: uint8 RGB."""
    image = np.ascontiguousarray(image).copy()
    for index, (x, y, visible) in enumerate(points):
        if visible > 0.5:
            at, color = (int(np.floor(x)), int(np.floor(y))), COLORS[index % len(COLORS)]
            if cross:
                cv2.drawMarker(image, at, color, cv2.MARKER_CROSS, 5, 1)
            else:
                cv2.circle(image, at, 4, (0, 0, 0), 1)
                cv2.circle(image, at, 3, color, 1)
    return image


class Keypoints(Kind):
    """An image has named points, each visible or not."""

    name = "keypoints"
    unit = "point"
    label = "a file of points"
    nothing = "a visible point in any image"
    legend = False

    def check_item(self, folder, inspected, image, labels):
        """Read the points of an item."""
        item = inspected.item
        if item.label is None:
            return self.unlabelled(inspected, folder)
        name = named(item.label, folder)
        try:
            data = item.label.read_bytes()
            points = read_points(data, name, image.size, labels.classes)
        except (LabelError, OSError) as error:
            return inspected.with_problem(Problem("unreadable points", name, sentence(name, error)))
        return replace(inspected.labelled(hashed(data)), size=inspected.size + len(data), label=points[:, 2])

    def encode(self, inspected, image, info, labels, folder):
        """The record: DeepLab's keys for the image, `image/points/json` and the names in their order."""
        return encode(
            {
                "image/encoded": image,
                "image/filename": inspected.item.name,
                "image/format": inspected.format,
                "image/height": info.height,
                "image/width": info.width,
                "image/points/json": inspected.item.label.read_bytes(),
            }
        )

    def decode(self, record, classes):
        """The image, encoded, and its points."""
        fields = Fields(record.payload, record.origin)
        image = fields.first_bytes("image/encoded")
        size = probe(image, record.origin).size
        return image, read_points(fields.first_bytes("image/points/json"), record.origin, size, classes)

    def check(self, record, described):
        """Decode image and label."""
        image, _ = self.decode(record, described.classes)
        codecs.decode_image(image, record.origin)

    def count(self, items, classes):
        """Visible points by name; items with problems have none."""
        visible = [each.label for each in items if each.label is not None]
        return [int(count) for count in sum(visible, np.zeros(classes))]

    def measure(self, record, described):
        """Its size, and which points are visible."""
        image, points = self.decode(record, described.classes)
        visible = Counter({index: 1 for index, point in enumerate(points) if point[2]})
        return Counts(*probe(image, record.origin).size, visible)

    def draw(self, record, described):
        """The image with its points."""
        image, points = self.decode(record, described.classes)
        return drawing.caption(drawing.fit(marked(read_upright(image, record.origin), points), TILE), record.origin)

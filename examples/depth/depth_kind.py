"""Records of an image and its depth: a 16-bit gray PNG of millimetres, in which 0 is unknown."""

from collections import Counter
from dataclasses import replace

import cv2
import numpy as np

from penstock import Kind, Problem
from penstock.errors import LabelError
from penstock.images import codecs, drawing, probe, read_upright
from penstock.kinds import TILE, Counts, hashed, named, sentence
from penstock.records import Fields, encode


def read_depth(data, where, size):
    """Metres, float32 (height, width).

    Raises:
        LabelError: it is no 16-bit gray PNG of the image's size.
    """
    depth = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
    if depth is None or depth.dtype != np.uint16 or depth.shape != size:
        found = "none" if depth is None else f"{depth.dtype} of shape {depth.shape}"
        raise LabelError(
            f"{where} (depth)",
            expected=f"16-bit gray of {size[0]} x {size[1]} (height x width), like its image",
            found=found,
            remedy="Export it in millimetres, at the image's size",
        )
    return depth.astype(np.float32) / 1000


def colored(depth, farthest):
    """Depth as colours, near ones warm, unknown ones black: uint8 RGB (height, width, 3)."""
    near = (255 * (1 - np.clip(depth / farthest, 0, 1))).astype(np.uint8)
    colors = cv2.applyColorMap(near, cv2.COLORMAP_TURBO)[..., ::-1]
    return np.where(depth[..., None] > 0, colors, 0).astype(np.uint8)


class Depth(Kind):
    """Every pixel of an image has a distance."""

    name = "depth"
    unit = "image"
    label = "a depth map"
    nothing = "a known depth in any image"
    legend = False

    def check_item(self, folder, inspected, image, labels):
        """Read the depth map of an item."""
        item = inspected.item
        if item.label is None:
            return self.unlabelled(inspected, folder)
        name = named(item.label, folder)
        try:
            data = item.label.read_bytes()
            depth = read_depth(data, name, image.size)
        except (LabelError, OSError) as error:
            return inspected.with_problem(Problem("unreadable depth", name, sentence(name, error)))
        if not depth.any():
            message = f"{name}: expected a known depth, found none. Check how it was exported."
            return inspected.with_problem(Problem("no depth", name, message))
        return replace(inspected.labelled(hashed(data)), size=inspected.size + len(data))

    def encode(self, inspected, image, info, labels, folder):
        """The record: DeepLab's keys for the image, and `image/depth/encoded`."""
        return encode(
            {
                "image/encoded": image,
                "image/filename": inspected.item.name,
                "image/format": inspected.format,
                "image/height": info.height,
                "image/width": info.width,
                "image/depth/encoded": inspected.item.label.read_bytes(),
            }
        )

    def decode(self, record):
        """The image, encoded, and its depth in metres."""
        fields = Fields(record.payload, record.origin)
        image = fields.first_bytes("image/encoded")
        size = probe(image, record.origin).size
        return image, read_depth(fields.first_bytes("image/depth/encoded"), record.origin, size)

    def check(self, record, described):
        """Decode image and label."""
        image, _ = self.decode(record)
        codecs.decode_image(image, record.origin)

    def count(self, items, classes):
        """Images, which all show the one class."""
        return [len(items)]

    def measure(self, record, described):
        """The size of the record."""
        _, depth = self.decode(record)
        return Counts(*depth.shape, Counter([0]))

    def draw(self, record, described):
        """The image beside its depth."""
        image, depth = self.decode(record)
        pair = np.hstack([read_upright(image, record.origin), colored(depth, depth.max())])
        return drawing.caption(drawing.fit(pair, 2 * TILE), record.origin)

"""Slices of a volume with the labels that a model gives them, as one image."""

from __future__ import annotations

from typing import Final

import numpy as np

from penstock.extensions.volumes.volume import Volume
from penstock.images import drawing
from penstock.values import Pixels

_SHOWN: Final = 9
_COLUMNS: Final = 3
_SIDE: Final = 256  # of a drawn slice, in pixels
_COLORS: Final = 3


def draw_slices(volume: Volume, labels: Pixels, ignore: int) -> Pixels:
    """Up to nine slices, evenly spread over those with labels, each beside itself with its labels in colour.

    Args:
        volume: a case.
        labels: class ids in the order of its file's axes, uint8 (x, y, z). 0 is the background, which has no colour.
        ignore: the id that does not count.

    Returns:
        uint8 RGB (height, width, 3).
    """
    images, masks = volume.images(max(_COLORS, len(volume.voxels)))[..., :_COLORS], volume.masks(labels)
    there = np.flatnonzero(((masks != 0) & (masks != ignore)).any(axis=(1, 2)))
    among = there if len(there) else np.arange(len(masks))
    colors, tiles = drawing.palette(ignore), []
    for number in among[np.unique(np.linspace(0, len(among) - 1, min(_SHOWN, len(among))).round().astype(int))]:
        image = np.ascontiguousarray(images[number])
        pair = np.hstack([image, drawing.overlay(image, masks[number], colors, background=0)])
        tiles.append(drawing.caption(drawing.fit(pair, 2 * _SIDE), f"slice {number} of {len(masks)}"))
    return drawing.sheet(tiles, columns=min(_COLUMNS, len(tiles)))

from __future__ import annotations

import numpy as np
from support.volumes import stored, volume_scene

from penstock.extensions.volumes.drawing import draw_slices
from penstock.extensions.volumes.kind import telling_slice
from penstock.extensions.volumes.volume import Volume
from penstock.images import drawing


def test_slices_with_labels_are_shown_in_the_colours_of_their_classes():
    voxels, labels = volume_scene(1, (24, 28, 30))
    image = stored(voxels, "RAS", (1.0, 1.0, 2.0))
    volume = Volume("v", voxels[np.newaxis], image.affine)
    drawn = draw_slices(volume, labels, 255)
    empty = draw_slices(volume, np.zeros_like(labels), 255)
    first, second = (drawing.palette(255)[label].astype(int) for label in (1, 2))

    def has(color):  # classes are laid over the image half transparent, which keeps their hue
        near = np.abs(drawn.astype(int) - color).sum(axis=2) < 200
        return near.sum() > 50

    assert (labels > 0).any(axis=(0, 1)).sum() == 4
    assert drawn.shape[0] < empty.shape[0]  # four slices need two rows, nine of thirty need three
    assert has(first)
    assert has(second)


def test_slices_leave_the_background_as_it_is():
    voxels, labels = volume_scene(1, (24, 28, 30))
    volume = Volume("v", voxels[np.newaxis], stored(voxels, "RAS", (1.0, 1.0, 2.0)).affine)
    sheet = draw_slices(volume, np.zeros_like(labels), 255)
    width = (sheet.shape[1] - 6) // 3 - 6
    first = sheet[6:206, 6 : 6 + width]
    assert np.array_equal(first[:, : width // 2], first[:, width // 2 :])


def test_slices_are_evenly_spread_and_ignored_voxels_are_no_labels():
    voxels, _ = volume_scene(1, (24, 28, 30))
    volume = Volume("v", voxels[np.newaxis], stored(voxels, "RAS", (1.0, 1.0, 2.0)).affine)
    ignored = np.full_like(voxels, 255, np.uint8)

    assert np.array_equal(draw_slices(volume, ignored, 255).shape, draw_slices(volume, 0 * ignored, 255).shape)
    voxels, ids = np.zeros((4, 3, 3, 1), np.uint8), np.zeros((4, 3, 3), np.uint8)
    ids[1], ids[2, :2] = 255, 1
    assert telling_slice(voxels, ids, 255)[0] == 2

from __future__ import annotations

import numpy as np
import pytest
from support.volumes import volume_scene

from penstock.extensions.volumes.volume import Volume


@pytest.mark.parametrize("spacing", [(0.7, 1, 5), (1, 0.7, 5), (1, 1.1, 5), (0.9, 1, 3), (1, 1.5, 4), (1, 1.9, 4)])
def test_labels_come_back_from_slices_of_any_spacing(spacing):
    labels = np.random.default_rng(0).integers(0, 3, (40, 44, 5)).astype(np.uint8)
    volume = Volume("x", labels[None].astype(np.float32), np.diag([*spacing, 1.0]))

    assert (volume.labels(volume.masks(labels)) == labels).all()


def test_intensities_are_spread_by_themselves():
    """Units differ between scanners: a volume times seven, plus three, gives the same images."""
    voxels, _ = volume_scene()
    one, other = (Volume("v", array[np.newaxis], np.eye(4)).images() for array in (voxels, 7 * voxels + 3))

    assert np.abs(one.astype(int) - other).max() <= 1
    assert one.min() == 0
    assert one.max() == 255


@pytest.mark.parametrize("scale", [1e-6, 0.01, 1e6])
def test_intensities_are_spread_however_small_they_are(scale):
    voxels, _ = volume_scene()
    one, other = (Volume("v", array[np.newaxis], np.eye(4)).images() for array in (voxels, scale * voxels))

    assert np.abs(one.astype(int) - other).max() <= 1
    assert not Volume("v", np.zeros((1, 4, 4, 4), np.float32), np.eye(4)).images().any()

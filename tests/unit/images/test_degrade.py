from __future__ import annotations

import hashlib

import numpy as np

from penstock.images import degrade


def test_noise_is_normal_independent_and_of_its_deviation():
    pixels = np.full((200, 200, 3), 128, np.uint8)
    degrade.add_noise(pixels, 9.0, 7)
    noise = pixels.astype(float) - 128
    assert abs(noise.mean()) < 0.1
    assert abs(noise.std() - 9.0) < 0.1
    assert abs(np.mean(np.abs(noise) < 8.5) - 0.655) < 0.02  # of normal numbers
    assert abs(np.corrcoef(noise[:, :-1].ravel(), noise[:, 1:].ravel())[0, 1]) < 0.01
    assert abs(np.corrcoef(noise[..., 0].ravel(), noise[..., 1].ravel())[0, 1]) < 0.01


def test_noise_is_the_same_for_ever():
    pixels = np.full((5, 7, 3), 128, np.uint8)
    degrade.add_noise(pixels, 20.0, 1)
    assert (
        hashlib.sha256(pixels.tobytes()).hexdigest()
        == "673711f29c9c7b94f344379c7d2a0885426e297477b271de2561502874885852"
    )


def test_values_are_clipped():
    pixels = np.array([[[0, 128, 255]]], np.uint8)
    for key in range(50):
        changed = pixels.copy()
        degrade.add_noise(changed, 60.0, key)
        assert changed.dtype == np.uint8
    white = np.full((50, 50, 3), 255, np.uint8)
    degrade.add_noise(white, 5.0, 3)
    assert white.min() > 225


def test_a_blur_keeps_the_mean_and_a_small_one_changes_nothing():
    pixels = np.random.default_rng(0).integers(0, 256, (60, 60, 3), np.uint8)
    blurred, same = pixels.copy(), pixels.copy()
    degrade.blur(blurred, 2.0)
    degrade.blur(same, 0.05)
    assert abs(blurred.mean() - pixels.mean()) < 1
    assert blurred.std() < 0.3 * pixels.std()
    assert np.array_equal(same, pixels)


def test_gray_images_keep_their_shape():
    pixels = np.random.default_rng(0).integers(0, 256, (20, 30, 1), np.uint8)
    degrade.blur(pixels, 1.0)
    degrade.add_noise(pixels, 3.0, 0)
    assert pixels.shape == (20, 30, 1)

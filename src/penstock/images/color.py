"""Photometric jitter: brightness, contrast, saturation and hue are all linear in RGB, so they are one matrix."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, Final

import cv2
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from penstock.bounds import Fraction
from penstock.images.pixels import scale_of
from penstock.seeds import Generator

Matrix = NDArray[np.float32]

_LUMA: Final = np.array([0.299, 0.587, 0.114])  # ITU-R BT.601
_GRAY: Final = 127.5
_TO_YIQ: Final = np.array([_LUMA, [0.596, -0.274, -0.322], [0.211, -0.523, 0.312]])
_FROM_YIQ: Final = np.linalg.inv(_TO_YIQ)


@dataclass(frozen=True, slots=True)
class Jitter:
    """How far colours may move. 0 leaves a property alone.

    Attributes:
        brightness, contrast, saturation: a factor is drawn from [1 - value, 1 + value]; value in [0, 1].
        hue: shift drawn from [-value, value], as a fraction of the full circle; value in [0, 0.5].
    """

    brightness: Fraction = 0.0
    contrast: Fraction = 0.0
    saturation: Fraction = 0.0
    hue: Annotated[float, Meta(ge=0, le=0.5)] = 0.0

    def draw(self, generator: Generator) -> Matrix | None:
        """A matrix of shape (3, 4) for `apply`, or None where nothing is to be changed."""
        if not (self.brightness or self.contrast or self.saturation or self.hue):
            return None
        light, contrast, saturation = (
            1 + generator.uniform(-value, value) for value in (self.brightness, self.contrast, self.saturation)
        )
        turn = math.tau * generator.uniform(-self.hue, self.hue)
        gray = np.outer(np.ones(3), _LUMA)
        linear = contrast * light * (saturation * np.eye(3) + (1 - saturation) * gray) @ _hue(turn)
        shift = np.full((3, 1), (1 - contrast) * _GRAY)
        return np.hstack([linear, shift]).astype(np.float32)


def _hue(angle: float) -> NDArray[np.float64]:
    """A rotation of the chrominance plane of YIQ."""
    cos, sin = math.cos(angle), math.sin(angle)
    turn = np.array([[1, 0, 0], [0, cos, -sin], [0, sin, cos]])
    rotated: NDArray[np.float64] = _FROM_YIQ @ turn @ _TO_YIQ
    return rotated


def apply(pixels: NDArray[Any], matrix: Matrix | None) -> NDArray[Any]:
    """Colours moved by a matrix, clipped to the values that uint8 or uint16 can hold."""
    if matrix is None:
        return pixels
    scaled = matrix * np.array([1, 1, 1, scale_of(pixels)], np.float32)
    return np.asarray(cv2.transform(pixels, scaled))

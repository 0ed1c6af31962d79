"""What the files themselves show: photographs, or masks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.errors import PenstockError
from penstock.images import decode_image
from penstock.images.formats import stored
from penstock.images.pixels import color_codes

_SAMPLED: Final = 8  # files of each folder
_FEW: Final = 64  # colours: a mask of ADE20K has fewer classes
_FLAT: Final = 0.9  # of the pixels are as their left neighbours
_LOSSY: Final = 24  # values by which JPEG blurs black and white
_EXTREME: Final = 0.95  # of the pixels of such an image are black or white
_ARRAYS: Final = frozenset({".npy", ".npz"})
_ROWS: Final = 2048  # looked at of an image


class Look(NamedTuple):
    """Medians over images: the number of colours, and the fraction of pixels equal to their left neighbour."""

    colors: float
    flat: float


def are_masks(masks: Sequence[Path], images: Sequence[Path]) -> bool:
    """Whether files look like masks beside those of images. Files that cannot be decoded show nothing."""
    return look_like_masks(look_at(masks), look_at(images))


def look_like_masks(masks: Look | None, images: Look | None) -> bool:
    """Whether some images are of few colours or of flat areas, and of half the colours of others or fewer."""
    if masks is None or images is None:
        return False
    return (masks.colors <= _FEW or masks.flat >= _FLAT) and 2 * masks.colors <= images.colors


def look_at(paths: Sequence[Path]) -> Look | None:
    """What some of the files look like; None where none can be decoded."""
    looks = [found for path in _spread(paths) if (found := _look(path))]
    if not looks:
        return None
    return Look(median(each.colors for each in looks), median(each.flat for each in looks))


def _spread(paths: Sequence[Path]) -> Iterable[Path]:
    return paths[:: max(1, len(paths) // _SAMPLED)][:_SAMPLED]


def _look(path: Path) -> Look | None:
    if path.suffix.lower() in _ARRAYS:
        return Look(1, 1)
    try:
        data = path.read_bytes()
        pixels = decode_image(stored(data, path.name), path.name)
    except (PenstockError, OSError):
        return None
    if data[:2] == b"\xff\xd8" and _is_black_and_white(pixels):
        return Look(2, 1)
    codes = color_codes(pixels[:: -(-len(pixels) // _ROWS)])
    flat = float((codes[:, 1:] == codes[:, :-1]).mean()) if codes.shape[1] > 1 else 1.0
    return Look(len(np.unique(codes)), flat)


def _is_black_and_white(pixels: NDArray[np.uint8]) -> bool:
    extreme = (pixels <= _LOSSY) | (pixels >= 255 - _LOSSY)
    return float(extreme.mean()) >= _EXTREME

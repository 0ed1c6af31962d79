"""From encoded bytes to a view of the image, decoding no more of it, and at no larger size, than the view needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from penstock.images import codecs, color, geometry
from penstock.images.color import Matrix
from penstock.images.geometry import Affine, Region
from penstock.images.header import ImageInfo
from penstock.images.pixels import PixelFormat
from penstock.images.warp import warp_image

_SCRATCH: Final = codecs.Scratch()


def fetch_image(
    data: bytes,
    where: str,
    info: ImageInfo,
    affine: Affine,
    fill: Sequence[int] | None,
    out: NDArray[Any],
    colors: Matrix | None = None,
) -> None:
    """Decode an image straight into `out`, as a view shows it.

    Args:
        data: an encoded JPEG or PNG.
        where: named in errors.
        info: its header.
        affine: from points of `out` to points of the upright image.
        fill: the pixel that lies outside the image, in the values of `out`; None mirrors the image at its edges.
        out: uint8 or uint16 of shape (height, width, channels), written whole.
        colors: what is done to the image's colours, but not to `fill`; for RGB only.

    Raises:
        ImageError: the file is cut short or damaged.
    """
    stored = affine.then(geometry.upright_to_stored(info.orientation, (info.height, info.width)))
    step = geometry.reduction(stored.shrink)
    region = None if fill is None else stored.region((out.shape[0], out.shape[1]))
    wanted = PixelFormat(out.shape[2], 8 * out.itemsize)
    pixels = codecs.decode_image(data, where, info=info, reduction=step, region=region, pixels=wanted, scratch=_SCRATCH)
    if pixels.shape[1] == info.width:
        step = 1
    else:
        stored = stored.then(Affine(xx=1 / step, yy=1 / step))
    warp_image(_recolored(pixels, colors, region, step), stored, fill, out)


def _recolored(pixels: NDArray[Any], colors: Matrix | None, region: Region | None, step: int) -> NDArray[Any]:
    """Colours moved, of 8 bits only where they are looked at. How 16 bits are rounded depends on what lies beside."""
    if colors is None or region is None or pixels.dtype != np.uint8:
        return color.apply(pixels, colors)
    rows = slice(max(0, region.top) // step, -(-max(0, region.bottom) // step))
    columns = slice(max(0, region.left) // step, -(-max(0, region.right) // step))
    part = pixels[rows, columns]
    if part.size:
        part[...] = color.apply(part, colors)
    return pixels

"""An image as a viewer shows it."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from penstock.errors import ImageError
from penstock.images import codecs, geometry
from penstock.images.formats import stored
from penstock.images.header import probe
from penstock.images.pixels import RGB, PixelFormat, shown
from penstock.images.warp import warp_image
from penstock.progress import counted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from penstock.images import ImageInfo
    from penstock.values import Pixels

_ARRAYS: Final = frozenset({"L", "RGB", "I;16"})
_PNG_MODES: Final = frozenset({"1", "L", "LA", "P", "RGB", "RGBA", "I;16"})


def read_upright(data: bytes, where: str, wanted: PixelFormat = RGB) -> NDArray[Any]:
    """Decode an image of any format that is known as a viewer shows it: by default uint8 RGB (height, width, 3).

    Raises:
        ImageError: it cannot be decoded, or has other channels.
        RecipeError: it needs a library that is not installed.
    """
    data = stored(data, where, wanted.value_range)
    info = probe(data, where)
    if info.planes and info.channels != wanted.channels:
        raise ImageError(
            where,
            expected="a gray or RGB image" if wanted.is_rgb else counted(wanted.channels, "channel"),
            found=counted(info.channels, "channel"),
            remedy="Use images with the channels of the training images",
        )
    return _upright(data, info, where, wanted)


def encode_pillow(image: Any) -> bytes:
    """An image of Pillow as PNG, so that it is read as its file would be, with palette, transparency and orientation;
    b"" for one that is an array as it is, and for anything else.
    """
    if "PIL" not in sys.modules:
        return b""
    from PIL import ExifTags, Image, ImageOps  # noqa: PLC0415 - which is there already

    if not isinstance(image, Image.Image):
        return b""
    if image.mode in _ARRAYS and image.getexif().get(ExifTags.Base.Orientation, 1) == 1:
        return b""
    shown = ImageOps.exif_transpose(image)
    encoded = io.BytesIO()
    (shown if shown.mode in _PNG_MODES else shown.convert("RGB")).save(encoded, "PNG", compress_level=1)
    return encoded.getvalue()


def _upright(data: bytes, info: ImageInfo, where: str, wanted: PixelFormat) -> NDArray[Any]:
    pixels = codecs.decode_image(data, where, info=info, pixels=wanted)
    if info.orientation == 1:
        return pixels
    upright = np.empty((*info.size, pixels.shape[2]), pixels.dtype)
    warp_image(pixels, geometry.upright_to_stored(info.orientation, (info.height, info.width)), (0, 0, 0), upright)
    return upright


def read_shown(data: bytes, where: str) -> Pixels:
    """An encoded image for people: uint8 RGB (height, width, 3), upright; 16 bits are stretched.

    Raises:
        ImageError: it cannot be decoded.
        RecipeError: it needs a library that is not installed.
    """
    data = stored(data, where)
    info = probe(data, where)
    return shown(_upright(data, info, where, PixelFormat(bits=16 if info.bits > RGB.bits else RGB.bits)))

"""Items whose images are written anew as JPEG files: with restart markers, so that training decodes the crops that it
needs alone, or of another quality.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from PIL import Image

from penstock.errors import ImageError, reason_of
from penstock.images import ImageInfo, decode_image, intervals, probe
from penstock.images.formats import stored
from penstock.kinds.items import FilePart, Item

_ORIENTATION_TAG: Final = 0x0112
_BYTE: Final = 8
_WIDEST: Final = 65500
"""Pixels of a side that libjpeg writes at most."""
_GRAY_ALPHA, _INK = 2, 4
_FULL_CHROMA: Final = 0
"""Pillow's name of the sampling 4:4:4, with blocks of 8 pixels. Blocks of its other samplings are 16 pixels wide."""
_LONGEST: Final = 96
"""Pixels from one restart marker to the next, at most. Shorter intervals fit crops better, but take more bytes."""


@dataclass(frozen=True, slots=True)
class Reencoding:
    """How images are written anew.

    Attributes:
        quality: of JPEG, from 1 to 100, for images of all formats. 0 keeps the quality of each JPEG file, and other
            formats as they are.
        seekable: whether to put restart markers into JPEG files.
    """

    quality: int = 0
    seekable: bool = False

    def __bool__(self) -> bool:
        return bool(self.quality or self.seekable)

    def __str__(self) -> str:
        kept = f"with quality {self.quality}" if self.quality else "with their own quality"
        return f"JPEG {kept}{', with restart markers' if self.seekable else ''}"

    def of(self, item: Item) -> Item:
        """An item with its image written anew. What is not RGB or gray of 8 bits stays as it is."""
        return replace(item, image=FilePart.of(item.image, str(self), partial(_encoded, item.image, self)))


def _encoded(place: Path | FilePart, how: Reencoding) -> bytes:
    """An image as a JPEG file, as it is stored, with its orientation."""
    from PIL import Image  # noqa: PLC0415 - for images that are written anew alone

    data = stored(place.read_bytes(), str(place))
    info = probe(data, str(place))
    if not _is_changed(data, info, how):
        return data
    pixels = Image.fromarray(decode_image(data, str(place), info=info))
    try:
        return _as_jpeg(pixels, data, info, how)
    except (OSError, SyntaxError, ValueError, TypeError, IndexError) as error:  # of Pillow, for segments it cannot read
        raise ImageError(
            str(place),
            expected="an image that can be written as JPEG",
            found=reason_of(error),
            remedy="Convert the file, or pack without --seekable and --quality",
        ) from None


def _as_jpeg(pixels: Image.Image, data: bytes, info: ImageInfo, how: Reencoding) -> bytes:
    """Pixels as a JPEG file, as `how` says; `data` is the image that they are of."""
    from PIL import Image, JpegImagePlugin  # noqa: PLC0415 - as above

    gray = info.channels <= _GRAY_ALPHA and not info.palette
    options: dict[str, Any] = {"quality": how.quality} if how.quality else {}
    if info.format == "jpeg":
        with JpegImagePlugin.JpegImageFile(io.BytesIO(data)) as source:
            options |= {"subsampling": JpegImagePlugin.get_sampling(source)}
            options |= {} if how.quality else {"qtables": source.quantization}
    if how.seekable:
        block = 8 if gray or options.get("subsampling") == _FULL_CHROMA else 16
        options |= {"restart_marker_blocks": _interval(info.width, block)}
    if info.orientation > 1:
        exif = Image.Exif()
        exif[_ORIENTATION_TAG] = info.orientation
        options |= {"exif": exif}
    made = io.BytesIO()
    (pixels.convert("L") if gray else pixels).save(made, "JPEG", **options)
    return made.getvalue()


def _is_changed(data: bytes, info: ImageInfo, how: Reencoding) -> bool:
    """Whether an image is to be written anew, and JPEG can hold it."""
    if max(info.size) > _WIDEST:
        return False
    if how.quality:
        return info.bits <= _BYTE and not info.planes and (info.format, info.channels) != ("jpeg", _INK)
    grid = intervals.tiles(data, info)
    seekable = grid is not None and grid.across > 1
    return info.format == "jpeg" and info.channels != _INK and not seekable


def _interval(width: int, block: int) -> int:
    """Blocks from one restart marker to the next, which divide a row of blocks; sides are in pixels."""
    blocks = -(-width // block)
    return max(length for length in range(1, _LONGEST // block + 1) if not blocks % length)

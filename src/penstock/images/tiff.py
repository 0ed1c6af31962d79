"""TIFF files of many channels or pages, as satellites and microscopes make them, through tifffile."""

from __future__ import annotations

import io
import itertools
import math
import struct
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tifffile import TiffPageSeries

from penstock.errors import ImageError, PenstockError, not_installed, reason_of
from penstock.images.header import MAX_PIXELS
from penstock.images.pixels import spread
from penstock.progress import counted

MAX_PLANES: Final = 64
"""Channels of an image at most; longer stacks are volumes or videos."""

SIGNATURES: Final = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
BITS_TAG: Final = 258
SAMPLES_TAG: Final = 277
_FORMAT_TAG: Final = 339
_COMPRESSION_TAG: Final = 259
_RATIOS: Final = {1: 1, 5: 3000, 8: 1100, 32773: 64, 32946: 1100}
"""How many times smaller pixels can become: none, LZW, deflate, PackBits, and deflate by its old number."""
_PLANES_TAG: Final = 284
_COLOR_TAG, _EXTRA_TAG, _SIZE_TAGS, _ORIENTATION_TAG, _SUBFILE_TAG = 262, 338, (256, 257), 274, 254
_REDUCED: Final = 1  # bit of a page that is a smaller copy of another one
_MAX_PAGES: Final = 500
_PALETTE: Final = 3
_COLOR_SAMPLES: Final = {2: 3, 5: 4, 6: 3, 8: 3}
"""Channels of RGB, CMYK, YCbCr and CIELAB by the number that TIFF has for them; all others have one."""
_OPACITY: Final = (1, 2)


class _Form(NamedTuple):
    """How a TIFF writes its directories: as published in 1992, or as BigTIFF, with numbers of 8 bytes.

    Attributes:
        first: where the place of the first directory stands.
        number: how the number of entries of a directory is written, for struct.
        entry: an entry: tag, type, number of values, and their place or the values themselves.
        place: the place of the next directory.
    """

    first: int
    number: str
    entry: str
    place: str


_CLASSIC: Final = _Form(4, "H", "HHII", "I")
_BIG: Final = _Form(8, "Q", "HHQQ", "Q")


def tags(data: bytes) -> dict[int, int]:
    """The first value of every tag of a TIFF's first page that is an integer of 2 or 4 bytes."""
    return next(_pages(data), {})


def _pages(data: bytes) -> Iterator[dict[int, int]]:
    """The tags of every page."""
    order = "<" if data[:2] == b"II" else ">"
    form = _CLASSIC if data[:4] in SIGNATURES[:2] else _BIG
    size = struct.calcsize(order + form.entry)
    seen: set[int] = set()
    room = len(data)  # as directories may lie over one another, in a file that wants to be read for long
    try:
        (at,) = struct.unpack_from(order + form.place, data, form.first)
        while at and at not in seen and room > 0:
            seen.add(at)
            (count,) = struct.unpack_from(order + form.number, data, at)
            begin = at + struct.calcsize(order + form.number)
            end = begin + size * count
            room -= end - at
            yield dict(_tag(data, order, form, entry) for entry in range(begin, min(end, len(data)), size))
            (at,) = struct.unpack_from(order + form.place, data, end)
    except (struct.error, OverflowError):  # which struct raises for places beyond 2**63
        return


def _tag(data: bytes, order: str, form: _Form, entry: int) -> tuple[int, int]:
    """A tag and its first value; 0 where that is no integer of 2 or 4 bytes."""
    tag, kind, values, place = struct.unpack_from(order + form.entry, data, entry)
    letter = {3: "H", 4: "I"}.get(kind, "")
    if not letter:
        return tag, 0
    room = struct.calcsize(order + form.place)
    fits = values * struct.calcsize(letter) <= room
    inside = entry + struct.calcsize(order + form.entry) - room
    (value,) = struct.unpack_from(order + letter, data, inside if fits else place)
    return tag, value


def check_count(data: bytes, where: str) -> None:
    """Refuse a TIFF of more pages than any image has smaller versions: readers take long to count many.

    Raises:
        ImageError: it is.
    """
    pages = _pages(data) if data[:4] in SIGNATURES else iter(())
    if next(itertools.islice(pages, _MAX_PAGES, None), None) is not None:
        fix = "Save each page as a file of its own"
        raise ImageError(where, expected="an image of one page", found=f"more than {_MAX_PAGES} pages", remedy=fix)


def check_length(data: bytes, where: str) -> None:
    """Refuse a TIFF that is too short to hold the pixels it announces: readers make room for them first.

    Raises:
        ImageError: it is.
    """
    found = tags(data) if data[:4] in SIGNATURES else {}
    width, height = (found.get(tag, 0) for tag in _SIZE_TAGS)
    needed = height * width * found.get(SAMPLES_TAG, 1) * found.get(BITS_TAG, 1) // 8
    ratio = _RATIOS.get(found.get(_COMPRESSION_TAG, 1))
    if ratio and needed > ratio * len(data):
        raise ImageError(
            where,
            expected="an image that can be decoded",
            found=f"a TIFF image whose {height:,} x {width:,} pixels {counted(len(data), 'byte')} cannot hold",
            remedy="Restore the file from a copy, or leave it out",
        )


def raw_gray(values: NDArray[Any], data: bytes) -> NDArray[Any]:
    """The numbers that a gray image holds, from what Pillow makes of them: it spreads fewer than 8 bits over a byte,
    and turns a TIFF round whose 0 is white.

    Args:
        values: from Pillow, bool or of any other type, (height, width).
        data: the file; of another format than TIFF the values stay as they are.
    """
    if data[:4] not in SIGNATURES or values.dtype not in (np.bool_, np.uint8):
        return values
    found = tags(data)
    highest = (1 << min(found.get(BITS_TAG, 1), 8)) - 1
    plain = values if values.dtype == np.bool_ else values // (255 // highest)
    return highest - plain if _white_is_zero(found) else plain


def bright_white(values: NDArray[np.uint16], data: bytes) -> NDArray[np.uint16]:
    """Values of 16 bits whose white is the highest, as Pillow makes those of 8 bits."""
    return np.iinfo(np.uint16).max - values if data[:4] in SIGNATURES and _white_is_zero(tags(data)) else values


def _white_is_zero(found: dict[int, int]) -> bool:
    return found.get(_COLOR_TAG, 1) == 0


def has_planes(data: bytes) -> bool:
    """Whether there are channels that are neither colours nor opacity, or several gray pages of one size."""
    pages = list(_pages(data))
    if not pages:
        return False
    samples, own = pages[0].get(SAMPLES_TAG, 1), _COLOR_SAMPLES.get(pages[0].get(_COLOR_TAG, 1), 1)
    if samples > own and not (samples == own + 1 and pages[0].get(_EXTRA_TAG, 0) in _OPACITY):
        return True
    size = [pages[0].get(tag) for tag in _SIZE_TAGS]
    return samples == 1 and sum([page.get(tag) for tag in _SIZE_TAGS] == size for page in pages) > 1


def has_rare_numbers(data: bytes) -> bool:
    """Whether Pillow or OpenCV misread the pixels: most floats, 32-bit integers, and planes of 16-bit colours."""
    first = tags(data)
    bits, one = first.get(BITS_TAG, 1), first.get(SAMPLES_TAG, 1) == 1
    if bits > 8 and not one and first.get(_PLANES_TAG, 1) == 2:  # noqa: PLR2004 - plane by plane, more than a byte
        return True
    match first.get(_FORMAT_TAG, 1):
        case 3:
            return not (bits == 32 and one)  # noqa: PLR2004 - float32
        case 2:
            return not (bits in {16, 32} and one)
        case _:
            return bits > 16  # noqa: PLR2004 - uint32 and uint64


def read_planes(data: bytes, where: str, value_range: tuple[float, float] | None = None) -> NDArray[Any]:
    """All channels and pages of a TIFF: uint8 or uint16 (height, width, channels).

    Args:
        data: the file.
        where: named in errors.
        value_range: as for `as_integers`.

    Raises:
        ImageError: the file cannot be decoded, has too many channels, or has values that 16 bits cannot hold.
        RecipeError: tifffile is not installed.
    """
    try:
        import tifffile  # noqa: PLC0415 - an extra
    except ImportError:
        raise not_installed(f"{where}: a TIFF of many channels", "tifffile", "Install penstock[tiff]") from None
    _check_pages(data, where)
    check_length(data, where)
    try:
        with tifffile.TiffFile(io.BytesIO(data)) as file:
            size = _sides(file.series[0])
            series = [each for each in file.series if _sides(each) == size]  # one where pages were written one by one
            _check_size(size, sum(math.prod(each.shape) for each in series), where)
            _check_images(len(series) if file.is_ome else 1, where)
            values = np.concatenate([_channels_last(each) for each in series], axis=2)
            last = _upright(values, tags(data).get(_ORIENTATION_TAG, 1))
    except PenstockError:
        raise
    except Exception as error:  # noqa: BLE001 - every codec of imagecodecs has an error of its own
        raise ImageError(
            where,
            expected="an image that can be decoded",
            found=f"a TIFF that tifffile cannot read ({reason_of(error)})",
            remedy="Convert the file to a TIFF without compression, or leave it out",
        ) from None
    return as_integers(last, where, value_range)


def _sides(series: TiffPageSeries) -> tuple[int, int]:
    height, width = (series.shape[series.axes.index(axis)] for axis in "YX")
    return height, width


def _channels_last(series: TiffPageSeries) -> NDArray[Any]:
    """The values of a series: (height, width, channels)."""
    values = np.asarray(series.asarray()).reshape(series.shape)
    last = np.moveaxis(values, [series.axes.index(axis) for axis in "YX"], (0, 1))
    return last.reshape(*last.shape[:2], -1)


def _upright(values: NDArray[Any], orientation: int) -> NDArray[Any]:
    """Values as viewers show them: (height, width, channels), by the orientation tag of TIFF 6.0."""
    if orientation in {5, 6, 7, 8}:
        values = values.swapaxes(0, 1)
    if orientation in {3, 4, 7, 8}:
        values = values[::-1]
    if orientation in {2, 3, 6, 7}:
        values = values[:, ::-1]
    return np.ascontiguousarray(values)


def _check_pages(data: bytes, where: str) -> None:
    """Refuse pages that cannot be channels of one image: of different sizes or kinds, or with palettes."""
    pages = [page for page in _pages(data) if not page.get(_SUBFILE_TAG, 0) & _REDUCED]
    sizes = dict.fromkeys(tuple(page.get(tag, 0) for tag in _SIZE_TAGS[::-1]) for page in pages)
    _check_images(len(sizes), where)
    kinds = dict.fromkeys((page.get(SAMPLES_TAG, 1), page.get(BITS_TAG, 1), page.get(_COLOR_TAG, 1)) for page in pages)
    palettes = any(color == _PALETTE for _, _, color in kinds)
    if len(pages) > 1 and (len(kinds) > 1 or palettes):
        found = ", ".join(f"{samples} x {bits} bits" for samples, bits, _ in kinds)
        raise ImageError(
            where,
            expected="pages of one kind, which are the channels of one image",
            found=f"{len(pages)} pages of {found}{', with palettes' if palettes else ''}",
            remedy="Save each page as a file of its own",
        )


def _check_images(count: int, where: str) -> None:
    if count > 1:
        raise ImageError(
            where,
            expected="the channels of one image",
            found=f"{count} images",
            remedy="Save each image as a file of its own",
        )


def _check_size(size: tuple[int, int], values: int, where: str) -> None:
    height, width = size
    if not height or not width:
        raise ImageError(
            where, expected="an image with pixels", found=f"one of {height} x {width}", remedy="Leave the file out"
        )
    planes = values // (height * width)
    if planes > MAX_PLANES or values > MAX_PIXELS:
        raise ImageError(
            where,
            expected=f"at most {MAX_PLANES} channels and {MAX_PIXELS:,} values",
            found=f"{planes:,} of {height:,} x {width:,}",
            remedy="Save the pages as images of their own, or the stack as NIfTI",
        )


def as_integers(values: NDArray[Any], where: str, value_range: tuple[float, float] | None = None) -> NDArray[Any]:
    """Values of any type as uint8 or uint16.

    Args:
        values: of any shape.
        where: named in errors.
        value_range: the values that become 0 and 65535; bytes stay as they are. None loses nothing.

    Raises:
        ImageError: there is no range, and some are no whole numbers from 0 to 65535.
    """
    if values.dtype == np.uint8:
        return values
    if np.iscomplexobj(values):
        raise ImageError(
            where,
            expected="real numbers",
            found=f"{values.dtype} values",
            remedy="Save the magnitude, or the real and the imaginary part as two channels",
        )
    if value_range is not None:
        return spread(values, value_range)
    if values.dtype == np.uint16:
        return values
    finite = values[np.isfinite(values)]
    if not finite.size:
        raise ImageError(
            where, expected="an image with values", found=f"{values.dtype} NaN alone", remedy="Leave the file out"
        )
    low, high = float(finite.min()), float(finite.max())
    whole = finite.size == values.size and bool((values == np.rint(values)).all())
    if not (low >= 0 and high <= np.iinfo(np.uint16).max and whole):
        raise ImageError(
            where,
            expected="whole numbers from 0 to 65535",
            found=f"{values.dtype} values from {low:g} to {high:g}",
            remedy="Pack with --value-range LOW HIGH, the values that become 0 and 65535",
        )
    return values.astype(np.uint16)

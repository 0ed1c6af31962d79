"""Other formats than JPEG and PNG: TIFF, BMP, WebP, GIF, AVIF, JPEG 2000, HEIC and DICOM, losslessly as PNG.

Records hold JPEG and PNG alone, which every reader of TFRecord files knows. Libraries: Pillow, pi-heif for HEIC, and
OpenCV for TIFF of 16 bits and three channels, which Pillow would reduce to 8 bits.
"""

from __future__ import annotations

import io
import zipfile
from typing import Any, Final

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL.Image import Image

from penstock.errors import ImageError, LabelError, PenstockError, not_installed, reason_of
from penstock.images import dicom, png, tiff
from penstock.images.codecs import encode_png, plain_mask
from penstock.images.header import MAX_PIXELS, PNG_SIGNATURE
from penstock.images.lossy import lossy_name
from penstock.images.planes import encode_planes
from penstock.values import Pixels

SUFFIXES: Final = frozenset(
    {".bmp", ".tif", ".tiff", ".webp", ".gif", ".avif", ".jp2", ".j2k", ".heic", ".heif", ".dcm", ".ppm", ".pgm"}
)  # fmt: skip
"""Endings of the names of images that are converted."""

_ZIP: Final = b"PK\x03\x04"
_ARRAYS: Final = (b"\x93NUMPY", _ZIP)  # .npy and .npz
_HEIC_BRANDS: Final = frozenset({b"heic", b"heix", b"hevc", b"heim", b"heis", b"hevm", b"hevs", b"mif1", b"msf1"})
_PIXMAPS: Final = frozenset({b"P5", b"P6"})  # PGM and PPM
_SIXTEEN: Final = 16
_PLAIN: Final = (1, 3)  # channels of gray and RGB, which any PNG has
_NUMBERS: Final = frozenset("biuf")  # types of arrays that hold real numbers, as NumPy calls them
_WIDEST: Final = 8  # bytes of a number
_BYTE: Final = 255
_NUMBER_THEM: Final = "Save 0 for the background and a number for each object"
_IN_COLOUR: Final = frozenset({"RGB", "RGBA", "CMYK", "YCbCr", "LAB", "LA", "PA"})
_CHANNELS: Final = {1: "L", 3: "RGB", 4: "RGBA"}


def stored(data: bytes, where: str, value_range: tuple[float, float] | None = None) -> bytes:
    """An image as a record holds it: a JPEG's or a PNG's own bytes, every other format as PNG, upright.

    16 bits stay 16 bits. Bands and pages of a TIFF are the channels of one image; the first page alone is taken if the
    others are smaller versions of it.

    Args:
        data: an encoded image.
        where: named in errors.
        value_range: the values of TIFF and DICOM images that become 0 and 65535, where they have more than 8 bits;
            None takes their values as they are.

    Raises:
        ImageError: the image is damaged, has several pages, or values that a PNG cannot hold.
        RecipeError: a library for the format is not installed.
    """
    if dicom.is_dicom(data):
        return dicom.encode_image(data, where, value_range)
    if data[:2] == b"\xff\xd8" or data[:8] == PNG_SIGNATURE or not _is_known(data):
        return data  # what is no image at all is named where its header is read
    if data[:4] in tiff.SIGNATURES and (tiff.has_planes(data) or tiff.has_rare_numbers(data)):
        pixels = tiff.read_planes(data, where, value_range)
        return encode_png(pixels, where) if pixels.shape[2] in _PLAIN else encode_planes(pixels, where)
    return _png_of(_decoded(data, where), data, where, value_range)


def stored_mask(data: bytes, where: str, *, palette: bool = False, soft: bool = False) -> bytes:
    """A mask of class ids as PNG: of a palette of grays the grays are the ids, of any other one the indices.

    Args:
        data: an encoded image of any format that `stored` takes, or an array of NumPy (.npy, .npz) of shape (height,
            width).
        where: named in errors.
        palette: whether the indices of a palette are the ids whatever its colours are.
        soft: whether a threshold makes ids of its values, so that a lossy format does no harm.

    Raises:
        ImageError: the mask is damaged.
        LabelError: it holds no ids from 0 to 255, or its format changes them.
        RecipeError: HEIC, and pi-heif is not installed.
    """
    if data.startswith(_ARRAYS):
        return plain_mask(_ids(_array(data, where), where))
    if data[:2] == b"\xff\xd8" or data[:8] == PNG_SIGNATURE or not _is_known(data):
        return data
    if (lossy := lossy_name(data)) and not soft:
        raise LabelError(
            where,
            expected="a mask in a format that keeps class ids",
            found=lossy,
            remedy="Save masks as PNG, or give --mask-threshold 128 for black and white masks",
        )
    image = _decoded(data, where)
    if image.mode == "P":
        return _palette_mask(image, palette=palette)
    if image.mode in _IN_COLOUR:
        return _png_of(image, data, where)  # which is refused as an RGB PNG is
    return plain_mask(_ids(tiff.raw_gray(np.asarray(image), data), where))


def mask_numbers(data: bytes, where: str) -> NDArray[np.int64]:
    """The whole numbers of any size that a mask holds, int64 (height, width): PNG, TIFF, BMP, GIF or an array of NumPy.

    Args:
        data: an encoded image with one channel, or with three equal ones, or an array.
        where: named in errors.

    Raises:
        ImageError: the mask is damaged.
        LabelError: its values are no whole numbers from 0 on, or its format changes them.
    """
    if data.startswith(_ARRAYS):
        return _whole(_array(data, where), where).astype(np.int64, copy=False)
    if lossy := "a JPEG" if data[:2] == b"\xff\xd8" else lossy_name(data):
        raise LabelError(where, expected="a mask in a format that keeps numbers", found=lossy, remedy="Save it as PNG")
    image = _decoded(data, where)
    if (gray := _gray_in_colour(image)) is not None:
        return gray.astype(np.int64)
    if image.mode in _IN_COLOUR:
        raise LabelError(
            where,
            expected="a mask of one channel that holds numbers",
            found=f"an image in the mode {image.mode}",
            remedy="Save the numbers of the objects in one channel",
        )
    return _whole(tiff.raw_gray(np.asarray(image), data), where).astype(np.int64, copy=False)


def _gray_in_colour(image: Image) -> Pixels | None:
    """The grays of an opaque image that is stored as RGB or RGBA; None for others."""
    if image.mode not in {"RGB", "RGBA"}:
        return None
    pixels = np.asarray(image)
    colors, alpha = pixels[..., :3], pixels[..., 3:]
    is_gray = (colors == colors[..., :1]).all() and (alpha == _BYTE).all()
    return np.ascontiguousarray(colors[..., 0]) if is_gray else None


def _is_known(data: bytes) -> bool:
    """Whether bytes begin as those of the formats do that are converted."""
    if data[:4] in tiff.SIGNATURES or data[:2] in _PIXMAPS | {b"BM"} or data[:6] in (b"GIF87a", b"GIF89a"):
        return True
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return True
    if data[4:8] == b"ftyp":
        return data[8:12] in {b"avif", b"avis", *_HEIC_BRANDS}
    return data[:8] == b"\0\0\0\x0cjP  " or data[:4] == b"\xff\x4f\xff\x51"


def _decoded(data: bytes, where: str) -> Image:
    from PIL import Image as Images  # noqa: PLC0415 - most data is JPEG and PNG, which do not need it
    from PIL import ImageOps, UnidentifiedImageError  # noqa: PLC0415 - the same

    try:
        image = _heif(data, where) if _is_heic(data) else Images.open(io.BytesIO(data))
        _check_size(image.size, where)
        tiff.check_count(data, where)
        _check_pages(image, where)
        tiff.check_length(data, where)
        image.load()
        return ImageOps.exif_transpose(image)
    except PenstockError:
        raise
    except Images.DecompressionBombError:
        raise ImageError(
            where,
            expected=f"an image of at most {2 * int(Images.MAX_IMAGE_PIXELS or 0):,} pixels in this format",
            found="a larger one",
            remedy="Make the image smaller, cut it into tiles, or save it as PNG or JPEG",
        ) from None
    except UnidentifiedImageError:
        raise _undecodable(where, f"a {_name(data)} that Pillow cannot read: {_layout_of(data)}") from None
    except Exception as error:  # noqa: BLE001 - every plugin of Pillow has errors of its own for damaged files
        raise _undecodable(where, f"a damaged {_name(data)} ({reason_of(error)})") from None


def _undecodable(where: str, found: str) -> ImageError:
    remedy = "Convert the file to PNG, or leave it out"
    return ImageError(where, expected="an image that can be decoded", found=found, remedy=remedy)


def _name(data: bytes) -> str:
    """The format, for messages."""
    if data[4:8] == b"ftyp":
        return "HEIC image" if _is_heic(data) else "AVIF image"
    starts = {
        b"P5": "PGM image",
        b"P6": "PPM image",
        b"BM": "BMP image",
        b"GI": "GIF image",
        b"RI": "WebP image",
        b"II": "TIFF image",
        b"MM": "TIFF image",
    }
    return starts.get(data[:2], "JPEG 2000 image")


def _layout_of(data: bytes) -> str:
    """Bits and channels of a TIFF, for messages."""
    if data[:4] not in tiff.SIGNATURES[:2]:
        return "an unknown variant"
    found = tiff.tags(data)
    bits, samples = found.get(tiff.BITS_TAG, 1), found.get(tiff.SAMPLES_TAG, 1)
    return f"{samples} channels of {bits} bits"


def _is_heic(data: bytes) -> bool:
    return data[4:8] == b"ftyp" and data[8:12] in _HEIC_BRANDS


def _heif(data: bytes, where: str) -> Image:
    """A HEIC image, read without registering anything in Pillow."""
    try:
        import pi_heif  # noqa: PLC0415 - an extra
    except ImportError:
        raise not_installed(f"{where}: a HEIC image", "pi-heif", "Install penstock[heif]") from None
    image: Image = pi_heif.open_heif(io.BytesIO(data)).to_pillow()
    return image


def _check_size(size: tuple[int, int], where: str) -> None:
    if size[0] * size[1] > MAX_PIXELS:
        raise ImageError(
            where,
            expected=f"an image of at most {MAX_PIXELS:,} pixels",
            found=f"{size[1]:,} x {size[0]:,}",
            remedy="Make the image smaller, or cut it into tiles",
        )


def _check_pages(image: Image, where: str) -> None:
    """Refuse several pages or frames, but for the smaller versions of the image that tiled TIFFs hold."""
    pages = getattr(image, "n_frames", 1)
    whole = image.size
    alike = 1
    for page in range(1, pages):
        image.seek(page)
        alike += image.size[0] * 2 > whole[0]
        if alike > 1:  # thousands of frames need not be decoded to be refused
            break
    if pages > 1:
        image.seek(0)
    if alike > 1:
        raise ImageError(
            where,
            expected="an image of one page",
            found=f"{pages} pages or frames",
            remedy="Save each page as a file of its own",
        )


def _png_of(image: Image, data: bytes, where: str, value_range: tuple[float, float] | None = None) -> bytes:
    """Decoded pixels as PNG."""
    if image.mode.startswith("I;16"):
        values = tiff.bright_white(np.asarray(image).astype(np.uint16), data)
        return _gray(values, where, value_range)
    if image.mode in {"RGB", "RGBA"} and data[:4] in tiff.SIGNATURES and tiff.tags(data).get(tiff.BITS_TAG) == _SIXTEEN:
        return png.encode(tiff.as_integers(_sixteen_bits(data, where), where, value_range), where)
    if image.mode in {"I", "F"}:
        return _gray(np.asarray(image), where, value_range)
    mode = image.mode if image.mode in {"L", "RGB", "RGBA"} else _plain_mode(image)
    pixels = np.asarray(image if image.mode == mode else image.convert(mode))
    return encode_png(pixels.reshape(*pixels.shape[:2], -1), where)


def _gray(values: NDArray[Any], where: str, value_range: tuple[float, float] | None) -> bytes:
    return png.encode(tiff.as_integers(values, where, value_range), where)


def _plain_mode(image: Image) -> str:
    """Gray for what is gray, RGB for all else; transparency is dropped, as it is of PNGs."""
    return "L" if image.mode in {"1", "LA"} else "RGB"


def _sixteen_bits(data: bytes, where: str) -> NDArray[Any]:
    """The pixels of an RGB or RGBA TIFF in OpenCV's order of channels."""
    pixels = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
    if pixels is None or pixels.dtype != np.uint16:
        raise _undecodable(where, f"a TIFF image that OpenCV cannot read: {_layout_of(data)}")
    return np.asarray(pixels)


def _palette_mask(image: Image, *, palette: bool) -> bytes:
    """A palette's indices; or its grays, where it has no other colours, as gray images are saved so in some formats."""
    colors = np.asarray(image.getpalette("RGB") or [], np.uint8).reshape(-1, 3)
    indices = np.asarray(image)
    used = colors[np.unique(indices)] if len(colors) > int(indices.max(initial=0)) else colors
    if not palette and bool((used == used[:, :1]).all()):
        return plain_mask(colors[indices, 0])
    kept = io.BytesIO()
    image.save(kept, "PNG")  # a palette PNG, whose indices are taken where somebody says so
    return kept.getvalue()


def _array(data: bytes, where: str) -> NDArray[Any]:
    try:
        found: NDArray[Any]
        found = _single(data, where) if data.startswith(_ZIP) else np.load(io.BytesIO(data), allow_pickle=False)
    except PenstockError:
        raise
    except Exception as error:  # noqa: BLE001 - NumPy's parser of headers and zipfile have many for damaged files
        raise _undecodable(where, f"a damaged array of NumPy ({reason_of(error)})") from None
    if found.dtype.kind not in _NUMBERS or not found.size:
        raise LabelError(
            where,
            expected="an array of numbers, one for each pixel",
            found=f"an array of {found.dtype} of shape {found.shape}",
            remedy="Save one class id for each pixel",
        )
    return found


def _single(data: bytes, where: str) -> NDArray[Any]:
    """The only array of an archive of NumPy (.npz)."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = archive.infolist()
        if len(members) != 1 or members[0].file_size > _WIDEST * MAX_PIXELS:
            held = ", ".join(member.filename.removesuffix(".npy") for member in members[:8])
            raise LabelError(
                where,
                expected=f"one array of the pixels of a mask, of at most {MAX_PIXELS:,}",
                found=f"an archive of {held or 'nothing'}",
                remedy="Save the mask alone, with numpy.savez(FILE, mask=IDS)",
            )
        return np.load(io.BytesIO(archive.read(members[0])), allow_pickle=False)  # type: ignore[no-any-return]


def _ids(values: NDArray[Any], where: str) -> NDArray[np.uint8]:
    """Values of a mask as bytes."""
    return _whole(values, where, _BYTE).astype(np.uint8)


def _whole(values: NDArray[Any], where: str, highest: int = 2**53) -> NDArray[Any]:
    """Values of a mask as whole numbers: those that are integers as they are, others as int64."""
    plain = values[..., 0] if values.ndim == 3 and values.shape[2] == 1 else values  # noqa: PLR2004 - an axis of one
    if plain.ndim != 2:  # noqa: PLR2004 - rows and columns
        raise LabelError(
            where,
            expected="a mask of shape (height, width)",
            found=f"an array of shape {values.shape}",
            remedy="Save one class id for each pixel",
        )
    whole = plain
    if plain.dtype.kind not in "bui":
        whole = np.nan_to_num(plain, nan=-1, posinf=-1, neginf=-1).astype(np.int64)
    if bool((whole != plain).any()) or int(whole.min(initial=0)) < 0 or int(whole.max(initial=0)) > highest:
        low, high = plain.min(), plain.max()
        raise LabelError(
            where,
            expected="class ids from 0 to 255, whole numbers" if highest == _BYTE else "whole numbers from 0 on",
            found=f"values from {low:g} to {high:g}",
            remedy="Renumber the classes in the masks to ids from 0 to 255" if highest == _BYTE else _NUMBER_THEM,
        )
    return whole

"""DICOM: single images, and series of slices as volumes. Source: DICOM PS3.3, C.7.6 (images and planes).

Values are those of the modality (for CT, Hounsfield units). A single image becomes a PNG of 16 bits, over which a range
of values is spread. Library: pydicom.
"""

from __future__ import annotations

import io
import zlib
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from penstock.errors import ImageError, not_installed, reason_of
from penstock.images.codecs import encode_png
from penstock.images.pixels import spread
from penstock.images.tiff import as_integers
from penstock.progress import counted

SUFFIX: Final = ".dcm"
_PREAMBLE: Final = 128
_GRAY: Final = ("MONOCHROME1", "MONOCHROME2")
_COLORS: Final = ("RGB", "YBR_FULL", "YBR_FULL_422", "YBR_RCT", "YBR_ICT")
_PALETTE: Final = "PALETTE COLOR"
_DEFLATED: Final = b"1.2.840.10008.1.2.1.99"  # a transfer syntax: all behind the meta information is deflated
_GROUP_LENGTH: Final = b"\x02\x00\x00\x00UL\x04\x00"  # (0002,0000), whose value is the length of what follows it
_MAX_INFLATED: Final = 1 << 28  # bytes of a deflated file
_MAX_VALUES: Final = 1 << 30  # of the pixels of a file, however few bytes they are packed in
_UNEVEN: Final = 0.02  # distances between slices that differ by more than this fraction of the usual one
_BACKWARDS: Final = np.diag([-1.0, -1.0, 1.0, 1.0])  # from left, posterior, superior to right, anterior, superior


def is_dicom(data: bytes) -> bool:
    """Whether bytes are those of a DICOM file."""
    return data[_PREAMBLE : _PREAMBLE + 4] == b"DICM"


def read_image(data: bytes, where: str, value_range: tuple[float, float] | None = None) -> NDArray[Any]:
    """One image: uint16 (height, width), or RGB, uint8 or uint16 (height, width, 3).

    Args:
        data: the file.
        where: named in errors.
        value_range: the values that become 0 and 65535, in the modality's units.

    Raises:
        ImageError: it is damaged, has no pixels or several frames, or values that 16 bits cannot hold.
        RecipeError: pydicom is not installed.
    """
    dataset, pixels = _decoded(data, where)
    if int(dataset.get("NumberOfFrames") or 1) > 1:
        raise _unfit(where, "an image of one frame", f"{dataset.NumberOfFrames} frames", "Save each frame by itself")
    if pixels.ndim != 2 and pixels.shape[2:] != (3,):  # noqa: PLR2004 - gray, and no colours
        raise _unfit(where, "an image in gray or RGB", f"pixels of shape {pixels.shape}", "Export it again")
    if pixels.ndim == 3:  # noqa: PLR2004 - colours
        return np.ascontiguousarray(pixels, np.uint8 if pixels.dtype.itemsize == 1 else np.uint16)
    inverted = dataset.get("PhotometricInterpretation") == "MONOCHROME1"  # white is the lowest value
    if value_range is not None:
        pixels = spread(pixels, value_range)
        return np.iinfo(np.uint16).max - pixels if inverted else pixels
    if inverted:
        pixels = pixels.max() + pixels.min() - pixels
    return as_integers(np.rint(pixels), where).astype(np.uint16)


def encode_image(data: bytes, where: str, value_range: tuple[float, float] | None = None) -> bytes:
    """One image as PNG; arguments and errors as for `read_image`."""
    pixels = read_image(data, where, value_range)
    return encode_png(pixels.reshape(*pixels.shape[:2], -1), where)


def possible_values(path: Path) -> tuple[float, float] | None:
    """The lowest and the highest value that a gray image can have, in the modality's units, from its header alone; None
    for an image in colour, and for a file that cannot be read, which is named where it is decoded.

    Raises:
        RecipeError: pydicom is not installed.
    """
    try:
        import pydicom  # noqa: PLC0415 - an extra
    except ImportError:
        raise not_installed(f"{path}: a DICOM file", "pydicom", "Install penstock[dicom]") from None
    try:
        with path.open("rb") as file:
            _check_inflated(file)
        header = pydicom.dcmread(path, stop_before_pixels=True)
        bits = int(header.BitsStored)
        slope, intercept = float(header.get("RescaleSlope") or 1), float(header.get("RescaleIntercept") or 0)
        is_gray = header.get("PhotometricInterpretation") in _GRAY
        table = header.get("ModalityLUTSequence")
        if table and is_gray:
            return 0.0, float((1 << int(table[0].LUTDescriptor[2])) - 1)
        is_signed = bool(header.get("PixelRepresentation"))
    except Exception:  # noqa: BLE001 - every element of pydicom has errors of its own
        return None
    low = -(1 << (bits - 1)) if is_signed else 0
    ends = slope * low + intercept, slope * (low + (1 << bits) - 1) + intercept
    return (min(ends), max(ends)) if is_gray and ends[0] != ends[1] else None


def is_series(folder: Path) -> bool:
    """Whether DICOM files lie in a folder, which then are the slices of one volume."""
    return folder.is_dir() and next(iter(_files(folder)), None) is not None


def load_series(folder: Path) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """The slices of a folder as a volume.

    Returns:
        Voxels, float32 (x, y, z), and the affine from voxels to millimetres, right, anterior, superior: float64 (4, 4).

    Raises:
        ImageError: a file is damaged, the files are of several series, or a slice is missing.
        RecipeError: pydicom is not installed.
    """
    found = [(*_decoded(path.read_bytes(), f"{folder.name}/{path.name}"), path) for path in _files(folder)]
    series = {str(dataset.get("SeriesInstanceUID", "")) for dataset, _, _ in found}
    shapes = {pixels.shape for _, pixels, _ in found}
    if len(series) > 1 or len(shapes) > 1 or any(len(shape) != 2 for shape in shapes):  # noqa: PLR2004 - rows, columns
        raise _unfit(
            folder.name,
            "the slices of one series, all of one size",
            f"{counted(len(found), 'file')} of {len(series)} series and {counted(len(shapes), 'size')}",
            "Put each series into a folder of its own",
        )
    try:
        right, down, places = _geometry([dataset for dataset, _, _ in found])
    except (AttributeError, TypeError, ValueError) as error:
        raise _unfit(folder.name, "slices with their place and spacing", reason_of(error), "Export it again") from None
    normal = np.cross(right, down)
    order = np.argsort(places @ normal)
    along = (places @ normal)[order]
    _check_gaps(folder, along)
    spacing = [float(each) for each in found[0][0].PixelSpacing]
    between = (places[order[-1]] - places[order[0]]) / (len(found) - 1) if len(found) > 1 else normal
    affine = np.eye(4)
    affine[:3] = np.column_stack([right * spacing[1], down * spacing[0], between, places[order[0]]])
    voxels = np.stack([found[i][1] for i in order]).astype(np.float32).transpose(2, 1, 0)
    return np.ascontiguousarray(voxels), _BACKWARDS @ affine


def _geometry(datasets: list[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Along the rows, down the columns, and where each slice begins; in millimetres, left, posterior, superior."""
    directions = np.array([float(each) for each in datasets[0].ImageOrientationPatient])
    places = np.array([[float(each) for each in dataset.ImagePositionPatient] for dataset in datasets])
    return directions[:3], directions[3:], places


def _check_gaps(folder: Path, along: NDArray[np.float64]) -> None:
    gaps = np.diff(along)
    if not len(gaps):
        return
    usual = float(np.median(gaps))
    wrong = np.flatnonzero(np.abs(gaps - usual) > _UNEVEN * abs(usual) + 1e-3)
    if len(wrong) or not usual:
        found = f"{gaps[wrong[0]]:g} behind slice {wrong[0] + 1}" if len(wrong) else "several slices in one place"
        raise _unfit(folder.name, f"slices {usual:g} mm apart", found, "Add the slices that are missing")


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix.lower() == SUFFIX)


def _decoded(data: bytes, where: str) -> tuple[Any, NDArray[Any]]:
    """A file, and its values as the modality means them."""
    try:
        import pydicom  # noqa: PLC0415 - an extra
        from pydicom.pixels.processing import apply_color_lut, apply_modality_lut  # noqa: PLC0415 - the same
    except ImportError:
        raise not_installed(f"{where}: a DICOM file", "pydicom", "Install penstock[dicom]") from None
    try:
        _check_inflated(io.BytesIO(data))
        dataset = pydicom.dcmread(io.BytesIO(data))
        _check_values(dataset)
        meaning = str(dataset.get("PhotometricInterpretation"))
        values = np.asarray(dataset.pixel_array)
        if meaning == _PALETTE:
            values = np.asarray(apply_color_lut(values, dataset))
        elif meaning in _GRAY:
            values = np.asarray(apply_modality_lut(values, dataset))
    except Exception as error:  # noqa: BLE001 - every decoder of pydicom has errors of its own
        raise _unfit(
            where, "a DICOM image that can be decoded", reason_of(error), "Convert it, for example with dcm2niix"
        ) from None
    if meaning not in {*_GRAY, *_COLORS, _PALETTE}:
        raise _unfit(where, f"pixels as {', '.join((*_GRAY, *_COLORS, _PALETTE))}", meaning, "Convert it to RGB")
    return dataset, values


def _check_inflated(file: BinaryIO) -> None:
    """A deflated file, which pydicom unpacks whole, is looked at first."""
    begin, stop = _PREAMBLE + 4, len(_GROUP_LENGTH) + 4
    head = file.read(begin + 4096)[begin:]  # meta information takes a few hundred bytes of it
    has_length = head.startswith(_GROUP_LENGTH)
    end = stop + int.from_bytes(head[stop - 4 : stop], "little") if has_length else len(head)
    if _DEFLATED not in head[:end]:
        return
    if not has_length:
        message = "a deflated file without the length of its meta information"
        raise ValueError(message)
    file.seek(begin + end)
    packed = file.read()
    if len(zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, _MAX_INFLATED + 1)) > _MAX_INFLATED:
        message = f"{counted(len(packed), 'byte')} that unpack to more than {counted(_MAX_INFLATED, 'byte')}"
        raise ValueError(message)


def _check_values(dataset: Any) -> None:
    values = 1
    for name in ("NumberOfFrames", "Rows", "Columns", "SamplesPerPixel"):
        values *= int(dataset.get(name) or 1)
    if values > _MAX_VALUES:
        message = f"{values:,} values, where {_MAX_VALUES:,} are the most"
        raise ValueError(message)


def _unfit(where: str, expected: str, found: str, remedy: str) -> ImageError:
    return ImageError(where, expected=expected, found=found, remedy=remedy)

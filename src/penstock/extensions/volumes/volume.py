"""Medical volumes in NIfTI, or as series of DICOM files: cut into slices for 2-D networks, and put together again in
their own geometry.

Axes are first turned to the closest of right, anterior, superior (RAS), so that all volumes lie alike whatever way they
were stored. Slices are cut across the axis with the largest spacing, the last one where all are alike, and brought to
square pixels of the finer spacing.
"""

from __future__ import annotations

import contextlib
import gzip
import math
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import cv2
import numpy as np
from numpy.typing import NDArray

from penstock.errors import ImageError, not_installed
from penstock.images import dicom
from penstock.images.geometry import Size
from penstock.progress import counted

SUFFIXES: Final = (".nii", ".nii.gz")
MODALITIES: Final = 4
"""Modalities that fit into the channels of a slice."""

_COLORS: Final = 3

_DARKEST, _BRIGHTEST = 0.5, 99.5  # percentiles of the voxels that are not 0 which become black and white
_PIECE: Final = 1 << 20
_MAX_VOXELS: Final = 1 << 29  # 2 GiB as float32; a CT of the whole body
_ALIKE: Final = 1.01  # spacings that differ by less than this factor are the same
_TOLERANCE: Final = 1e-3  # millimetres
_DAMAGE: Final = (OSError, EOFError, ValueError, OverflowError, MemoryError, np.linalg.LinAlgError, zlib.error)


@dataclass(frozen=True)
class Volume:
    """One case, as it is stored.

    Attributes:
        name: for errors.
        voxels: float32 (modalities, x, y, z), in the order of the file's axes.
        affine: float64 (4, 4), from voxels to millimetres.
    """

    name: str
    voxels: NDArray[np.float32]
    affine: NDArray[np.float64]

    @cached_property
    def turn(self) -> NDArray[np.float64]:
        """Which axis of the file becomes which of RAS, and which are mirrored, as nibabel says it."""
        turn: NDArray[np.float64] = _nibabel().orientations.io_orientation(self.affine)
        return turn

    @cached_property
    def spacing(self) -> tuple[float, ...]:
        """Millimetres between voxels along right, anterior and superior."""
        own = np.sqrt((self.affine[:3, :3] ** 2).sum(axis=0))
        order = np.argsort(self.turn[:, 0])
        return tuple(float(own[axis]) for axis in order)

    @cached_property
    def across(self) -> int:
        """The axis of RAS that slices are cut across."""
        largest = max(self.spacing)
        return max(axis for axis in range(3) if self.spacing[axis] * _ALIKE >= largest)

    @cached_property
    def size(self) -> Size:
        """Of a slice with square pixels, (height, width)."""
        height, width = self._plane(self._turned(self.voxels[0])).shape[1:]
        rows, columns = self._in_plane
        finest = min(rows, columns)
        return max(1, round(height * rows / finest)), max(1, round(width * columns / finest))

    @property
    def slices(self) -> int:
        """How many slices there are."""
        return int(self._turned(self.voxels[0]).shape[self.across])

    @property
    def _in_plane(self) -> tuple[float, float]:
        """Millimetres between the rows and between the columns of a slice."""
        first, second = (self.spacing[axis] for axis in range(3) if axis != self.across)
        return second, first

    def _turned(self, array: NDArray[Any]) -> NDArray[Any]:
        """An array of the file's axes with those of RAS."""
        turned: NDArray[Any] = _nibabel().orientations.apply_orientation(array, self.turn)
        return turned

    def _plane(self, array: NDArray[Any]) -> NDArray[Any]:
        """An array of RAS as slices (slices, rows, columns), the way they are looked at: front or head up."""
        return np.moveaxis(array, self.across, 0).transpose(0, 2, 1)[:, ::-1]

    def images(self, channels: int = _COLORS) -> NDArray[np.uint8]:
        """All slices as images: uint8 (slices, height, width, channels), each modality spread over 0 to 255.

        Args:
            channels: 1, 3 or 4; of three a single modality fills all, which is gray, and two leave the last one empty.

        Raises:
            ImageError: there are more modalities than channels, or not as many as four.
        """
        many = len(self.voxels)
        if many > channels or (channels == MODALITIES and many != channels):
            raise ImageError(
                self.name,
                expected=("" if channels == MODALITIES else "at most ") + counted(channels, "modality"),
                found=f"{many}",
                remedy="Give all volumes the same modalities",
            )
        planes = [self._plane(self._turned(_spread(modality))) for modality in self.voxels]
        planes = planes * channels if many == 1 else [*planes, *[np.zeros_like(planes[0])] * (channels - many)]
        stack = np.ascontiguousarray(np.stack(planes, axis=-1))
        height, width = self.size
        if stack.shape[1:3] == (height, width):
            return stack
        resized = [cv2.resize(plane, (width, height), interpolation=cv2.INTER_LINEAR) for plane in stack]
        return np.stack(resized).reshape(len(stack), height, width, channels)

    def masks(self, labels: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Labels of the file's axes as masks of the slices: uint8 (slices, height, width)."""
        planes = np.ascontiguousarray(self._plane(self._turned(labels)))
        height, width = self.size
        return np.stack([cv2.resize(plane, (width, height), interpolation=cv2.INTER_NEAREST_EXACT) for plane in planes])

    def labels(self, masks: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Masks of the slices as labels of the file's axes: the way back from `masks`."""
        turned = self._turned(self.voxels[0])
        height, width = self._plane(turned).shape[1:]
        planes = np.stack([cv2.resize(mask, (width, height), interpolation=cv2.INTER_NEAREST_EXACT) for mask in masks])
        array = np.moveaxis(planes[:, ::-1].transpose(0, 2, 1), 0, self.across)
        orientations = _nibabel().orientations
        back = orientations.ornt_transform(orientations.axcodes2ornt("RAS"), self.turn)
        found: NDArray[np.uint8] = orientations.apply_orientation(np.ascontiguousarray(array), back)
        return found


def read_volume(paths: Sequence[Path]) -> Volume:
    """One case from a file per modality, or from one file whose fourth axis is the modality.

    Raises:
        ImageError: a file is no NIfTI, or the modalities do not lie on one another.
    """
    loaded = [_load(path) for path in paths]
    first, *others = (image for image, _ in loaded)
    arrays = [(voxels if len(paths) == 1 else _alone(voxels)).astype(np.float32) for _, voxels in loaded]
    name = paths[0].name
    for path, image, array in zip(paths[1:], others, arrays[1:], strict=True):
        if array.shape != arrays[0].shape or np.abs(image.affine - first.affine).max() > _TOLERANCE:
            raise ImageError(
                path.name,
                expected=f"the shape and geometry of {name}: {arrays[0].shape}",
                found=f"{array.shape}" if array.shape != arrays[0].shape else "another affine",
                remedy="Register the modalities of a case to one another",
            )
    alone = len(arrays) == 1 and arrays[0].ndim == 4  # noqa: PLR2004 - x, y, z, modality
    voxels = np.moveaxis(arrays[0], 3, 0) if alone else np.stack(arrays) if others else arrays[0][np.newaxis]
    if voxels.ndim != 4 or len(voxels) > MODALITIES or 0 in voxels.shape:  # noqa: PLR2004 - modality, x, y, z
        raise ImageError(
            name,
            expected=f"a volume of up to {MODALITIES} modalities",
            found=f"arrays of shape {arrays[0].shape} in {counted(len(paths), 'file')}",
            remedy=f"Choose {MODALITIES} modalities, and leave the others out of the folder",
        )
    for number, modality in enumerate(voxels):
        if not np.isfinite(modality).any():
            raise ImageError(
                paths[min(number, len(paths) - 1)].name,
                expected="a volume of numbers",
                found=f"only NaN and infinity in modality {number + 1} of {len(voxels)}",
                remedy="Export it again",
            )
    return Volume(name, np.nan_to_num(voxels, copy=False), np.asarray(first.affine, np.float64))


def _alone(voxels: NDArray[Any]) -> NDArray[Any]:
    """Without a fourth axis that says nothing."""
    return voxels[..., 0] if voxels.ndim == 4 and voxels.shape[3] == 1 else voxels  # noqa: PLR2004 - x, y, z, modality


def modalities(paths: Sequence[Path]) -> int:
    """How many modalities a case has, from the header of a single file.

    Raises:
        ImageError: it is no NIfTI; one that is cut short shows only when it is read.
    """
    if len(paths) > 1:
        return len(paths)
    if dicom.is_series(paths[0]):
        return 1
    with _named(paths[0]):
        image = _nibabel().load(paths[0])
    return int(image.shape[3]) if len(image.shape) == 4 else 1  # noqa: PLR2004 - x, y, z, modality


def channels_of(count: int) -> int:
    """In how many channels some modalities are kept: one, three or four."""
    return {1: 1, 4: 4}.get(count, _COLORS)


def read_labels(path: Path, volume: Volume) -> NDArray[np.uint8]:
    """The labels of a case: uint8 (x, y, z), in the order of the file's axes.

    Raises:
        ImageError: the file is no NIfTI, does not lie on the volume, or holds something else than ids up to 255.
    """
    image, array = _load(path)
    array = _alone(array)
    if array.shape != volume.voxels.shape[1:] or np.abs(image.affine - volume.affine).max() > _TOLERANCE:
        raise ImageError(
            path.name,
            expected=f"the shape and geometry of {volume.name}: {volume.voxels.shape[1:]}",
            found=f"{array.shape}" if array.shape != volume.voxels.shape[1:] else "another affine",
            remedy="Resample the labels to their volume",
        )
    if array.dtype == np.uint8:
        return array
    ids = np.rint(np.nan_to_num(array, nan=-1)).astype(np.int64)
    if (ids != array).any() or ids.min() < 0 or ids.max() > 255:  # noqa: PLR2004 - a byte
        raise ImageError(
            path.name,
            expected="whole ids from 0 to 255",
            found=f"values from {array.min():g} to {array.max():g}",
            remedy="Export the labels as ids, without interpolation",
        )
    found: NDArray[np.uint8] = ids.astype(np.uint8)
    return found


def write_labels(path: Path, labels: NDArray[np.uint8], like: Path) -> None:
    """Write labels as NIfTI in the geometry of another file: its affine, its codes, its units."""
    nibabel = _nibabel()
    source, _ = _load(like)
    header = source.header.copy()
    header.set_data_dtype(np.uint8)
    header["scl_slope"], header["scl_inter"], header["cal_min"], header["cal_max"] = 1, 0, 0, 0
    partial = path.with_name(f".partial-{path.name}")
    nibabel.save(type(source)(labels, source.affine, header), partial)
    partial.replace(path)


def is_volume(path: Path) -> bool:
    """Whether a name ends as those of NIfTI files do, or a folder holds a DICOM series."""
    return path.name.lower().endswith(SUFFIXES) or dicom.is_series(path)


def stem(path: Path) -> str:
    """A name without its ending, which may have two dots; that of a folder is whole."""
    end = next((each for each in reversed(SUFFIXES) if path.name.lower().endswith(each)), "")
    return path.name.removesuffix(path.name[len(path.name) - len(end) :]) if end else path.name


def _spread(modality: NDArray[np.float32]) -> NDArray[np.uint8]:
    """A modality as bytes: units differ between scanners, so the middle 99 % of what is not 0 fill them."""
    there = modality[modality != 0]
    low, high = np.percentile(there, (_DARKEST, _BRIGHTEST)) if there.size else (0.0, 1.0)
    spread: NDArray[np.uint8] = ((modality - low) / max(high - low, 1e-9) * 255).round().clip(0, 255).astype(np.uint8)
    return spread


def _load(path: Path) -> tuple[Any, NDArray[Any]]:
    nibabel = _nibabel()
    if path.is_dir():
        series, affine = dicom.load_series(path)
        return nibabel.Nifti1Image(series, affine), series
    with _named(path):
        image = nibabel.load(path)
        _check_bytes(path, image)
        voxels = np.asarray(image.dataobj)  # the header alone does not show a file that is cut short
        if np.isnan(nibabel.orientations.io_orientation(image.affine)).any():
            raise nibabel.orientations.OrientationError("a singular one, which drops an axis")
    if voxels.dtype.kind not in "iufb" or voxels.ndim not in {3, 4}:
        raise ImageError(
            path.name,
            expected="real numbers on three axes, or four with the modality last",
            found=f"{voxels.dtype} of shape {voxels.shape}",
            remedy="Export the volume in one of these shapes",
        )
    return image, voxels


@contextlib.contextmanager
def _named(path: Path) -> Iterator[None]:
    """Turn what nibabel raises into an error that names the file."""
    nibabel = _nibabel()
    try:
        yield
    except (*_DAMAGE, nibabel.filebasedimages.ImageFileError, nibabel.spatialimages.HeaderDataError) as error:
        found = (str(error) or type(error).__name__).splitlines()[0]
        raise ImageError(path.name, expected="a NIfTI file", found=found, remedy="Export or copy it again") from None
    except nibabel.orientations.OrientationError as error:
        raise ImageError(
            path.name, expected="an affine with three axes", found=str(error), remedy="Fix its header"
        ) from None


def _check_bytes(path: Path, image: Any) -> None:
    """Refuse what a small file may unpack to; read a compressed one to the checksum at its end, as nibabel does not."""
    voxels = math.prod(image.shape)
    if voxels > _MAX_VOXELS:
        message = f"{voxels:,} voxels, more than {_MAX_VOXELS:,}"
        raise ValueError(message)
    if not path.name.lower().endswith(".gz"):
        return
    left = image.dataobj.offset + voxels * image.dataobj.dtype.itemsize + _PIECE
    with gzip.open(path) as file:
        while piece := file.read(_PIECE):
            left -= len(piece)
            if left < 0:
                message = "more bytes than its header announces"
                raise ValueError(message)


def _nibabel() -> Any:
    try:
        import nibabel  # noqa: PLC0415 - an extra
    except ImportError:
        raise not_installed("Reading NIfTI files", "nibabel", "Install penstock[volumes]") from None
    return nibabel

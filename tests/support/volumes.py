"""Volumes in NIfTI, written in many ways, and trainings on them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from penstock.config import apply
from penstock.datasets import LayoutOptions
from penstock.images.codecs import encode_mask, encode_png
from penstock.kinds.fields import SegmentationRecord, encode_segmentation
from penstock.settings import DataSettings
from penstock.values import Record
from support.defaults import default_recipe

HOW = LayoutOptions("nifti-volumes")


def learn_volumes(dataset, **changes):
    begin = dataclasses.replace(default_recipe("volumes"), seed=3, data=DataSettings(str(dataset.folder)))
    settings = {"steps": 4, "evaluate_every": 2, "save_every": 1, "log_origins": "true", **changes}
    words = [f"train.{name}={value}" for name, value in settings.items()]
    return apply(begin, [*words, "augment.crop=[16, 16]", "augment.slices=16", 'train.device="cpu"'])


def volume_record(slices=6, height=5, width=4, channels=1, seed=0):
    draw = np.random.default_rng(seed)
    voxels = draw.integers(1, 256, (slices, height, width, channels), np.uint8)
    ids = draw.integers(0, 3, (slices, height, width), np.uint8)
    image = encode_png(voxels.reshape(-1, width, channels))
    fields = SegmentationRecord(image, encode_mask(ids.reshape(-1, width)), "v", "png", slices * height, width, slices)
    return Record("shard#0", encode_segmentation(fields)), voxels, ids


nibabel = pytest.importorskip("nibabel")


def volume_scene(seed=0, shape=(12, 15, 9)):
    """A volume and its labels in RAS: a bright block that is class 1 in its front and class 2 in its back."""
    draw = np.random.default_rng(seed)
    voxels, labels = draw.normal(100, 10, shape).astype(np.float32), np.zeros(shape, np.uint8)
    x, y, z = (int(draw.integers(1, side - 6)) for side in shape)
    labels[x : x + 5, y : y + 3, z : z + 4], labels[x : x + 5, y + 3 : y + 6, z : z + 4] = 2, 1
    voxels[labels > 0] += 200
    return voxels, labels


def stored(array, code, spacing=(1.0, 1.0, 1.0), shift=(5.0, -7.0, 11.0)):
    """An array of RAS as a NIfTI image whose axes go another way."""
    image = nibabel.Nifti1Image(array, np.diag([*spacing, 1.0]) + np.array([[0, 0, 0, s] for s in (*shift, 0)]))
    turn = nibabel.orientations.axcodes2ornt(code)
    return image.as_reoriented(turn if code == "RAS" else nibabel.orientations.ornt_transform(
        nibabel.orientations.axcodes2ornt("RAS"), turn
    ))  # fmt: skip


def write_volume(path, image):
    path.parent.mkdir(parents=True, exist_ok=True)
    nibabel.save(image, path)
    return path


def write_cases(root, count=6, codes=("RAS", "LPS", "PIR")):
    for number in range(count):
        voxels, labels = volume_scene(number)
        code = codes[number % len(codes)]
        write_volume(root / f"images/case_{number:02d}.nii.gz", stored(voxels, code))
        write_volume(root / f"labels/case_{number:02d}.nii.gz", stored(labels, code))


MODALITIES = ("flair", "t1", "t1ce", "t2")


def brats(root, count=3, split="train"):
    """A folder for every case, four modalities in files of their own, labels in _seg."""
    for number in range(count):
        _, labels = volume_scene(number)
        for place, name in enumerate(MODALITIES):
            voxels = (
                np.random.default_rng(100 * number + place + 1000 * (split == "val"))
                .normal(100, 10, labels.shape)
                .astype(np.float32)
            )
            voxels[labels == 1 + place % 2] += 100 + 50 * place
            write_volume(
                root / split / f"c{number}/c{number}_{name}.nii.gz", stored(voxels, ("RAS", "LPS")[number % 2])
            )
        write_volume(root / split / f"c{number}/c{number}_seg.nii.gz", stored(labels, ("RAS", "LPS")[number % 2]))


def write_series(folder, image, *, seed=0, left_out=()):
    """A NIfTI image as DICOM files, a slice along its third axis each, in names of any order.

    The geometry is worked out from the image's affine alone: the place of voxel (0, 0, k) and the directions of x and y,
    from right, anterior, superior to left, posterior, superior.
    """
    affine, voxels = np.diag([-1.0, -1.0, 1.0, 1.0]) @ image.affine, np.asarray(image.dataobj)
    right, down = affine[:3, 0], affine[:3, 1]
    folder.mkdir(parents=True, exist_ok=True)
    names = np.random.default_rng(seed).permutation(voxels.shape[2])
    for number in sorted(set(range(voxels.shape[2])) - set(left_out)):
        values = np.rint(voxels[..., number].T).astype(np.int16)
        one = dicom_file(values + 1000, RescaleIntercept=-1000, RescaleSlope=1)
        one.ImagePositionPatient = [float(each) for each in affine[:3] @ [0, 0, number, 1]]
        one.ImageOrientationPatient = [*(right / np.linalg.norm(right)), *(down / np.linalg.norm(down))]
        one.PixelSpacing = [float(np.linalg.norm(down)), float(np.linalg.norm(right))]
        one.save_as(folder / f"IM{names[number]:03d}.dcm", enforce_file_format=True)
    return folder


def dicom_file(values, **tags):
    """A DICOM image of 16 bits."""
    pydicom = pytest.importorskip("pydicom")
    meta = pydicom.dataset.FileMetaDataset()
    meta.TransferSyntaxUID = pydicom.uid.ExplicitVRLittleEndian
    meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID = pydicom.uid.CTImageStorage, "1.2.3.4"
    one = pydicom.dataset.Dataset()
    one.file_meta = meta
    one.SOPClassUID, one.SOPInstanceUID, one.SeriesInstanceUID = pydicom.uid.CTImageStorage, "1.2.3.4", "1.2.3"
    one.Rows, one.Columns, one.SamplesPerPixel, one.PhotometricInterpretation = *values.shape[:2], 1, "MONOCHROME2"
    one.BitsAllocated = one.BitsStored = 16
    one.HighBit, one.PixelRepresentation = 15, int(values.dtype == np.int16)
    for name, value in tags.items():
        setattr(one, name, value)
    one.PixelData = values.tobytes()
    return one


def series_with_labels(root):
    """Three cases of DICOM files, each with its labels in NIfTI."""
    for seed in range(3):
        voxels, labels = volume_scene(seed, (24, 24, 10))
        write_series(root / f"images/case{seed}", stored(np.rint(voxels), "LPS", (1.0, 1.0, 2.5)))
        write_volume(root / f"labels/case{seed}.nii.gz", stored(labels, "LPS", (1.0, 1.0, 2.5)))

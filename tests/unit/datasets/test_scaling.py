from __future__ import annotations

import io
import json

import numpy as np
import pytest
import tifffile
from support import volumes
from support.commands import call
from support.datasets import records
from support.errors import refused
from support.miniatures import make_image, write

import penstock as ps
from penstock.datasets import FolderDataset, LayoutOptions, inspect
from penstock.images import decode_image
from penstock.kinds.fields import decode_classification
from penstock.kinds.items import Labels

RANGE = (-3.0, 4.0)
HOW = LayoutOptions(value_range=RANGE)


def heights(seed, low=-2.0, high=3.0):
    return np.random.default_rng(seed).uniform(low, high, (20, 24)).astype(np.float32)


def tif(pixels):
    done = io.BytesIO()
    tifffile.imwrite(done, pixels)
    return done.getvalue()


@pytest.fixture
def folder(tmp_path):
    """Two classes of float images."""
    for number in range(3):
        write(tmp_path / f"raw/train/low/{number}.tif", tif(heights(number, high=0.0)))
        write(tmp_path / f"raw/train/high/{number}.tif", tif(heights(9 + number, low=1.0)))
    return tmp_path


def test_floats_become_sixteen_bits(folder):
    ps.pack(inspect(folder / "raw", how=HOW), folder / "data")
    dataset = FolderDataset.open(folder / "data")
    found = {record.name: record for record in map(decode_classification, records(dataset, "train"))}

    wanted = np.rint((heights(9, low=1.0).astype(np.float64) + 3) / 7 * 65535)
    (one,) = [record for record in found.values() if record.label == 0 and "0" in record.name]
    pixels = decode_image(one.image, "x", pixels=dataset.description.pixel_format)
    assert pixels.dtype == np.uint16
    assert np.array_equal(pixels[..., 0], wanted)
    assert (dataset.description.bits, dataset.description.value_range) == (16, RANGE)


def test_predictions_read_the_same_range(folder, tmp_path):
    data = ps.pack(inspect(folder / "raw", how=HOW), folder / "data")
    small = {"weights": "none", "steps": 2, "batch": 2, "crop": (20, 24), "settings": {"data.validation": ""}}
    model = ps.train(data, model="test_resnet", runs=tmp_path / "runs", **small).load()
    path = folder / "raw/train/high/0.tif"
    wanted = np.rint((heights(9, low=1.0).astype(np.float64) + 3) / 7 * 65535).astype(np.uint16)
    deep, floats = (array[..., np.newaxis].repeat(3, axis=2) for array in (wanted, heights(9, low=1.0)))

    by_file, by_pixels, by_floats = (model.predict(image).probabilities for image in (path, deep, floats))
    assert np.array_equal(by_file, by_pixels)
    assert np.array_equal(by_floats, by_pixels)


def test_datasets_of_other_images_do_not_mention_it(tmp_path):
    for name in ("cat", "dog"):
        write(tmp_path / f"raw/{name}/0.jpg", make_image(seed=len(name)))
    ps.pack(tmp_path / "raw", tmp_path / "data")

    assert "value_range" not in json.loads((tmp_path / "data/dataset.json").read_text())


def test_the_command_takes_it(folder, capsys):
    code, out, _ = call("inspect", folder / "raw", capsys=capsys)
    assert code == 1
    assert "Pack with --value-range LOW HIGH, the values that become 0 and 65535." in out
    code, out, _ = call("inspect", folder / "raw", "--value-range", "-3", "4", capsys=capsys)
    assert code == 0
    assert "because values from -3 to 4 of TIFF and DICOM images become 0 to 65535" in out
    packed = call("pack", folder / "raw", "-o", folder / "data", "--value-range", "-3", "4", capsys=capsys)
    assert packed[0] == 0, packed
    assert FolderDataset.open(folder / "data").description.value_range == RANGE


@pytest.mark.parametrize("wrong", [(4.0, -3.0), (1.0, 1.0), (0.0, float("inf")), (float("nan"), 1.0)])
def test_a_range_without_values_is_refused(folder, wrong):
    message = (
        f"--value-range: expected two numbers, the lower one first, found {wrong[0]:g} {wrong[1]:g}. Give the values "
        "that become 0 and 65535, for example --value-range -160 240."
    )
    refused(inspect, folder / "raw", how=LayoutOptions(value_range=wrong), message=message)


def test_volumes_have_no_range(tmp_path):
    volumes.write_cases(tmp_path)
    message = "--value-range is for images, and not for volumes. Remove --value-range."
    refused(inspect, tmp_path, Labels(), how=HOW, message=message)


COUNTS = np.random.default_rng(5).integers(0, 4096, (20, 24), np.uint16)


def dcm(values, **tags):
    done = io.BytesIO()
    volumes.dicom_file(values, **tags).save_as(done, enforce_file_format=True)
    return done.getvalue()


def test_all_dicom_images_of_a_folder_have_one_range(tmp_path):
    units = {"BitsStored": 12, "RescaleSlope": 1}
    write(tmp_path / "raw/ct/a.dcm", dcm(COUNTS, RescaleIntercept=-1024, **units))
    write(tmp_path / "raw/mr/a.dcm", dcm(COUNTS[::-1], RescaleIntercept=0, **units))
    write(tmp_path / "raw/mr/b.dcm", dcm(COUNTS[:, ::-1], RescaleIntercept=0, **units))
    ps.pack(tmp_path / "raw", tmp_path / "data")
    dataset = FolderDataset.open(tmp_path / "data")

    assert dataset.description.value_range == (-1024, 4095)
    for record in map(decode_classification, records(dataset, "train")):
        found = decode_image(record.image, "x", pixels=dataset.description.pixel_format)[..., 0]
        values = {"ct/a": COUNTS.astype(int) - 1024, "mr/a": COUNTS[::-1], "mr/b": COUNTS[:, ::-1]}[record.name]
        assert np.array_equal(found, np.rint((values.astype(float) + 1024) / 5119 * 65535))


def test_dicom_images_beside_others_need_a_range_that_somebody_gives(tmp_path):
    write(tmp_path / "raw/ct/a.dcm", dcm(COUNTS, RescaleSlope=1, RescaleIntercept=-1024))
    write(tmp_path / "raw/mr/a.png", make_image((20, 24)))
    (problem,) = inspect(tmp_path / "raw").fatal

    assert problem.message == (
        f"ct/a.dcm: expected whole numbers from 0 to 65535, found float64 values from {int(COUNTS.min()) - 1024} to {int(COUNTS.max()) - 1024}. "
        "Pack with --value-range LOW HIGH, the values that become 0 and 65535."
    )


def test_it_comes_before_images_are_made_smaller(folder):
    found = inspect(folder / "raw", how=LayoutOptions(value_range=RANGE, max_side=12))

    assert not found.problems or not found.fatal
    assert {(each.height, each.width, each.pixel_format.bits) for each in found.items} == {(10, 12, 16)}

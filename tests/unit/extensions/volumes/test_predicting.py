from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from support.commands import call
from support.volumes import dicom_file, nibabel, stored, volume_scene, write_volume

import penstock as ps
from penstock.errors import DatasetError
from penstock.extensions.volumes.layouts import cases
from penstock.extensions.volumes.network import build_volume_network
from penstock.extensions.volumes.predicting import _cases, _refuse_overwriting
from penstock.extensions.volumes.task import Volumes
from penstock.extensions.volumes.volume import read_labels, read_volume, write_labels
from penstock.settings import Augment


def test_labels_of_equal_names_are_told_apart_by_their_folder(tmp_path):
    for split in ("train", "val"):
        for kind in ("images", "labels"):
            write_volume(tmp_path / kind / split / "c0.nii.gz", stored(volume_scene()[kind == "labels"], "RAS"))
    both = cases(tmp_path / "images", tmp_path / "labels")

    assert [case.labels for case in both] == [tmp_path / "labels" / split / "c0.nii.gz" for split in ("train", "val")]
    with pytest.raises(DatasetError) as caught:
        cases(tmp_path / "images" / "train", tmp_path / "labels")
    assert str(caught.value) == (
        f"c0: expected one file of labels for this case, found {tmp_path}/labels/train/c0.nii.gz, "
        f"{tmp_path}/labels/val/c0.nii.gz. Name the folder that holds the right ones alone."
    )


def test_labels_are_written_in_the_geometry_of_the_input(tmp_path):
    voxels, labels = volume_scene()
    source = write_volume(tmp_path / "v.nii.gz", stored(voxels, "PIR", (0.8, 1.1, 2.5)))
    image = nibabel.load(source)
    image.header.set_xyzt_units("mm")
    image.header["descrip"] = b"scanner 7"
    image.header["cal_min"], image.header["cal_max"] = -100, 900  # the window of a scan, in which labels are black
    nibabel.save(image, source)
    volume = read_volume([source])
    own = read_labels(write_volume(tmp_path / "l.nii", stored(labels, "PIR", (0.8, 1.1, 2.5))), volume)
    write_labels(tmp_path / "predicted.nii.gz", own, source)
    predicted = nibabel.load(tmp_path / "predicted.nii.gz")

    assert predicted.get_data_dtype() == np.uint8
    assert np.array_equal(predicted.affine, image.affine)
    assert predicted.header.get_zooms() == image.header.get_zooms()
    assert predicted.header.get_xyzt_units() == ("mm", "unknown")
    assert bytes(predicted.header["descrip"]).startswith(b"scanner 7")
    assert [float(predicted.header[name]) for name in ("cal_min", "cal_max")] == [0.0, 0.0]
    assert (predicted.header["sform_code"], predicted.header["qform_code"]) == (
        image.header["sform_code"],
        image.header["qform_code"],
    )
    assert (np.asanyarray(predicted.dataobj) == own).all()


def test_volumes_are_predicted_as_they_were_scored(tmp_path, capsys):
    import csv

    from support.volumes import brats

    brats(tmp_path / "raw", 3)
    brats(tmp_path / "raw", 2, "val")
    data = tmp_path / "data"
    assert call("pack", tmp_path / "raw", "-o", data, "--task", "volumes", capsys=capsys)[0] == 0
    words = ["--steps", 2, "--crop", 16, 16, "--set", "augment.slices=16", "--runs", tmp_path / "runs"]
    assert call("train", data, *words, capsys=capsys)[0] == 0
    (run,) = (tmp_path / "runs").iterdir()
    words = ["-o", tmp_path / "out", "--labels", tmp_path / "raw/val"]
    assert call("predict", run, tmp_path / "raw/val", *words, capsys=capsys)[0] == 0
    table = (tmp_path / "out/dice.csv").read_text()
    ps.load(run).write(tmp_path / "again", tmp_path / "raw/val", labels=tmp_path / "raw/val")
    rows = list(csv.reader(table.splitlines()))[1:]
    columns = [[float(cell) for cell in column if cell] for column in list(zip(*rows, strict=True))[1:]]
    (found,) = (run / "evaluations").glob("step-*.json")
    mean = np.mean([np.mean(column) for column in columns if column])

    assert (tmp_path / "again/dice.csv").read_text() == table
    assert len(rows) == 2
    assert mean > 0
    assert json.loads(found.read_text())["mean_dice"] == pytest.approx(mean, abs=1e-5)


def test_a_window_slides_over_what_is_larger_than_the_patch():
    torch.manual_seed(0)
    network = build_volume_network("unet3d", 3, 2, (16, 16, 16)).eval()
    small, large = torch.randn(1, 2, 16, 16, 16), torch.randn(1, 2, 20, 33, 16)

    with torch.inference_mode():
        assert torch.allclose(network(small), network.network(small), atol=1e-5)
        assert network(large).shape == (1, 3, 20, 33, 16)


def test_a_volume_smaller_than_the_window_is_padded_as_in_training():
    torch.manual_seed(0)
    task = Volumes("unet3d", ("a", "b"), augment=Augment((16, 16), slices=16))
    network = task.model().eval()
    voxels = torch.randint(0, 256, (1, 12, 16, 16, 1), dtype=torch.uint8)
    padded = torch.cat(
        [torch.zeros(1, 2, 16, 16, 1, dtype=torch.uint8), voxels, torch.zeros_like(voxels[:, :2])], dim=1
    )

    with torch.inference_mode():
        found, expected = network(task.inputs({"image": voxels})), network.network(task.inputs({"image": padded}))
    assert torch.allclose(found, expected[:, :, 2:14], atol=1e-5)


def test_volumes_of_one_name_are_refused(tmp_path):
    nibabel = pytest.importorskip("nibabel")
    paths = [tmp_path / place / "scan.nii.gz" for place in ("a", "b")]
    for path in paths:
        path.parent.mkdir()
        nibabel.save(nibabel.Nifti1Image(np.ones((4, 4, 4), np.float32), np.eye(4)), path)
    with pytest.raises(DatasetError, match=r"that scan\.nii\.gz is wanted twice"):
        _refuse_overwriting(_cases(paths, None), tmp_path / "out")


def test_a_series_of_slices_is_scored_by_the_labels_of_its_name(tmp_path):
    (tmp_path / "p7").mkdir()
    dicom_file(np.zeros((4, 5), np.int16)).save_as(tmp_path / "p7/1.dcm", enforce_file_format=True)
    truth = write_volume(tmp_path / "truth/p7.nii.gz", stored(volume_scene()[1], "RAS"))

    assert [case.labels for case in _cases([tmp_path / "p7"], tmp_path / "truth")] == [truth]
    assert [case.labels for case in _cases([tmp_path / "p7"], tmp_path)] == [None]

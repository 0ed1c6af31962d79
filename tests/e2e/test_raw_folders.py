"""Every folder of docs/folders.md is packed with its command and read by the feed; one or two of each task are trained
on, and their images predicted, in every run, and all of them in `make soak`.
"""

from __future__ import annotations

import pytest
from support.commands import call
from support.paths import ROOT
from support.raw_folders import FOLDERS, rows

import penstock as ps
from penstock.datasets import listing
from penstock.extensions.volumes.volume import is_volume

pytestmark = pytest.mark.slow

MODELS = {
    "segmentation": "unet:test_resnet",
    "matting": "unet:test_resnet",
    "slices": "unet:test_resnet",
    "classification": "test_resnet",
    "detection": "ssd:test_resnet",
    "instances": "maskrcnn:test_resnet",
}
WRITTEN = {
    "segmentation": "*-overlay.png",
    "matting": "*.png",
    "slices": "*.nii.gz",
    "classification": "predictions.csv",
    "detection": "predictions.csv",
    "instances": "*-instances.png",
}


QUICK = (
    "images and masks in two folders",
    "TIFF images of many bands",
    "images and alpha mattes",
    "NIfTI scans",
    "a folder for each class",
    "YOLO",
)
"""Folders that go all the way in every run."""


def _shown(folder, image):
    """A case may have a file for each modality, in a folder of its own."""
    return image.parent if folder.task == "slices" else image


@pytest.mark.parametrize("folder", FOLDERS, ids=[folder.what for folder in FOLDERS])
def test_it_is_packed_and_fed(folder, tmp_path, capsys):
    folder.make(tmp_path / "raw")
    code, out, err = call("pack", tmp_path / "raw", "-o", tmp_path / "data", *folder.options.split(), capsys=capsys)
    assert code == 0, out + err
    feed = ps.open(tmp_path / "data")["train"].feed(batch=2, crop=(32, 32), settings={"data.repeat_threshold": 1.0})

    assert next(feed.batches()).weight.tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    "folder",
    [pytest.param(each, id=each.what, marks=[] if each.what in QUICK else pytest.mark.soak) for each in FOLDERS],
)
def test_it_goes_through_to_predictions(folder, tmp_path, capsys):
    raw, data, runs = tmp_path / "raw", tmp_path / "data", tmp_path / "runs"
    folder.make(raw)
    code, out, err = call("pack", raw, "-o", data, *folder.options.split(), capsys=capsys)
    assert code == 0, out + err
    small = ("--crop", 64, 64, "--batch", 2, "--device", "cpu", "--weights", "none", "--runs", runs)
    words = ("train", data, "--model", MODELS[folder.task], "--fast-dev-run", *small)
    if folder.task == "instances" or not any(data.glob("val-*")):  # evaluating objects takes seconds
        words += ("--set", "data.validation=")
    code, out, err = call(*words, capsys=capsys)
    assert code == 0, out + err

    (run,) = runs.iterdir()
    images = [path for path in listing.files(raw) if is_volume(path) or listing.is_image(path)]
    if not images:  # inside an archive
        return
    code, out, err = call(
        "predict", run, _shown(folder, images[0]), "-o", tmp_path / "out", "--checkpoint", "last", capsys=capsys
    )
    assert code == 0, out + err
    assert list((tmp_path / "out").rglob(WRITTEN[folder.task]))


def test_every_task_goes_all_the_way():
    """Instances do so in test_instances.py."""
    assert {folder.task for folder in FOLDERS if folder.what in QUICK} == {*MODELS} - {"instances"}


@pytest.mark.parametrize("page", ["README.md", "CHANGELOG.md"])
def test_their_number_is_said(page):
    assert f"{len(FOLDERS)} kinds of folders" in (ROOT / page).read_text()


def test_the_page_has_every_folder_with_its_command():
    page = (ROOT / "docs/folders.md").read_text().splitlines()
    assert [line for line in page if line.startswith("| ")][2:] == list(rows())

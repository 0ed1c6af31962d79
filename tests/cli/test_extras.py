"""Every extra that data may need is absent in turn: a sentence that names it, and no traceback."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import tifffile
from support import miniatures, volumes
from support.commands import call
from support.raw_folders import FOLDERS

FOLDER_OF = {folder.what: folder.make for folder in FOLDERS}


def heic(root):
    miniatures.write(root / "cat/a.heic", b"\0\0\0\x18ftypheic\0\0\0\0mif1heic")
    miniatures.write(root / "dog/a.jpg", miniatures.make_image())


def channels(root):
    miniatures.write(root / "dog/a.jpg", miniatures.make_image())
    (root / "cat").mkdir()
    tifffile.imwrite(root / "cat/a.tif", np.zeros((24, 32, 5), np.uint8))


@pytest.mark.parametrize(
    ("module", "make", "options", "said"),
    [
        ("faster_coco_eval", miniatures.coco, ["--task", "segmentation"], "needs faster-coco-eval. Install penstock[detect]."),
        ("faster_coco_eval", miniatures.coco, ["--task", "instances"], "needs faster-coco-eval. Install penstock[detect]."),
        ("nibabel", volumes.write_cases, [], "Reading NIfTI files needs nibabel. Install penstock[volumes]."),
        ("pydicom", FOLDER_OF["DICOM images, a folder for each class"], [], "needs pydicom. Install penstock[dicom]."),
        ("pi_heif", heic, [], "cat/a.heic: a HEIC image needs pi-heif. Install penstock[heif]."),
        ("tifffile", channels, [], "cat/a.tif: a TIFF of many channels needs tifffile. Install penstock[tiff]."),
    ],
)  # fmt: skip
def test_a_folder_that_needs_it_is_answered_with_its_name(tmp_path, capsys, monkeypatch, module, make, options, said):
    make(tmp_path)
    monkeypatch.setitem(sys.modules, module, None)
    code, out, err = call("inspect", tmp_path, *options, capsys=capsys)

    assert code != 0
    assert said in out + err

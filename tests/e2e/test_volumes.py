from __future__ import annotations

import csv
import shutil

import cv2
import numpy as np
import pytest
from support import miniatures
from support.commands import call
from support.datasets import records
from support.volumes import MODALITIES, brats, nibabel, stored, volume_scene, write_cases, write_series, write_volume

from penstock.assembly import open_experiment
from penstock.config import apply, load
from penstock.datasets import FolderDataset, inspect
from penstock.errors import DatasetError, RecipeError
from penstock.extensions.volumes.volume import read_volume
from penstock.images import PixelFormat, decode_image
from penstock.inference import load_model
from penstock.kinds.fields import decode_segmentation


def test_four_modalities_go_through_training_and_back(tmp_path, capsys):
    brats(tmp_path / "raw")
    brats(tmp_path / "raw", 2, "val")
    assert call("pack", tmp_path / "raw", "-o", tmp_path / "data", capsys=capsys)[0] == 0
    dataset = FolderDataset.open(tmp_path / "data")
    first = read_volume([tmp_path / f"raw/train/c1/c1_{name}.nii.gz" for name in MODALITIES])
    packed = {decode_segmentation(r).name: decode_segmentation(r).image for r in records(dataset, "train")}
    assert dataset.description.channels == 4
    assert len(packed) == 27
    for number in range(9):
        pixels = decode_image(packed[f"c1/{number:04d}"], "x", pixels=PixelFormat(4))
        assert (pixels == first.images(4)[number]).all()
    assert call("show", tmp_path / "data", "-o", tmp_path / "sheet.png", capsys=capsys)[0] == 0
    assert call("verify", tmp_path / "data", capsys=capsys)[0] == 0

    words = ["--model", "unet:test_resnet", "--weights", "none", "--crop", 32, 32, "--batch", 4, "--steps", 2]
    assert call("train", tmp_path / "data", *words, "--runs", tmp_path / "runs", capsys=capsys)[0] == 0
    (run,) = (tmp_path / "runs").iterdir()
    task = load_model(run, device="cpu").parts.task
    assert (task.pixel_format.channels, len(task.normalization.mean)) == (4, 4)
    assert call("predict", run, tmp_path / "raw/val", "-o", tmp_path / "out", capsys=capsys)[0] == 0
    assert call("predict", run, tmp_path / "sheet.png", "-o", tmp_path / "x", capsys=capsys) == (
        2,
        "",
        "error: penstock predict: expected NIfTI volumes, as the run learnt slices of 4 modalities, found images. Name "
        "volumes.\n",
    )
    code, out, _ = call("export", run, "-o", tmp_path / "model.pt2", capsys=capsys)
    assert (code, "image, uint8 (n, 32, 32, 4); gives" in out) == (0, True)
    with pytest.raises(RecipeError, match=r"augment.jitter: expected nothing: images of 4 channels have no colours"):
        _ = open_experiment(apply(load(run / "recipe.toml"), ["augment.jitter.brightness=0.2"])).task
    for number in range(2):
        found = nibabel.load(tmp_path / f"out/c{number}.nii.gz")
        like = nibabel.load(tmp_path / f"raw/val/c{number}/c{number}_t2.nii.gz")
        assert found.shape == like.shape
        assert (found.affine == like.affine).all()


def test_who_learnt_two_modalities_predictions_no_images(tmp_path, capsys):
    for number in range(2):
        for kind in ("0000", "0001"):
            write_volume(
                tmp_path / f"raw/images/c{number}_{kind}.nii", stored(volume_scene(number + int(kind))[0], "RAS")
            )
        write_volume(tmp_path / f"raw/labels/c{number}.nii", stored(volume_scene(number)[1], "RAS"))
    assert call("pack", tmp_path / "raw", "-o", tmp_path / "data", capsys=capsys)[0] == 0
    words = ["--model", "unet:test_resnet", "--weights", "none", "--crop", 32, 32, "--batch", 4, "--steps", 1]
    words += ["--set", "data.validation=", "--runs", tmp_path / "runs"]
    assert call("train", tmp_path / "data", *words, capsys=capsys)[0] == 0
    (run,) = (tmp_path / "runs").iterdir()
    (tmp_path / "a.jpg").write_bytes(miniatures.make_image())

    assert call("predict", run, tmp_path / "a.jpg", "-o", tmp_path / "out", capsys=capsys) == (
        2,
        "",
        "error: penstock predict: expected NIfTI volumes, as the run learnt slices of 2 modalities, found images. Name "
        "volumes.\n",
    )


def test_from_volumes_to_volumes(tmp_path, capsys):
    write_cases(tmp_path / "raw")
    assert call("pack", tmp_path / "raw", "-o", tmp_path / "data", "--validation", 0.34, capsys=capsys)[0] == 0
    words = ["--model", "unet:test_resnet", "--weights", "none", "--crop", 32, 32, "--batch", 4, "--steps", 2]
    assert call("train", tmp_path / "data", *words, "--runs", tmp_path / "runs", capsys=capsys)[0] == 0
    (run,) = (tmp_path / "runs").iterdir()
    code, out, _ = call(
        "predict",
        run,
        tmp_path / "raw/images",
        "-o",
        tmp_path / "out",
        "--labels",
        tmp_path / "raw/labels",
        capsys=capsys,
    )
    rows = list(csv.DictReader((tmp_path / "out/dice.csv").read_text().splitlines()))

    assert code == 0
    assert out.startswith(f"predicted 6 of 6 volumes into {tmp_path / 'out'}, each in its own geometry\n")
    assert [row["case"] for row in rows] == [f"case_{number:02d}" for number in range(6)]
    for row in rows:
        prediction, true = (
            nibabel.load(tmp_path / folder / f"{row['case']}.nii.gz") for folder in ("out", "raw/labels")
        )
        assert np.array_equal(prediction.affine, true.affine)
        found, wanted = (np.asanyarray(image.dataobj) for image in (prediction, true))
        for label in (1, 2):
            both = ((found == label) & (wanted == label)).sum()
            assert float(row[f"class{label}"]) == pytest.approx(
                2 * both / ((found == label).sum() + (wanted == label).sum()), abs=1e-6
            )

    (tmp_path / "odd").mkdir()
    shutil.copy(tmp_path / "raw/images/case_00.nii.gz", tmp_path / "odd/a.nii.gz")
    write_volume(tmp_path / "odd/b.nii.gz", stored(np.stack([volume_scene(1)[0]] * 2, axis=-1), "RAS"))
    (tmp_path / "odd/c.nii.gz").write_bytes(b"no volume")
    code, out, err = call("predict", run, tmp_path / "odd", "-o", tmp_path / "odd-out", capsys=capsys)
    place = tmp_path / "odd/c.nii.gz"
    assert (code, out, err.rpartition(",")[0]) == (
        1,
        "b.nii.gz: expected 1 modality a case, as the run learnt, found 2. Give the case the files that the training cases "
        f"had.\nc.nii.gz: expected a NIfTI file, found File {place} is not a gzip file. Export or copy it again.\n"
        f"predicted 1 of 3 volumes into {tmp_path / 'odd-out'}, each in its own geometry\n",
        "predict: 3 of 3 volumes",
    )
    assert {path.name for path in (tmp_path / "odd-out").glob("[!.]*")} == {"a.nii.gz", "a-slices.png"}

    write_volume(tmp_path / "odd-labels/a.nii.gz", stored(np.zeros((5, 5, 5), np.uint8), "RAS"))
    (tmp_path / "odd/b.nii.gz").unlink()
    (tmp_path / "odd/c.nii.gz").unlink()
    words = ["predict", run, tmp_path / "odd", "-o", tmp_path / "odd-out2", "--labels", tmp_path / "odd-labels"]
    code, out, _ = call(*words, capsys=capsys)
    assert (code, out.splitlines()[1:]) == (
        1,
        [f"predicted 1 of 1 volume into {tmp_path / 'odd-out2'}, each in its own geometry"],
    )
    assert out.startswith("a.nii.gz: expected the shape and geometry of a.nii.gz: ")
    assert (tmp_path / "odd-out2/a.nii.gz").is_file()


def test_options_that_do_nothing_are_refused(tmp_path, capsys):
    write_cases(tmp_path / "raw", 2)
    call("pack", tmp_path / "raw", "-o", tmp_path / "data", capsys=capsys)
    words = ["--model", "unet:test_resnet", "--weights", "none", "--crop", 32, 32, "--batch", 2, "--steps", 1]
    call("train", tmp_path / "data", *words, "--set", "data.validation=''", "--runs", tmp_path / "runs", capsys=capsys)
    (run,) = (tmp_path / "runs").iterdir()
    images = tmp_path / "raw/images"

    for more, message in (
        (
            ["--color"],
            "Writing masks in colour is not supported for NIfTI volumes. Remove --color.",
        ),
        (
            ["--labels", tmp_path / "gone"],
            f"{tmp_path / 'gone'}: expected a folder of labels, found none. Check --labels.",
        ),
    ):
        assert call("predict", run, images, "-o", tmp_path / "out", *more, capsys=capsys) == (
            2,
            "",
            f"error: {message}\n",
        )
    (tmp_path / "raw/labels/case_01.nii.gz").unlink()
    code, out, _ = call(
        "predict", run, images, "-o", tmp_path / "out", "--labels", tmp_path / "raw/labels", capsys=capsys
    )
    assert (code, out.splitlines()[1]) == (0, f"no labels in {tmp_path / 'raw/labels'} for 1 of them")


def test_predictions_never_take_the_place_of_volumes(tmp_path, capsys):
    write_cases(tmp_path / "raw", 2)
    call("pack", tmp_path / "raw", "-o", tmp_path / "data", capsys=capsys)
    words = [
        "--model",
        "unet:test_resnet",
        "--weights",
        "none",
        "--crop",
        32,
        32,
        "--batch",
        2,
        "--steps",
        1,
        "--set",
        "data.validation=''",
    ]
    call("train", tmp_path / "data", *words, "--runs", tmp_path / "runs", capsys=capsys)
    (run,) = (tmp_path / "runs").iterdir()

    scan = tmp_path / "raw/images/case_00.nii.gz"
    assert call("predict", run, scan, "-o", tmp_path / "raw/images", capsys=capsys) == (
        2,
        "",
        f"error: {tmp_path}/raw/images/case_00.nii.gz: expected volumes whose predictions go to files of their own, found that "
        "case_00.nii.gz is wanted twice, or is a volume itself. Choose another folder with -o, or predict the volumes into "
        "two.\n",
    )
    with pytest.raises(DatasetError):
        inspect(tmp_path / "runs")


def test_series_are_packed_and_predicted_as_volumes(tmp_path, capsys):
    for split, seed in (("train", 0), ("train", 1), ("val", 2)):
        voxels, labels = volume_scene(seed, (24, 24, 10))
        image = stored(np.rint(voxels), "LPS", (1.0, 1.0, 2.5))
        write_series(tmp_path / f"raw/images/{split}/case{seed}", image)
        write_volume(tmp_path / f"raw/labels/{split}/case{seed}.nii.gz", stored(labels, "LPS", (1.0, 1.0, 2.5)))
    code, out, _ = call("pack", tmp_path / "raw", "-o", tmp_path / "data", capsys=capsys)
    assert (code, out.splitlines()[1:3]) == (
        0,
        [
            "note: --task volumes takes it for volumes: NIfTI volumes, whole, 3 images with labels",
            "train: 20 records in 1 shard",
        ],
    )
    words = ["--model", "unet:test_resnet", "--weights", "none", "--crop", 32, 32, "--batch", 4, "--steps", 2]
    assert call("train", tmp_path / "data", *words, "--runs", tmp_path / "runs", capsys=capsys)[0] == 0
    (run,) = (tmp_path / "runs").iterdir()
    for place in ("raw/images/val", "raw/images/val/case2"):
        found = ["-o", tmp_path / "out" / place, "--labels", tmp_path / "raw/labels/val"]
        code, out, _ = call("predict", run, tmp_path / place, *found, capsys=capsys)
        assert (code, out.splitlines()[0]) == (
            0,
            f"predicted 1 of 1 volume into {tmp_path}/out/{place}, each in its own geometry",
        )
        written = nibabel.load(tmp_path / "out" / place / "case2.nii.gz")
        like = nibabel.load(tmp_path / "raw/labels/val/case2.nii.gz")
        assert written.shape == like.shape
        assert np.allclose(written.affine, like.affine)
        assert "left out" not in out
        drawn = cv2.imread(str(tmp_path / "out" / place / "case2-slices.png"))
        assert drawn.shape[1] > drawn.shape[0] > 300

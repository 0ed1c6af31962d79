from __future__ import annotations

import csv

import numpy as np
import pytest
from support.commands import call
from support.training import Stop, state, stops
from support.volumes import HOW, brats, learn_volumes, stored, volume_record, volume_scene, write_cases, write_volume

from penstock.assembly import open_experiment
from penstock.config import apply
from penstock.datasets import FolderDataset, inspect, pack
from penstock.errors import DatasetError, RecipeError, SchemaError
from penstock.extensions.volumes.network import build_volume_network
from penstock.extensions.volumes.scores import dice
from penstock.extensions.volumes.task import Volumes, read_slices
from penstock.inference import load_model
from penstock.kinds.fields import SegmentationRecord, decode_segmentation, encode_segmentation
from penstock.kinds.labels import LabelSet
from penstock.models import TestTimeAugmentation
from penstock.training import resume, train
from penstock.values import Record

nibabel = pytest.importorskip("nibabel")


@pytest.fixture(scope="module")
def whole_volumes(tmp_path_factory):
    """Nine volumes of 12 x 15 x 9, three of them to validate."""
    root = tmp_path_factory.mktemp("whole")
    write_cases(root / "raw", 9)
    return pack(inspect(root / "raw", how=HOW).divided(0.34), root / "data")


@pytest.mark.every_step
def test_stopped_at_every_step_it_ends_as_if_it_had_not_been(whole_volumes, tmp_path):
    chosen = learn_volumes(whole_volumes)
    undisturbed, _ = train(chosen, tmp_path / "whole")
    for step in stops(range(1, 4)):
        folder, _ = train(chosen, tmp_path / f"{step}", hooks=[Stop(step)])
        resume(folder.path)
        assert state(folder.path) == state(undisturbed.path)


def test_from_volumes_to_volumes_through_the_command_line(tmp_path, capsys):
    brats(tmp_path / "raw", 3)
    brats(tmp_path / "raw", 2, "val")
    words = ["--layout", "nifti-volumes"]
    code, out, errors = call("pack", tmp_path / "raw", "-o", tmp_path / "data", *words, capsys=capsys)
    assert code == 0, errors
    assert FolderDataset.open(tmp_path / "data").description.channels == 4
    assert call("show", tmp_path / "data", "-o", tmp_path / "sheet.png", capsys=capsys)[0] == 0
    assert call("verify", tmp_path / "data", capsys=capsys)[0] == 0
    words = ["--steps", 2, "--crop", 16, 16, "--set", "augment.slices=16", "--runs", tmp_path / "runs"]
    sheet = ["--augmented", "--set", "augment.crop=[16, 16]", "-o", tmp_path / "fed.png"]
    assert call("show", tmp_path / "data", *sheet, capsys=capsys)[0] == 0
    code, out, errors = call("train", tmp_path / "data", *words, capsys=capsys)
    assert code == 0, errors
    (run,) = (tmp_path / "runs").iterdir()
    code, out, errors = call("evaluate", run, capsys=capsys)
    assert code == 0, errors
    assert "mean Dice" in out
    words = ["-o", tmp_path / "out", "--labels", tmp_path / "raw/val"]
    code, out, errors = call("predict", run, tmp_path / "raw/val", *words, capsys=capsys)
    assert code == 0, errors
    rows = {row["case"]: row for row in csv.DictReader((tmp_path / "out/dice.csv").read_text().splitlines())}
    assert sorted(rows) == ["c0", "c1"]
    trained = load_model(run, device="cpu")
    for number in range(2):
        like = nibabel.load(tmp_path / f"raw/val/c{number}/c{number}_seg.nii.gz")
        prediction = nibabel.load(tmp_path / f"out/c{number}.nii.gz")
        assert (prediction.affine == like.affine).all()
        expected = dice(np.asarray(prediction.dataobj), np.asarray(like.dataobj), 3)
        shown = [None if not cell else float(cell) for cell in list(rows[f"c{number}"].values())[1:]]
        assert shown == pytest.approx(expected, abs=1e-6)
    assert trained.parts.task.best_metric == "mean_dice"
    code, out, errors = call("predict", run, tmp_path / "sheet.png", "-o", tmp_path / "x", capsys=capsys)
    assert (code, errors) == (
        2, "error: Prediction of images is not supported for volumes. Name NIfTI volumes.\n"
    )  # fmt: skip


def test_it_learns(tmp_path):
    """Bright blocks in noise whose front is one class and whose back another, which mirrored patches would not tell."""
    write_cases(tmp_path / "raw", 9)
    dataset = pack(inspect(tmp_path / "raw", how=HOW).divided(0.34), tmp_path / "data")
    chosen = apply(learn_volumes(dataset, steps=100, evaluate_every=100, save_every=100), ["augment.flip=0"])
    folder, _ = train(chosen, tmp_path / "runs")
    parts = open_experiment(learn_volumes(dataset))
    lines = (folder.path / "metrics.jsonl").read_text().splitlines()

    assert isinstance(parts.task, Volumes)
    assert '"mean_dice"' in lines[-1]
    score = float(lines[-1].split('"mean_dice":')[1].split(",")[0].rstrip("}"))
    assert score > 0.6


def test_each_split_is_evaluated_at_its_own_size(tmp_path):
    for number, (split, shape) in enumerate((("train", (12, 15, 9)), ("val", (14, 11, 13)))):
        voxels, labels = volume_scene(number, shape)
        write_volume(tmp_path / f"raw/images/{split}/c.nii.gz", stored(voxels, "RAS"))
        write_volume(tmp_path / f"raw/labels/{split}/c.nii.gz", stored(labels, "RAS"))
    dataset = pack(inspect(tmp_path / "raw", how=HOW), tmp_path / "data")
    parts = open_experiment(learn_volumes(dataset))

    assert parts.evaluation("train")[0].canvas == (9, 15, 12)
    assert parts.evaluation("val")[0].canvas == (13, 11, 14)


class TestMistakes:
    def test_a_record_without_slices(self):
        record, _, _ = volume_record()
        wrong = Record("shard#0", encode_segmentation(SegmentationRecord(*images(record), "v", "png", 30, 4, 7)))
        with pytest.raises(SchemaError) as caught:
            read_slices(wrong, 1, LabelSet(3, 255))

        assert str(caught.value) == (
            "shard#0: expected a volume: image/slices slices below one another, found 7 slices in 30 rows. Pack the dataset "
            "again, with --task volumes."
        )

    def test_a_patch_that_does_not_divide(self):
        with pytest.raises(RecipeError) as caught:
            build_volume_network("unet3d", 2, 1, (20, 96, 8))

        assert str(caught.value) == (
            "augment.slices and augment.crop: expected multiples of 8, of 16 at least, found 20 x 96 x 8. Use --set "
            "augment.slices=16 --crop 96 16."
        )

    def test_an_unknown_network(self):
        with pytest.raises(RecipeError, match=r"expected a network for volumes, found unet. Did you mean unet3d\?"):
            build_volume_network("unet", 2, 1, (16, 16, 16))

    def test_augmentation_that_volumes_do_not_have(self, whole_volumes):
        chosen = apply(learn_volumes(whole_volumes), ["augment.rotate=10", "augment.view.scale=[1, 2]"])
        with pytest.raises(RecipeError) as caught:
            _ = open_experiment(chosen).task

        assert str(caught.value) == (
            "Augmentation beyond crop, slices and flip is not supported for volumes. Remove augment.view, augment.rotate."
        )

    def test_weights_of_others(self, whole_volumes):
        with pytest.raises(RecipeError) as caught:
            _ = open_experiment(apply(learn_volumes(whole_volumes), ['model.weights="pretrained"'])).task

        assert str(caught.value) == ("A pretrained backbone is not supported for volumes. Remove model.weights.")

    def test_several_looks(self, whole_volumes, tmp_path):
        folder, _ = train(learn_volumes(whole_volumes, steps=1), tmp_path)
        with pytest.raises(RecipeError) as caught:
            load_model(folder.path, device="cpu").with_tta(TestTimeAugmentation((1.0,), flip=True))

        assert str(caught.value) == ("Test-time augmentation is not supported for volumes. Remove --flip.")

    def test_a_folder_of_images(self, raw):
        with pytest.raises(DatasetError, match="expected the layout nifti-volumes"):
            inspect(raw, how=HOW)


def images(record):
    fields = decode_segmentation(record)
    return fields.image, fields.mask

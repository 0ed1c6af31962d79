"""Whole volumes: patches of three dimensions, trained, resumed, scored case by case, and written back."""

from __future__ import annotations

import csv
import dataclasses

import msgspec
import numpy as np
import pytest
import torch
from test_cli import call
from test_packing import records
from test_volumes import brats, cases, scene, stored, write
from training import Stop, state

from penstock import seeds
from penstock.assembly import open_parts
from penstock.config import Data, apply, default_recipe
from penstock.datasets import About, FolderDataset, How, inspect, pack
from penstock.errors import DatasetError, ImageError, LabelError, RecipeError, SchemaError
from penstock.images.codecs import encode_mask, encode_png
from penstock.images.volumes import Volume, read_labels, read_volume
from penstock.inference import load_model
from penstock.kinds.labels import LabelSet
from penstock.metrics import Cases, dice
from penstock.models import TestTimeAugmentation, build_volume_network
from penstock.records.schema import SegmentationRecord, decode_segmentation, encode_segmentation
from penstock.tasks import Augment, PrepareVolume, Volumes
from penstock.tasks.volumes import read_slices
from penstock.training import resume, train
from penstock.values import Record

nibabel = pytest.importorskip("nibabel")
HOW = How("nifti-volumes")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Nine volumes of 12 x 15 x 9, three of them to validate."""
    root = tmp_path_factory.mktemp("whole")
    cases(root / "raw", 9)
    return pack(inspect(root / "raw", how=HOW).divided(0.34), root / "data")


def learning(dataset, **changes):
    begin = dataclasses.replace(default_recipe("volumes"), seed=3, data=Data(str(dataset.folder)))
    settings = {"steps": 4, "evaluate_every": 2, "save_every": 1, "log_origins": "true", **changes}
    words = [f"train.{name}={value}" for name, value in settings.items()]
    return apply(begin, [*words, "augment.crop=[16, 16]", "augment.slices=16", 'train.device="cpu"'])


def test_records_hold_the_voxels_and_labels_of_their_cases(whole):
    description = whole.description
    train, val = (description.splits[name] for name in ("train", "val"))
    found = {record.origin: read_slices(record, 1, LabelSet(3, 255)) for record in records(whole, "train")}
    names = {name for name in ("train", "val") for _ in records(whole, name)}

    assert (description.task, description.channels, train.records, val.records) == ("volumes", 1, 6, 3)
    assert (train.slices, train.height, train.width) == (9, 15, 12)
    assert names == {"train", "val"}
    voxels = {record: array.tobytes() for record, (array, _) in found.items()}
    raw = whole.folder.parent / "raw"
    for number in range(9):
        volume = read_volume([raw / f"images/case_{number:02d}.nii.gz"])
        labels = read_labels(raw / f"labels/case_{number:02d}.nii.gz", volume)
        matches = [origin for origin, data in voxels.items() if data == volume.images(1).tobytes()]
        for origin in matches:
            assert (found[origin][1] == volume.masks(labels)).all()
    assert len(set(voxels.values())) == 6


def volume_record(slices=6, height=5, width=4, channels=1, seed=0):
    draw = np.random.default_rng(seed)
    voxels = draw.integers(1, 256, (slices, height, width, channels), np.uint8)
    ids = draw.integers(0, 3, (slices, height, width), np.uint8)
    image = encode_png(voxels.reshape(-1, width, channels))
    fields = SegmentationRecord(image, encode_mask(ids.reshape(-1, width)), "v", "png", slices * height, width, slices)
    return Record("shard#0", encode_segmentation(fields)), voxels, ids


def empty(prepare):
    return {name: np.full(field.shape, 99, field.dtype) for name, field in prepare.fields.items()}


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_every_patch_is_a_window_of_the_volume_perhaps_mirrored(channels):
    record, voxels, ids = volume_record(8, 7, 9, channels)
    prepare = PrepareVolume(3, 255, channels, (4, 4, 4), 0.5)
    starts, flips = set(), set()
    for position in range(300):
        out = empty(prepare)
        prepare(record, seeds.generator(0, "augment", position), out)
        match = [
            (z, y, x, axes)
            for z in range(5) for y in range(4) for x in range(6) for axes in AXES
            if (np.flip(ids[z : z + 4, y : y + 4, x : x + 4], axes) == out["mask"]).all()
        ]  # fmt: skip
        assert match
        z, y, x, axes = match[0]
        assert (np.flip(voxels[z : z + 4, y : y + 4, x : x + 4], axes) == out["image"]).all()
        starts.add((z, y, x))
        flips.add(axes)
    assert len(flips) == 8
    assert len(starts) > 60


AXES = [tuple(axis for axis in range(3) if bits >> axis & 1) for bits in range(8)]


def test_a_third_of_the_patches_are_around_labelled_voxels():
    shape = (40, 40, 40)
    ids = np.zeros(shape, np.uint8)
    ids[3, 35, 20] = 1
    record, _, _ = with_labels(ids)
    prepare = PrepareVolume(2, 255, 1, (16, 16, 16), 0.0)
    held = 0
    for position in range(300):
        out = empty(prepare)
        prepare(record, seeds.generator(1, "augment", position), out)
        held += bool((out["mask"] == 1).any())

    by_chance = (4 / 25) * (5 / 25) * (16 / 25)  # of the corners that hold it
    assert held / 300 == pytest.approx(1 / 3 + 2 / 3 * by_chance, abs=0.08)


def with_labels(ids):
    voxels = np.random.default_rng(0).integers(0, 256, (*ids.shape, 1), np.uint8)
    data = encode_png(voxels.reshape(-1, ids.shape[2], 1)), encode_mask(ids.reshape(-1, ids.shape[2]))
    height = ids.shape[0] * ids.shape[1]
    fields = SegmentationRecord(*data, "v", "png", height, ids.shape[2], ids.shape[0])
    return Record("shard#0", encode_segmentation(fields)), voxels, ids


@pytest.mark.parametrize("size", [(16, 16, 16), (2, 16, 3)])
def test_a_volume_smaller_than_the_patch_lies_whole_inside_it(size):
    record, voxels, ids = volume_record()
    prepare = PrepareVolume(3, 255, 1, size, 0.0)
    corners = set()
    for position in range(40):
        out = empty(prepare)
        prepare(record, seeds.generator(0, "augment", position), out)
        inside = out["mask"] != 255
        sides = tuple(min(have, fits) for have, fits in zip(ids.shape, size, strict=True))
        assert inside.sum() == np.prod(sides)
        assert not out["image"][~inside].any()
        block = out["mask"][inside].reshape(sides)
        windows = [
            tuple(slice(at, at + side) for at, side in zip((z, 0, x), sides, strict=True))
            for z in range(ids.shape[0] - sides[0] + 1)
            for x in range(ids.shape[2] - sides[2] + 1)
        ]
        (window,) = [window for window in windows if (ids[window] == block).all()]
        assert (out["image"][inside].reshape(*sides, 1) == voxels[window]).all()
        corners.add(tuple(int(axis.min()) for axis in np.nonzero(inside)))
    assert len(corners) > 3 or size == (2, 16, 3)


def test_evaluation_shows_the_whole_volume():
    record, voxels, ids = volume_record()
    prepare = PrepareVolume(3, 255, 1, (8, 8, 8))
    out = empty(prepare)
    prepare(record, None, out)

    assert (out["image"][:6, :5, :4] == voxels).all()
    assert (out["mask"][:6, :5, :4] == ids).all()
    assert (out["mask"] == 255).sum() == 8**3 - ids.size
    with pytest.raises(LabelError, match="expected a volume of at most 4 x 8 x 8"):
        PrepareVolume(3, 255, 1, (4, 8, 8))(record, None, empty(PrepareVolume(3, 255, 1, (4, 8, 8))))


def test_stopped_at_every_step_it_ends_as_if_it_had_not_been(whole, tmp_path):
    chosen = learning(whole)
    undisturbed, _ = train(chosen, tmp_path / "whole")
    for step in range(1, 4):
        folder, _ = train(chosen, tmp_path / f"{step}", hooks=[Stop(step)])
        resume(folder.path)
        assert state(folder.path) == state(undisturbed.path)


def test_dice_is_that_of_the_volumes_themselves():
    draw = torch.Generator().manual_seed(0)
    predicted, target = (torch.randint(0, 4, (5, 3, 6, 7), generator=draw) for _ in range(2))
    target[0][target[0] == 2] = 0
    predicted[0][predicted[0] == 2] = 0
    cases_ = Cases(("background", "a", "b", "c"), 255)
    cases_.update(predicted[:2], target[:2], ["0", "1"])
    cases_.update(predicted[2:], target[2:], ["2", "3", ""])
    scores = cases_.scores()
    expected = {str(i): dice(predicted[i].numpy(), target[i].numpy(), 4) for i in range(4)}

    assert scores.dice == expected
    assert scores.dice["0"][1] is None
    assert scores.means[1] == pytest.approx(np.mean([expected[str(i)][1] for i in range(1, 4)]))
    assert scores.summary()["mean_dice"] == pytest.approx(np.mean(scores.means))


def test_ranks_put_their_cases_together():
    draw = torch.Generator().manual_seed(0)
    predicted, target = (torch.randint(0, 3, (4, 2, 3, 3), generator=draw) for _ in range(2))
    alone, parts = Cases(("a", "b", "c"), 255), [Cases(("a", "b", "c"), 255) for _ in range(2)]
    alone.update(predicted, target, list("wxyz"))
    parts[0].update(predicted[::2], target[::2], list("wy"))
    parts[1].update(predicted[1::2], target[1::2], list("xz"))
    parts[0].take([line for part in parts for line in part.lines()])

    assert parts[0].scores() == alone.scores()


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
        answer = nibabel.load(tmp_path / f"out/c{number}.nii.gz")
        assert (answer.affine == like.affine).all()
        expected = dice(np.asarray(answer.dataobj), np.asarray(like.dataobj), 3)
        shown = [None if not cell else float(cell) for cell in list(rows[f"c{number}"].values())[1:]]
        assert shown == pytest.approx(expected, abs=1e-6)
    assert trained.parts.task.main_score == "mean_dice"
    code, out, errors = call("predict", run, tmp_path / "sheet.png", "-o", tmp_path / "x", capsys=capsys)
    assert (code, errors) == (
        2, "error: Prediction of images is not supported for volumes. Name NIfTI volumes.\n"
    )  # fmt: skip


def test_it_learns(tmp_path):
    """Bright blocks in noise whose front is one class and whose back another, which mirrored patches would not tell."""
    cases(tmp_path / "raw", 9)
    dataset = pack(inspect(tmp_path / "raw", how=HOW).divided(0.34), tmp_path / "data")
    chosen = apply(learning(dataset, steps=100, evaluate_every=100, save_every=100), ["augment.flip=0"])
    folder, _ = train(chosen, tmp_path / "runs")
    parts = open_parts(learning(dataset))
    lines = (folder.path / "metrics.jsonl").read_text().splitlines()

    assert isinstance(parts.task, Volumes)
    assert '"mean_dice"' in lines[-1]
    score = float(lines[-1].split('"mean_dice":')[1].split(",")[0].rstrip("}"))
    assert score > 0.6


def test_each_split_is_evaluated_at_its_own_size(tmp_path):
    for number, (split, shape) in enumerate((("train", (12, 15, 9)), ("val", (14, 11, 13)))):
        voxels, labels = scene(number, shape)
        write(tmp_path / f"raw/images/{split}/c.nii.gz", stored(voxels, "RAS"))
        write(tmp_path / f"raw/labels/{split}/c.nii.gz", stored(labels, "RAS"))
    dataset = pack(inspect(tmp_path / "raw", how=HOW), tmp_path / "data")
    parts = open_parts(learning(dataset))

    assert parts.evaluation("train")[0].canvas == (9, 15, 12)
    assert parts.evaluation("val")[0].canvas == (13, 11, 14)


def test_a_topic_says_what_its_volumes_are():
    about = About("segmentation", ("a", "b"), channels=1, slices=3)

    assert msgspec.json.decode(about.encoded(), type=About) == about
    assert b"slices" not in About("segmentation", ("a", "b")).encoded()
    assert b"original" not in About("segmentation", ("a", "b")).encoded()


class TestMistakes:
    def test_one_file_of_a_case_with_more(self, whole):
        task = dataclasses.replace(open_parts(learning(whole)).task, channels=3)
        volume = Volume("c_0000.nii.gz", scene()[0][np.newaxis], np.eye(4))
        with pytest.raises(ImageError) as caught:
            task.predict_volume(task.model(), volume, device=torch.device("cpu"))

        assert str(caught.value) == (
            "c_0000.nii.gz: expected the two or three modalities that the run learnt, found one. Name the folder of the "
            "case's files, or one file with all of them."
        )

    def test_the_same_volume_in_two_splits(self, tmp_path):
        voxels, labels = scene()
        for split in ("train", "val"):
            write(tmp_path / f"images/{split}/c_{split}.nii.gz", stored(voxels, "RAS"))
            write(tmp_path / f"labels/{split}/c_{split}.nii.gz", stored(labels, "RAS"))

        assert [problem.kind for problem in inspect(tmp_path, how=HOW).fatal] == ["duplicate across splits"]

    def test_a_record_without_slices(self):
        record, _, _ = volume_record()
        wrong = Record("shard#0", encode_segmentation(SegmentationRecord(*images(record), "v", "png", 30, 4, 7)))
        with pytest.raises(SchemaError) as caught:
            read_slices(wrong, 1, LabelSet(3, 255))

        assert str(caught.value) == (
            "shard#0: expected a volume: image/slices slices below one another, found 7 slices in 30 rows. Pack the dataset "
            "again, with --layout nifti-volumes."
        )

    def test_a_patch_that_does_not_divide(self):
        with pytest.raises(RecipeError) as caught:
            build_volume_network("unet3d", 2, 1, (20, 96, 8))

        assert str(caught.value) == (
            "augment.slices and augment.crop: expected sides that divide by 8, of 16 at least, found 20 x 96 x 8. Use --set "
            "augment.slices=16 --crop 96 16."
        )

    def test_an_unknown_network(self):
        with pytest.raises(RecipeError, match=r"expected a network for volumes, found unet. Did you mean unet3d\?"):
            build_volume_network("unet", 2, 1, (16, 16, 16))

    def test_augmentation_that_volumes_do_not_have(self, whole):
        chosen = apply(learning(whole), ["augment.rotate=10", "augment.scale=[1, 2]"])
        with pytest.raises(RecipeError) as caught:
            _ = open_parts(chosen).task

        assert str(caught.value) == (
            "Augmentation beyond crop, slices and flip is not supported for volumes. Remove augment.scale, augment.rotate."
        )

    def test_weights_of_others(self, whole):
        with pytest.raises(RecipeError) as caught:
            _ = open_parts(apply(learning(whole), ['model.weights="pretrained"'])).task

        assert str(caught.value) == ("A pretrained backbone is not supported for volumes. Remove model.weights.")

    def test_several_looks(self, whole, tmp_path):
        folder, _ = train(learning(whole, steps=1), tmp_path)
        with pytest.raises(RecipeError) as caught:
            load_model(folder.path, device="cpu").with_tta(TestTimeAugmentation((1.0,), flip=True))

        assert str(caught.value) == ("Test-time augmentation is not supported for volumes. Remove --flip.")

    def test_a_folder_of_pictures(self, raw):
        with pytest.raises(DatasetError, match="expected the layout nifti-volumes"):
            inspect(raw, how=HOW)


def images(record):
    fields = decode_segmentation(record)
    return fields.image, fields.mask

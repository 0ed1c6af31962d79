from __future__ import annotations

import csv
import dataclasses
import json
import shutil

import cv2
import numpy as np
import pytest
from support.commands import call
from support.training import recipe

import penstock as ps
from penstock.datasets import FolderDataset, inspect, pack, scenes
from penstock.runs.comparing import compare
from penstock.training import train


@pytest.fixture(scope="module")
def run(packed, tmp_path_factory):
    return train(recipe(packed.folder, wide=True, steps=4), tmp_path_factory.mktemp("runs"))[0].path


def test_through_the_command_line(run, raw, tmp_path, capsys):
    for words in ([], ["--flip"], ["--scales", 0.5, 1, "--flip"]):
        code, _, err = call("evaluate", run, *words, "--images", 1, capsys=capsys)
        assert code == 0, err
    names = sorted(path.name for path in (run / "evaluations").glob("val-*"))
    step = (run / "checkpoints" / "best").resolve().name.partition("-")[2]
    stems = [f"val-{step}-x0.5,1-flip", f"val-{step}-x1-flip", f"val-{step}"]
    assert names == [f"{stem}.{ending}" for stem in stems for ending in ("csv", "json")]
    names = [f"{stem}.json" for stem in stems]
    views = json.loads((run / "evaluations" / names[0]).read_text())["tta"]
    assert views == {"scales": [0.5, 1.0], "flip": True, "shift": 0}
    losses = [json.loads((run / "evaluations" / name).read_text())["loss"] for name in names]
    assert len(set(losses)) == 3
    image = next((raw / "images" / "val").iterdir())
    for number, words in enumerate(([], ["--scales", 0.5, 1, "--flip"], ["--sliding-window", 32, "--flip"])):
        code, _, err = call("predict", run, image, "-o", tmp_path / str(number), *words, capsys=capsys)
        assert code == 0, err
    assert call("evaluate", run, "--shift", 1, capsys=capsys) == (
        2,
        "",
        "error: Test-time augmentation by shifts is not supported for segmentation. Remove --shift.\n",
    )
    for scales in ([0], [1, 9], [1, "nan"], []):
        code, _, err = call("evaluate", run, "--scales", *scales, capsys=capsys)
        assert code == 2, scales
        assert "expected sizes above 0 and up to 8, found" in err


def test_a_run_predicts_without_its_dataset_and_is_scored_where_that_is_now(packed, raw, tmp_path, capsys):
    data, moved = tmp_path / "data", tmp_path / "elsewhere"
    shutil.copytree(packed.folder, data)
    run = train(recipe(data, wide=True, steps=2), tmp_path / "runs")[0].path
    image = next((raw / "images" / "val").iterdir())
    assert call("predict", run, image, "-o", tmp_path / "before", capsys=capsys)[0] == 0
    data.rename(moved)
    assert call("predict", run, image, "-o", tmp_path / "after", capsys=capsys)[0] == 0
    written = [
        sorted((path.name, path.read_bytes()) for path in (tmp_path / when).iterdir()) for when in ("before", "after")
    ]
    away = (
        2,
        "",
        f"error: {data}: expected the dataset that the run was started with, found no such folder. Say where it is now: "
        "evaluate and replay take --data DIR, train takes --set data.path=DIR.\n",
    )

    assert written[0] == written[1]
    for words in (["evaluate", run], ["replay", run, "--step", 1], ["train", "--resume", run]):
        assert call(*words, capsys=capsys) == away
    assert call("evaluate", run, "--data", moved, "--images", 1, capsys=capsys)[0] == 0
    assert call("replay", run, "--step", 1, "--data", moved, capsys=capsys)[0] == 0
    assert call("train", "--resume", run, "--steps", 3, "--set", f"data.path={moved}", capsys=capsys)[0] == 0
    assert call("evaluate", run, "--images", 1, capsys=capsys)[0] == 0


def test_evaluate_scores_the_checkpoint_that_is_named(packed, tmp_path, capsys):
    folder, _ = train(recipe(packed.folder, wide=True, steps=3, keep=9, save_every=1, evaluate_every=2), tmp_path)
    losses = set()
    for step in (1, 2, 3):
        words = ["evaluate", folder.path, "--checkpoint", f"step-{step:08d}", "--images", 0]
        code, out, _ = call(*words, capsys=capsys)
        assert (code, f"val, with the weights of step {step}: loss" in out) == (0, True)
        losses.add(json.loads((folder.path / "evaluations" / f"val-{step:08d}.json").read_text())["loss"])

    assert len(losses) == 3


def test_evaluate_prints_them(packed, tmp_path, capsys):
    words = ["--model", "unet:test_resnet", "--weights", "none", "--batch", 4, "--crop", 32, 32, "--steps", 2]
    call("train", packed.folder, *words, "--runs", tmp_path, capsys=capsys)
    (run,) = tmp_path.iterdir()
    code, out, _ = call("evaluate", run, "--segments", capsys=capsys)

    assert code == 0
    assert ["class", "bound.", "panopt.", "cover."] in [line.split() for line in out.splitlines()]


def test_evaluate_scores_as_training_did(trained, capsys):
    import json

    code, out, _ = call("evaluate", trained, "--checkpoint", "last", capsys=capsys)
    during = json.loads((trained / "evaluations" / "step-00000004.json").read_text())
    after = json.loads((trained / "evaluations" / "val-00000004.json").read_text())

    assert code == 0
    assert "mean IoU" in out
    assert after["confusion"] == during["confusion"]
    assert after["loss"] == during["loss"]
    page = (trained / "report.html").read_text()
    assert page.count("data:image/webp;base64,") >= 2
    assert "ground" in page


def test_an_evaluation_says_what_the_model_costs_and_takes_any_split(packed, tmp_path, capsys):
    folder, _ = train(recipe(packed.folder, steps=2), tmp_path)
    code, out, _ = call("evaluate", folder.path, "--split", "train", capsys=capsys)

    assert code == 0
    assert " parameters, " in out.splitlines()[-4]
    assert "GFLOPs for a sample of " in out.splitlines()[-4]
    assert next((folder.path / "evaluations").glob("train-*.json")).is_file()


@pytest.fixture(scope="module")
def datasets(tmp_path_factory):
    """The same images to evaluate on, and others to learn from, so that the channels have another mean."""
    root = tmp_path_factory.mktemp("on")
    scenes.write_folder(root / "raw", {"train": 6, "val": 4}, (48, 64), seed=1)
    shutil.copytree(root / "raw", root / "darker")
    for image in (root / "darker/images/train").iterdir():
        cv2.imwrite(str(image), cv2.imread(str(image)) // 4)
    packed = {name: pack(inspect(root / name), root / f"{name}-packed") for name in ("raw", "darker")}
    assert packed["raw"].description.mean != packed["darker"].description.mean
    return packed


@pytest.fixture(scope="module")
def two_runs(datasets, tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    return [train(recipe(data.folder, steps=2), root)[0].path for data in datasets.values()]


def test_images_that_a_run_was_trained_on_are_named(datasets, two_runs, tmp_path, capsys):
    runs = [shutil.copytree(run, tmp_path / run.name, symlinks=True) for run in two_runs]
    said = "the run was trained on 6 of the 6 images of train: scores on them say little of other images"
    place = f"{datasets['raw'].folder}:train"
    code, out, _ = call("evaluate", *runs, "--on", place, "--images", 0, capsys=capsys)
    assert (code, out.count(f"note: {said}")) == (0, 1)
    assert f"<p>Note: {said}.</p>" in ps.Run(runs[0]).report().read_text()


def test_a_run_scores_on_the_same_images_in_other_data_as_on_its_own(datasets, two_runs, capsys):
    (own, other), folder = two_runs, datasets["darker"].folder
    code, out, _ = call("evaluate", own, other, "--on", f"{folder}:val", "--images", 0, capsys=capsys)
    assert (code, out.count("mean IoU")) == (0, 2)
    found = compare([own, other])
    where = f"{folder} ({datasets['darker'].description.content[:8]}), val"

    assert found.common[f"mean_iou on {where}"] == found.scores["mean_iou"]
    assert found.scores["mean_iou"] == tuple(ps.Run(run).best["mean_iou"] for run in two_runs)
    assert any(line.startswith("scores on the same data") for line in found.lines())
    (paired,) = [each for each in found.paired if each.place == where]
    assert (paired.runs, paired.images) == ((own.name, other.name), 4)
    gains = [
        after - before for before, after in zip(*(image_scores(run, "*-on-*.csv") for run in two_runs), strict=True)
    ]
    assert paired.mean == pytest.approx(sum(gains) / 4, abs=1e-5)
    assert found.lines()[-1] == str(paired)


def image_scores(run, pattern):
    (path,) = (run / "evaluations").glob(pattern)
    return [float(row["mean_iou"]) for row in csv.DictReader(path.read_text().splitlines())]


def test_classes_are_matched_by_name(datasets, two_runs, tmp_path, capsys):
    """In data whose ids are others, and one class is called something else, which then counts as ignored pixels do."""
    names = datasets["raw"].description.classes
    for folder, ids in (("named", [2, 0, 5, 1, 3, 4]), ("ignored", [0, 1, 2, 255, 4, 5])):
        shutil.copytree(datasets["raw"].folder.parent / "raw", tmp_path / folder)
        for mask in (tmp_path / folder / "masks").rglob("*.png"):
            cv2.imwrite(str(mask), np.array(ids, np.uint8)[cv2.imread(str(mask), cv2.IMREAD_UNCHANGED)])
    named = [
        name if name != names[3] else "a new one" for name in np.array(names)[np.argsort([2, 0, 5, 1, 3, 4])].tolist()
    ]
    ps.pack(tmp_path / "named", tmp_path / "by-name", classes=named)
    ps.pack(tmp_path / "ignored", tmp_path / "by-id", classes=names)
    code, out, _ = call("evaluate", two_runs[0], "--on", f"{tmp_path / 'by-name'}:val", "--images", 0, capsys=capsys)
    by_name, by_id = (ps.Run(two_runs[0]).evaluate("val", on=tmp_path / folder) for folder in ("by-name", "by-id"))

    assert code == 0
    assert out.splitlines()[1:3] == [
        "note: classes not learnt, so that they do not count: a new one",
        f"note: classes learnt, but not in this data: {names[3]}",
    ]
    assert (by_name.scores.as_json(), by_name.loss, by_id.notes) == (by_id.scores.as_json(), by_id.loss, ())
    kept = json.loads(
        next((two_runs[0] / "evaluations").glob(f"*on-{described(tmp_path / 'by-name').content[:8]}.json")).read_text()
    )
    assert kept["notes"] == list(by_name.notes)


def described(folder):
    return FolderDataset.open(folder).description


def test_data_without_a_class_of_the_run_is_refused(datasets, two_runs, tmp_path, capsys):
    folder, names = datasets["darker"].folder, datasets["darker"].description.classes
    shutil.copytree(folder, tmp_path / "other")
    changed = dataclasses.replace(described(folder), classes=tuple("abcdef"), content="")
    FolderDataset(tmp_path / "other", dataclasses.replace(changed, content=changed.digest())).save()
    assert call("evaluate", two_runs[0], "--on", tmp_path / "other", capsys=capsys)[::2] == (
        2,
        f"error: {tmp_path / 'other'}: classes: expected some of those that {two_runs[0]} learnt ({', '.join(names)}), found a, "
        "b, c, d, e, f. Pack the data with the names of the run's classes.\n",
    )


def test_data_of_other_channels_and_data_beside_it_are_refused(datasets, two_runs, tmp_path, capsys):
    described = datasets["darker"].description
    shutil.copytree(datasets["darker"].folder, tmp_path / "gray")
    changed = dataclasses.replace(described, channels=1, mean=described.mean[:1], std=described.std[:1], content="")
    FolderDataset(tmp_path / "gray", dataclasses.replace(changed, content=changed.digest())).save()
    assert call("evaluate", two_runs[0], "--on", tmp_path / "gray", capsys=capsys)[2] == (
        f"error: {tmp_path / 'gray'}: channels: expected 3, as {two_runs[0]} learnt, found 1. Choose a dataset that was "
        "packed in the same way.\n"
    )
    assert call("evaluate", two_runs[0], "--on", "x:test", "--split", "val", capsys=capsys)[2] == (
        "error: --on x:test names the split test, and --split val. Leave one of them out.\n"
    )
    assert call("evaluate", two_runs[0], "--on", "x", "--data", "y", capsys=capsys)[2] == (
        "error: --on takes the place of the run's data. Remove --data.\n"
    )

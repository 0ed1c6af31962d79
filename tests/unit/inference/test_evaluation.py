from __future__ import annotations

import csv
import dataclasses
import json

import cv2
import numpy as np
import pytest
import torch
from support.commands import call
from support.shaking import Shakes, make_image, normalised, probabilities
from support.training import Stop, recipe

import penstock as ps
from penstock.config import apply
from penstock.datasets import inspect, pack, scenes
from penstock.errors import RecipeError
from penstock.inference import load_model
from penstock.session import CheckpointStore, Hook
from penstock.training import resume, train


class TestScores:
    def test_the_file_says_what_its_confusion_says(self, shaken_run):
        found = json.loads((shaken_run / "evaluations/step-00000002.json").read_text())
        matrix = np.array(found["confusion"], float)
        hit, true, said = matrix.diagonal(), matrix.sum(axis=1), matrix.sum(axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            columns = {
                "iou": hit / (true + said - hit),
                "recall": hit / true,
                "precision": hit / said,
                "f_score": 2 * hit / (true + said),
            }
        for name, values in columns.items():
            expected = [None if np.isnan(value) else pytest.approx(value) for value in values]
            assert [row[name] for row in found["classes"]] == expected, name
        assert found["absent"] == [row["name"] for row in found["classes"] if row["iou"] is None]
        assert len({str(values) for values in columns.values()}) == 4

    def test_segments_of_images_of_several_sizes(self, tmp_path, capsys):
        """The largest image is in another split than the one that is learnt, and not its first."""
        scenes.write_folder(tmp_path / "raw", {"train": 4, "val": 1}, (48, 48))
        for number, size in enumerate(((32, 40), (64, 96)), 1):
            image, mask = scenes.encode(scenes.draw(1, "val", number, size))
            (tmp_path / f"raw/images/val/scene-{number:05d}.jpg").write_bytes(image)
            (tmp_path / f"raw/masks/val/scene-{number:05d}.png").write_bytes(mask)
        dataset = pack(inspect(tmp_path / "raw"), tmp_path / "data")
        run = train(recipe(dataset.folder, steps=2, ema_decay=0.0), tmp_path / "runs", hooks=[Shakes()])[0].path
        code, _, _ = call("evaluate", run, "--checkpoint", "last", "--segments", "--images", 0, capsys=capsys)
        found = json.loads((run / "evaluations/val-00000002.json").read_text())

        assert code == 0
        assert (dataset.split("val").height, dataset.split("val").width) == (64, 96)
        assert sum(map(sum, found["confusion"])) == 48 * 48 + 32 * 40 + 64 * 96
        task, model = normalised(run)
        counts = np.zeros((6, 7))
        for path in sorted((tmp_path / "raw/masks/val").iterdir()):
            true = cv2.imread(str(path), cv2.IMREAD_UNCHANGED)
            padded = torch.full((1, 64, 96, 3), 128, dtype=torch.uint8)
            seen = make_image(tmp_path / f"raw/images/val/{path.stem}.jpg")
            padded[:, : true.shape[0], : true.shape[1]] = seen
            prediction = probabilities(task, model, padded)[0].argmax(dim=0).numpy()[: true.shape[0], : true.shape[1]]
            counts += counted(prediction, true)
        both, either, overlaps, matched, unmatched, area, covered = counts.T
        with np.errstate(invalid="ignore", divide="ignore"):
            columns = {
                "boundary_iou": both / either,
                "panoptic_quality": overlaps / (matched + unmatched),
                "covering": covered / area,
            }
        for name, values in columns.items():
            expected = [None if np.isnan(value) else pytest.approx(value, abs=1e-6) for value in values]
            assert [row[name] for row in found["segments"]] == expected, name
            assert found[name] == pytest.approx(np.nanmean(values), abs=1e-6), name
        assert len({round(found[name], 9) for name in columns}) == 3

    def test_another_split_is_scored_on_its_own_images(self, shaken_run, raw, capsys):
        assert call("evaluate", shaken_run, "--split", "train", "--images", 0, capsys=capsys)[0] == 0
        (path,) = (shaken_run / "evaluations").glob("train-*.json")
        found = json.loads(path.read_text())
        pixels = sum(
            np.bincount(cv2.imread(str(mask), cv2.IMREAD_UNCHANGED).ravel(), minlength=6)[:6]
            for mask in (raw / "masks/train").iterdir()
        )

        assert np.array(found["confusion"]).sum(axis=1).tolist() == pixels.tolist()

    def test_the_precision_of_the_training_is_that_of_its_predictions(self, packed, raw, tmp_path, capsys):
        chosen = recipe(packed.folder, steps=2, ema_decay=0.0, precision="bfloat16")
        run = train(chosen, tmp_path / "runs", hooks=[Shakes()])[0].path
        assert call("evaluate", run, "--checkpoint", "last", "--images", 0, capsys=capsys)[0] == 0
        during = json.loads((run / "evaluations/step-00000002.json").read_text())
        after = json.loads((run / "evaluations/val-00000002.json").read_text())
        words = ["--checkpoint", "last", "-o", tmp_path / "out"]
        assert call("predict", run, raw / "images/val", *words, capsys=capsys)[0] == 0

        assert (after["loss"], after["confusion"]) == (during["loss"], during["confusion"])
        trained = load_model(run, "last", "cpu")
        task, model = trained.parts.task, trained.model
        differs = False
        for path in sorted((raw / "images/val").iterdir()):
            with torch.autocast("cpu", torch.bfloat16):
                coarse = probabilities(task, model, make_image(path))[0].argmax(dim=0).numpy()
            fine = probabilities(task, model, make_image(path))[0].argmax(dim=0).numpy()
            found = cv2.imread(str(tmp_path / f"out/{path.stem}.png"), cv2.IMREAD_UNCHANGED)
            assert (found == coarse).all()
            differs |= bool((coarse != fine).any())
        assert differs

    def test_the_best_is_what_predictions_where_no_other_is_named(self, shaken_run, tmp_path, raw, capsys):
        """Whichever it is: the other one is made the best here."""
        best = shaken_run / "checkpoints/best"
        was = best.readlink()
        image = next((raw / "images/val").iterdir())
        try:
            for step in (1, 2):
                best.unlink()
                best.symlink_to(f"step-{step:08d}")
                assert f"with the weights of step {step}:" in call("evaluate", shaken_run, capsys=capsys)[1]
                other = 3 - step
                words = ["--checkpoint", f"step-{other:08d}"]
                assert f"with the weights of step {other}:" in call("evaluate", shaken_run, *words, capsys=capsys)[1]
                # Step 1 both times: as the best, though not the last, and as the one that is named.
                named = [] if step == 1 else words
                out = call("export", shaken_run, "-o", tmp_path / "a.pt2", *named, capsys=capsys)[1]
                assert "exported step 1 to" in out
                assert call("predict", shaken_run, image, "-o", tmp_path / str(other), *words, capsys=capsys)[0] == 0
                trained = load_model(shaken_run, f"step-{other:08d}", "cpu")
                expected = probabilities(trained.parts.task, trained.model, make_image(image))[0].argmax(dim=0).numpy()
                found = cv2.imread(str(tmp_path / str(other) / f"{image.stem}.png"), cv2.IMREAD_UNCHANGED)
                assert (found == expected).all()
        finally:
            best.unlink()
            best.symlink_to(was)
        first, second = (
            cv2.imread(str(tmp_path / str(step) / f"{image.stem}.png"), cv2.IMREAD_UNCHANGED) for step in (1, 2)
        )
        assert (first != second).any()

    def test_the_best_is_the_one_of_the_highest_mean_iou(self, packed, tmp_path, monkeypatch):
        """And not the last one, nor that of the highest accuracy; a resume knows it still."""
        from penstock.metrics import SegmentationScores

        told = iter([(0.2, 0.5), (0.4, 0.4), (0.3, 0.6)])
        monkeypatch.setattr(
            SegmentationScores,
            "summary",
            lambda _: dict(zip(("mean_iou", "pixel_accuracy"), next(told), strict=True)),
        )
        monkeypatch.setattr(SegmentationScores, "as_json", lambda _: {})

        class Scores(Hook):
            def after_eval(self, session, scores, loss):
                marked = (session.saver.store.folder / "best").resolve().name
                seen.append((session.step, session.is_best, marked))

        seen = []
        monkeypatch.setattr("penstock.training.wiring.EvaluationFiles", lambda *_: Hook())
        monkeypatch.setattr("penstock.training.wiring.MetricsLog", lambda *_: Hook())
        monkeypatch.setattr("penstock.training.wiring.EventsLog", lambda *_: Hook())
        monkeypatch.setattr("penstock.training.wiring.TensorBoard.available", lambda: False)
        monkeypatch.setattr("penstock.hooks.console.Console.after_eval", lambda *_: None)
        chosen = recipe(packed.folder, steps=6, evaluate_every=2, save_every=9, keep=1)
        folder, _ = train(chosen, tmp_path, hooks=[Scores(), Stop(5)])
        resume(folder.path, hooks=[Scores()])

        two, four = "step-00000002", "step-00000004"
        assert seen == [(2, True, two), (4, True, four), (6, False, four)]
        assert CheckpointStore(folder.checkpoints).names() == [four, "step-00000006"]


def counted(found, true):
    """Per class: boundary pixels in both and in either; overlaps of those matched, their number, half of those that
    are not; pixels, and pixels by overlaps.
    """
    counts = np.zeros((6, 7))
    width = max(1, round(0.02 * np.hypot(*true.shape)))
    square, edge = np.ones((3, 3), np.uint8), {"borderType": cv2.BORDER_CONSTANT, "borderValue": 0}
    for label in range(6):
        a, b = found == label, true == label
        if not a.any() and not b.any():
            continue
        edges = [m & ~cv2.erode(m.astype(np.uint8), square, iterations=width, **edge).astype(bool) for m in (a, b)]
        overlap = (a & b).sum() / (a | b).sum()
        matched = overlap > 0.5
        counts[label] = [
            (edges[0] & edges[1]).sum(),
            (edges[0] | edges[1]).sum(),
            overlap * matched,
            matched,
            (not matched) * (a.any() + b.any() * 1) / 2,
            b.sum(),
            b.sum() * overlap,
        ]
    return counts


@pytest.fixture(scope="module")
def run(packed, tmp_path_factory):
    return train(recipe(packed.folder, wide=True, ema_decay=0.0, sliding_window=32), tmp_path_factory.mktemp("runs"))[
        0
    ].path


def test_training_evaluation_and_prediction_see_the_same(run, packed, raw, tmp_path, capsys):
    code, out, _ = call("evaluate", run, "--checkpoint", "last", "--images", 0, capsys=capsys)
    during = json.loads((run / "evaluations/step-00000012.json").read_text())
    after = json.loads((run / "evaluations/val-00000012-window32.json").read_text())
    assert code == 0
    assert (after["confusion"], after["loss"]) == (during["confusion"], during["loss"])
    assert after["window"] == {"side": 32, "overlap": 0.25}
    assert "val, with the weights of step 12" in out

    whole = call("evaluate", run, "--checkpoint", "last", "--sliding-window", 0, "--images", 0, capsys=capsys)[0]
    plain = json.loads((run / "evaluations/val-00000012.json").read_text())
    assert (whole, "window" in plain) == (0, False)
    assert plain["confusion"] != after["confusion"]

    words = ["--checkpoint", "last", "-o", tmp_path]
    assert call("predict", run, raw / "images/val", *words, capsys=capsys)[0] == 0
    matrix = np.zeros((6, 6), np.int64)
    for path in sorted((raw / "masks/val").glob("*.png")):
        true, found = (cv2.imread(str(each), cv2.IMREAD_UNCHANGED) for each in (path, tmp_path / path.name))
        np.add.at(matrix, (true[true != 255], found[true != 255]), 1)
    assert matrix.tolist() == after["confusion"]  # images of 64 x 96, which are no smaller than the canvas


def test_another_overlap_has_a_name_of_its_own(run, packed, capsys):
    words = ["--checkpoint", "last", "--images", 0, "--flip", "--overlap", 0.5]
    assert call("evaluate", run, *words, capsys=capsys)[0] == 0
    assert (run / "evaluations/val-00000012-x1-flip-window32-0.5.json").is_file()
    assert call("evaluate", run, *words, "--sliding-window", 0, capsys=capsys)[2] == (
        "error: --overlap has no effect without --sliding-window. Add --sliding-window SIDE.\n"
    )


def test_networks_of_one_size_are_evaluated_through_it(packed, tmp_path):
    """What sees images of its own size alone needs no whole ones."""
    chosen = recipe(packed.folder, steps=1, batch=2, sliding_window=64)
    chosen = dataclasses.replace(chosen, augment=dataclasses.replace(chosen.augment, crop=(64, 64)))
    settings = ["model.name=unet:swin_tiny_patch4_window7_224"]
    with pytest.raises(RecipeError) as caught:
        train(apply(chosen, [*settings, "augment.crop=[224, 224]", "train.sliding_window=0"]), tmp_path)
    assert str(caught.value).endswith(
        "Choose another --model, or evaluate through a window of the crop: --set train.sliding_window=224."
    )


def test_images_of_other_data_have_their_names_there(packed, tmp_path, capsys):
    """And not those that images of the run's own data have at the same places."""
    folder, _ = train(recipe(packed.folder, steps=1), tmp_path / "runs")
    scenes.write_folder(tmp_path / "raw", {"train": 3, "val": 2}, (64, 96), seed=9)
    for path in sorted((tmp_path / "raw").rglob("scene-*")):
        path.rename(path.with_name(path.name.replace("scene", "other")))
    pack(inspect(tmp_path / "raw"), tmp_path / "data")
    assert call("evaluate", folder.path, "--on", f"{tmp_path / 'data'}:val", "--images", 0, capsys=capsys)[0] == 0
    (table,) = (folder.path / "evaluations").glob("*-on-*.csv")
    rows = list(csv.reader(table.read_text().splitlines()))

    assert sorted(row[0] for row in rows[1:]) == ["other-00000", "other-00001"]


METRIC = """
import torch


class Brightness:
    def __init__(self):
        self.state = torch.zeros(2, dtype=torch.float64)

    def update(self, outputs, tensors):
        self.state += torch.tensor([float(outputs.double().abs().sum()), float(outputs.numel())], dtype=torch.float64)

    def compute(self):
        return {"size of logits": float(self.state[0] / self.state[1])}
"""


def test_custom_metrics_are_scores_of_an_evaluation_too(packed, tmp_path):
    (tmp_path / "mine.py").write_text(METRIC)
    chosen = apply(
        recipe(packed.folder, steps=2, evaluate_every=2), [f"train.metrics=['{tmp_path}/mine.py:Brightness']"]
    )
    folder, _ = train(chosen, tmp_path / "runs")
    run = ps.Run(folder.path)
    assert run.evaluate().scores.summary()["size of logits"] == pytest.approx(run.best["size of logits"], rel=1e-6)
    assert run.best["size of logits"] > 0


def test_data_with_another_ignore_label_is_scored_alike(tmp_path):
    for name, ignored in (("a", 255), ("b", 7)):
        scenes.write_folder(tmp_path / name, {"train": 4, "val": 3}, (32, 48), seed=1)
        for path in (tmp_path / name / "masks").rglob("*.png"):
            ids = cv2.imread(str(path), cv2.IMREAD_UNCHANGED)
            ids[:6] = 255
            cv2.imwrite(str(path), np.where(ids == 255, ignored, ids).astype(np.uint8))
        ps.pack(tmp_path / name, tmp_path / f"{name}-data", ignore=ignored, classes=scenes.CLASSES)
    folder, _ = train(recipe(tmp_path / "a-data", steps=2), tmp_path / "runs")
    own, other = (ps.Run(folder.path).evaluate("val", on=tmp_path / f"{name}-data") for name in "ab")
    assert own.scores.as_json() == other.scores.as_json()
    assert sum(map(sum, own.scores.as_json()["confusion"])) <= 3 * 26 * 48

"""Evaluation, prediction and the session, from what is asked to what comes out."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import importlib
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import cv2
import numpy as np
import processes
import pytest
import torch
from test_cli import call
from torch.nn import functional
from training import Stop, recipe

from penstock.assembly import open_parts
from penstock.cli.events import show
from penstock.config import apply, dump, load
from penstock.datasets import inspect, pack, scenes
from penstock.errors import NonFiniteError, SchemaError
from penstock.images import drawing, palettes
from penstock.inference import load_model
from penstock.records.example import encode
from penstock.records.schema import decode_segmentation
from penstock.runs import environment
from penstock.session import Checkpoint, CheckpointStore, Hook
from penstock.sources import FilesSource, waiting
from penstock.tasks import Segmentation
from penstock.training import resume, train
from penstock.values import Record


class Shakes(Hook):
    """Gives the last layer random weights after every step, so that every checkpoint answers with all classes, and
    otherwise than the others.
    """

    def after_step(self, session):
        weight, bias = session.model.segmentation_head[0].weight, session.model.segmentation_head[0].bias
        weight.data = torch.randn(weight.shape, generator=torch.Generator().manual_seed(session.step))
        bias.data.zero_()


@pytest.fixture(scope="module")
def run(packed, tmp_path_factory):
    """Of two steps, both evaluated and kept."""
    chosen = recipe(packed.folder, steps=2, keep=9, save_every=1, evaluate_every=1, ema_decay=0.0)
    return train(chosen, tmp_path_factory.mktemp("runs"), hooks=[Shakes()])[0].path


def normalised(run):
    """The model of a run's last step, and its task, apart from the command line."""
    trained = load_model(run, "last", "cpu")
    return trained.parts.task, trained.model


@torch.inference_mode()
def probabilities(task, model, images):
    """Of uint8 (n, h, w, 3)."""
    return model(task.inputs({"image": images})).float().softmax(dim=1)


def picture(path):
    """As `predict` reads it: uint8 (1, h, w, 3)."""
    from penstock.images.upright import read_upright

    return torch.from_numpy(read_upright(path.read_bytes(), str(path))).unsqueeze(0)


class TestScores:
    def test_the_file_says_what_its_confusion_says(self, run):
        found = json.loads((run / "evaluations/step-00000002.json").read_text())
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

    def test_segments_of_pictures_of_several_sizes(self, tmp_path, capsys):
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
            seen = picture(tmp_path / f"raw/images/val/{path.stem}.jpg")
            padded[:, : true.shape[0], : true.shape[1]] = seen
            answer = probabilities(task, model, padded)[0].argmax(dim=0).numpy()[: true.shape[0], : true.shape[1]]
            counts += counted(answer, true)
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

    def test_another_split_is_scored_on_its_own_pictures(self, run, raw, capsys):
        assert call("evaluate", run, "--split", "train", "--images", 0, capsys=capsys)[0] == 0
        (path,) = (run / "evaluations").glob("train-*.json")
        found = json.loads(path.read_text())
        pixels = sum(
            np.bincount(cv2.imread(str(mask), cv2.IMREAD_UNCHANGED).ravel(), minlength=6)[:6]
            for mask in (raw / "masks/train").iterdir()
        )

        assert np.array(found["confusion"]).sum(axis=1).tolist() == pixels.tolist()

    def test_the_precision_of_the_training_is_that_of_its_answers(self, packed, raw, tmp_path, capsys):
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
                coarse = probabilities(task, model, picture(path))[0].argmax(dim=0).numpy()
            fine = probabilities(task, model, picture(path))[0].argmax(dim=0).numpy()
            found = cv2.imread(str(tmp_path / f"out/{path.stem}.png"), cv2.IMREAD_UNCHANGED)
            assert (found == coarse).all()
            differs |= bool((coarse != fine).any())
        assert differs

    def test_the_best_is_what_answers_where_no_other_is_named(self, run, tmp_path, raw, capsys):
        """Whichever it is: the other one is made the best here."""
        best = run / "checkpoints/best"
        was = best.readlink()
        image = next((raw / "images/val").iterdir())
        try:
            for step in (1, 2):
                best.unlink()
                best.symlink_to(f"step-{step:08d}")
                assert f"with the weights of step {step}:" in call("evaluate", run, capsys=capsys)[1]
                assert f"exported step {step} to" in call("export", run, "-o", tmp_path / "a.pt2", capsys=capsys)[1]
                other = 3 - step
                words = ["--checkpoint", f"step-{other:08d}"]
                assert f"with the weights of step {other}:" in call("evaluate", run, *words, capsys=capsys)[1]
                out = call("export", run, "-o", tmp_path / "a.pt2", *words, capsys=capsys)[1]
                assert f"exported step {other} to" in out
                assert call("predict", run, image, "-o", tmp_path / str(other), *words, capsys=capsys)[0] == 0
                trained = load_model(run, f"step-{other:08d}", "cpu")
                expected = probabilities(trained.parts.task, trained.model, picture(image))[0].argmax(dim=0).numpy()
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


class TestPredict:
    def test_it_looks_several_times_where_it_is_asked_to(self, run, raw, tmp_path, capsys):
        task, model = normalised(run)
        looks = {"plain": [], "sizes": ["--scales", 0.5, 1], "mirror": ["--flip"]}
        for name, words in looks.items():
            out = ["-o", tmp_path / name, "--checkpoint", "last"]
            assert call("predict", run, raw / "images/val", *out, *words, capsys=capsys)[0] == 0
        differ = dict.fromkeys(looks, 0)
        for path in sorted((raw / "images/val").iterdir()):
            seen = task.inputs({"image": picture(path)})
            with torch.inference_mode():
                straight = model(seen).softmax(dim=1)
                mirrored = model(seen.flip(3)).softmax(dim=1).flip(3)
                half = functional.interpolate(seen, (32, 64), mode="bilinear", align_corners=False, antialias=True)
                small = functional.interpolate(
                    model(half).softmax(dim=1), (64, 96), mode="bilinear", align_corners=False
                )
            answers = {"plain": straight, "sizes": straight + small, "mirror": straight + mirrored}
            for name, answer in answers.items():
                found = cv2.imread(str(tmp_path / name / f"{path.stem}.png"), cv2.IMREAD_UNCHANGED)
                expected = answer[0].argmax(dim=0).numpy()
                assert (found != expected).mean() < 0.001, name  # rounding may decide a tie
                differ[name] += (expected != answers["plain"][0].argmax(dim=0).numpy()).mean() > 0.01
        assert all(differ[name] for name in ("sizes", "mirror"))

    @pytest.mark.parametrize("palette", ["voc", "ade20k", "cityscapes"])
    def test_masks_and_overlays_have_the_colours_that_are_named(self, run, raw, tmp_path, capsys, palette):
        image = next((raw / "images/val").iterdir())
        words = ["-o", tmp_path, "--palette", palette, "--color"]
        assert call("predict", run, image, *words, capsys=capsys)[0] == 0
        published = {
            "voc": [(0, 0, 0), (128, 0, 0), (0, 128, 0), (128, 128, 0), (0, 0, 128), (128, 0, 128)],
            "ade20k": palettes.ADE20K[:6],
            "cityscapes": palettes.CITYSCAPES[:6],
        }
        colors = np.array(published[palette], np.uint8)
        mask = cv2.imread(str(tmp_path / f"{image.stem}.png"), cv2.IMREAD_UNCHANGED)
        color = cv2.imread(str(tmp_path / f"{image.stem}-color.png"))[..., ::-1]
        overlay = cv2.imread(str(tmp_path / f"{image.stem}-overlay.png"))[..., ::-1]

        assert (color == colors[mask]).all()
        assert (overlay == drawing.overlay(picture(image)[0].numpy(), mask, colors)).all()

    def test_pictures_are_filled_up_with_the_mean(self, run, tmp_path, capsys):
        """At the right and below, to what the network takes; in windows too."""
        encoded, _ = scenes.encode(scenes.draw(4, "x", 0, (40, 71)))
        (tmp_path / "a.jpg").write_bytes(encoded)
        seen = picture(tmp_path / "a.jpg")
        task, model = normalised(run)
        for words, size in (([], (64, 96)), (["--window", 96], (96, 96))):
            out = ["-o", tmp_path / "out", "--checkpoint", "last"]
            assert call("predict", run, tmp_path / "a.jpg", *out, *words, capsys=capsys)[0] == 0
            found = cv2.imread(str(tmp_path / "out/a.png"), cv2.IMREAD_UNCHANGED)
            answers = {}
            for value in (128, 0):
                padded = torch.full((1, *size, 3), value, dtype=torch.uint8)
                padded[:, :40, :71] = seen
                answers[value] = probabilities(task, model, padded)[0].argmax(dim=0).numpy()[:40, :71]
            wrong = {value: (found != answer).mean() for value, answer in answers.items()}
            assert wrong[128] < 0.01, words  # the mean is half a step from a byte
            assert wrong[0] > 0.03, words


class TestExport:
    def test_the_command_exports_several_looks(self, run, tmp_path, capsys):
        words = ["--checkpoint", "last", "--size", 64, 96, "-o", tmp_path / "a.pt2", "--scales", 0.5, 1, "--flip"]
        assert call("export", run, *words, capsys=capsys)[0] == 0
        task, model = normalised(run)
        images = torch.randint(0, 256, (2, 64, 96, 3), dtype=torch.uint8)
        _, found = torch.export.load(tmp_path / "a.pt2").module()(images)
        seen, looks = task.inputs({"image": images}), []
        for height, width in ((32, 64), (64, 96)):
            view = functional.interpolate(
                seen, (height, width), mode="bilinear", align_corners=False, antialias=height < 64
            )
            with torch.inference_mode():
                answers = model(view).softmax(dim=1), model(view.flip(3)).softmax(dim=1).flip(3)
            looks += [functional.interpolate(each, (64, 96), mode="bilinear", align_corners=False) for each in answers]

        torch.testing.assert_close(found, torch.stack(looks).mean(dim=0), rtol=1e-3, atol=1e-4)

    def test_answers_that_differ_are_counted_and_said(self, run, tmp_path, capsys, monkeypatch):
        export = importlib.import_module("penstock.inference.export")

        def otherwise(path, pictures):
            classes, found = read(path, pictures)
            classes = classes.clone()
            classes[:, ::2, ::2] += 1  # a quarter of them
            return classes, found

        read = export._read_pt2
        monkeypatch.setattr(export, "_read_pt2", otherwise)
        code, out, _ = call("export", run, "-o", tmp_path / "a.pt2", capsys=capsys)

        assert code == 1
        assert "on random images 75.00 % of its answers are the model's own" in out


class Looks(Hook):
    """Keeps what each step learns from, and the weights before it."""

    def __init__(self):
        self.batches, self.models, self.losses = [], [], []

    def before_step(self, session):
        self.batches.append({name: tensor.clone() for name, tensor in session.batch.tensors.items()})
        self.models.append(copy.deepcopy(session.model))

    def after_step(self, session):
        self.losses.append(session.loss)


def around(places, size=21):
    """How many successive places of a circle hold all of some."""
    ordered = sorted(places)
    gaps = [(b - a) % size for a, b in zip(ordered, [*ordered[1:], ordered[0]], strict=True)]
    return size + 1 - max(gaps)


class TestTraining:
    @pytest.mark.parametrize("setting", ["class_weights=[0.1, 1.0, 2.0, 3.0, 4.0, 0.5]", "ohem_ratio=0.25"])
    def test_a_loss_is_what_pytorch_makes_of_what_the_step_saw(self, packed, tmp_path, setting):
        looks = Looks()
        chosen = apply(recipe(packed.folder, steps=2, evaluate_every=2), [f"loss.{setting}"])
        train(chosen, tmp_path, hooks=[looks])
        task = open_parts(chosen).task
        weight = torch.tensor([0.1, 1.0, 2.0, 3.0, 4.0, 0.5]) if "weights" in setting else None
        for batch, model, loss in zip(looks.batches, looks.models, looks.losses, strict=True):
            logits, mask = model.train()(task.inputs(batch)), batch["mask"].long()
            each = functional.cross_entropy(logits, mask, weight, ignore_index=255, reduction="none").flatten(1)
            if weight is None:
                counts = [-(-int(valid) // 4) for valid in (mask != 255).flatten(1).sum(dim=1)]
                rows = zip(each, counts, strict=True)
                expected = sum(row.topk(count).values.sum() for row, count in rows) / sum(counts)
            else:
                expected = each.sum() / weight[mask[mask != 255]].sum()
            assert loss == pytest.approx(expected.item(), rel=1e-4)
            plain = functional.cross_entropy(logits, mask, ignore_index=255).item()
            assert loss != pytest.approx(plain, rel=1e-2)

    def test_what_lies_outside_is_the_mean(self, packed, tmp_path):
        """The mean of this backbone is 128; an image of 64 x 96 in a crop of 128 x 128 leaves half of it."""
        looks = Looks()
        settings = ["augment.crop=[128, 128]", "augment.scale=[1.0, 1.0]", "augment.flip=0.0"]
        train(apply(recipe(packed.folder, steps=1, evaluate_every=9), settings), tmp_path, hooks=[looks])
        (batch,) = looks.batches
        outside = batch["mask"] == 255

        assert outside.flatten(1).sum(dim=1).tolist() == [128 * 128 - 64 * 96] * 4
        assert (batch["image"][outside] == 128).all()

    def test_the_order_follows_from_the_seed_and_is_none_of_the_shards(self, packed, tmp_path):
        """All records in an epoch, far from their neighbours, and another order for every seed and every epoch."""
        orders = {}
        names = [f"{shard.name}#{number}" for shard in packed.split("train").shards for number in range(shard.records)]
        for seed in (3, 4):
            chosen = dataclasses.replace(recipe(packed.folder, steps=21, batch=2, evaluate_every=99), seed=seed)
            folder, _ = train(apply(chosen, ["data.block=0", "data.validation="]), tmp_path)
            lines = (folder.path / "origins.jsonl").read_text().splitlines()
            found = [name for line in lines for name in json.loads(line)["origins"]]
            orders[seed] = [names.index(name) for name in found]
        first, second = orders[3][:21], orders[3][21:]

        assert sorted(first) == sorted(second) == list(range(21))
        assert len({tuple(each) for each in (first, second, orders[4][:21], range(21))}) == 4
        following = sum(b == (a + 1) % 21 for a, b in itertools.pairwise(first))
        assert following < 6  # one of twenty, by chance; all of them in natural order
        assert max(around(each[:5]) for each in (first, second, orders[4][:21])) > 12  # they come from everywhere

    def test_as_many_threads_as_the_recipe_says(self, packed, tmp_path, monkeypatch):
        from penstock.feed import feed

        made, pool = [], feed.ThreadPoolExecutor
        monkeypatch.setattr(
            feed, "ThreadPoolExecutor", lambda many, *a, **k: (made.append(many), pool(many, *a, **k))[1]
        )
        train(recipe(packed.folder, steps=2, evaluate_every=2, num_threads=5), tmp_path)

        assert made == [5, 5]

    def test_a_record_of_another_class_ends_it_with_its_name(self, packed, tmp_path):
        from penstock.errors import LabelError

        fewer = dataclasses.replace(packed.description, classes=packed.description.classes[:2])
        data = dataclasses.replace(packed, description=dataclasses.replace(fewer, content=""))
        feed = dataclasses.replace(open_parts(recipe(packed.folder)), dataset=data).training_feed()
        with (
            pytest.raises(
                LabelError, match=r"^train-\d+-of-\d+\.tfrecord#\d+ \(mask\): expected class ids from 0 to 1"
            ),
            contextlib.closing(feed.batches()) as batches,
        ):
            next(batches)

    @pytest.mark.parametrize("value", [float("nan"), float("inf")])
    def test_gradients_that_are_no_numbers_end_it_though_the_loss_is_one(self, packed, tmp_path, value):
        class Spoils(Hook):
            def after_backward(self, session):
                if session.step == 2:
                    next(p.grad for p in session.model.parameters() if p.grad is not None).fill_(value)

        with pytest.raises(NonFiniteError, match=f"found loss [0-9.]+, gradient norm {value}, from "):
            train(recipe(packed.folder, steps=4, save_every=1, evaluate_every=9), tmp_path, hooks=[Spoils()])
        (folder,) = tmp_path.iterdir()
        assert (folder / "checkpoints/last").resolve().name == "step-00000002"

    def test_losses_that_are_no_numbers_end_it_though_gradients_are(self, packed, tmp_path, monkeypatch):
        class Spoils(Hook):
            def before_step(self, session):
                if session.step == 2:
                    monkeypatch.setattr(Segmentation, "loss", lambda *words: loss(*words) + float("nan"))

        loss = Segmentation.loss
        with pytest.raises(NonFiniteError, match=r"found loss nan, gradient norm [0-9.]+, from "):
            train(recipe(packed.folder, steps=4, save_every=1, evaluate_every=9), tmp_path, hooks=[Spoils()])
        (folder,) = tmp_path.iterdir()
        assert (folder / "checkpoints/last").resolve().name == "step-00000002"

    def test_an_error_leaves_no_threads_behind(self, packed, tmp_path):
        """Though its traceback, which somebody may keep, holds all that was there."""

        class Fails(Hook):
            def after_step(self, session):
                raise KeyError("oh")

        with pytest.raises(KeyError, match="oh") as caught:
            train(recipe(packed.folder, steps=40), tmp_path, hooks=[Fails()])
        left = [thread.name for thread in threading.enumerate() if thread.name.startswith("penstock-feed")]

        assert caught.tb
        assert left == []

    def test_as_many_checkpoints_are_kept_as_asked(self, packed, tmp_path):
        chosen = recipe(packed.folder, steps=6, keep=4, save_every=1, evaluate_every=9)
        folder, _ = train(chosen, tmp_path)

        assert CheckpointStore(folder.checkpoints).names() == [f"step-{step:08d}" for step in (3, 4, 5, 6)]

    def test_what_is_said_beside_a_recipe_goes_before_it(self, packed, tmp_path, capsys):
        chosen = recipe(packed.folder, steps=3, evaluate_every=9)
        (tmp_path / "mine.toml").write_text(dump(chosen))
        words = [
            "--steps",
            1,
            "--batch",
            2,
            "--seed",
            9,
            "--set",
            "optimizer.momentum=0.5",
            "--runs",
            tmp_path / "runs",
        ]
        assert call("train", tmp_path / "mine.toml", *words, capsys=capsys)[0] == 0
        (run,) = (tmp_path / "runs").iterdir()

        settings = ["train.steps=1", "train.batch=2", "seed=9", "optimizer.momentum=0.5"]
        assert load(run / "recipe.toml") == apply(chosen, settings)

    def test_a_record_without_a_mask_is_named(self):
        payload = encode({"image/encoded": b"x"})
        with pytest.raises(SchemaError) as caught:
            decode_segmentation(Record("here#3", payload))

        assert str(caught.value).startswith(
            "here#3: expected field image/segmentation/class/encoded (bytes_list), found only image/encoded."
        )

    def test_a_signal_while_data_is_waited_for_saves_what_nothing_else_would(self, packed, tmp_path, monkeypatch):
        """A source that does not answer any more, as a broker that is away."""
        away, read = threading.Event(), FilesSource.read

        def stalls(source, *place):
            while away.is_set():
                waiting.check()
                time.sleep(0.01)
            return read(source, *place)

        class Stalls(Hook):
            def after_step(self, session):
                if session.step == 2:
                    away.set()
                    threading.Timer(3.0, os.kill, (os.getpid(), signal.SIGINT)).start()
                    threading.Timer(25.0, away.clear).start()  # so that a training that is deaf ends too

        monkeypatch.setattr(FilesSource, "read", stalls)
        chosen = recipe(packed.folder, steps=1000, save_every=999, evaluate_every=999, num_threads=1)
        folder, outcome = train(chosen, tmp_path, hooks=[Stalls()])

        assert outcome.status == "interrupted"
        assert away.is_set()
        assert 2 <= outcome.step < 20
        assert CheckpointStore(folder.checkpoints).names() == [f"step-{outcome.step:08d}"]

    def test_the_last_checkpoint_is_whole_wherever_a_save_is_cut_short(self, tmp_path):
        class Cut(Exception):
            pass

        def audit(event, arguments):
            if event == "os.rename" and str(tmp_path) in str(arguments[0]):
                left[0] -= 1
                if left[0] == 0:
                    raise Cut

        left, ended = [0], False
        sys.addaudithook(audit)
        for number in range(1, 20):
            store = CheckpointStore(tmp_path / str(number), keep=1)
            store.folder.mkdir()
            store.save(Checkpoint(1, {"model": {"a": torch.ones(3)}}, {"of": 1}))
            left[0] = number
            try:
                store.save(Checkpoint(2, {"model": {"a": 2 * torch.ones(3)}}, {"of": 2}))
                ended = True
            except Cut:
                pass
            left[0] = 0
            found = store.load()
            assert found.state["of"] == found.step == found.tensors["model"]["a"][0], number
            if ended:
                break
        assert ended
        assert number > 2


@pytest.mark.slow
def test_ranks_evaluate_every_picture_once_in_training(packed, tmp_path):
    done = processes.ranks(2, Path(__file__).with_name("kill_child.py"), packed.folder, tmp_path, "never", 0)
    assert done.returncode == 0, done.stderr
    (run,) = tmp_path.iterdir()
    found = [json.loads(path.read_text())["confusion"] for path in (run / "evaluations").iterdir()]

    assert [sum(map(sum, confusion)) for confusion in found] == [7 * 64 * 96] * 3


class TestLogs:
    def test_times_are_those_of_the_step_and_of_its_wait(self, packed, tmp_path, monkeypatch):
        from penstock.tasks.masks import PrepareSegmentation

        prepare = PrepareSegmentation.__call__
        monkeypatch.setattr(
            PrepareSegmentation, "__call__", lambda *a: (time.sleep(0.1 * (a[2] is not None)), prepare(*a))[1]
        )

        class Slow(Hook):
            def after_backward(self, session):
                time.sleep(1.0 * (session.step == 2))

        chosen = recipe(packed.folder, steps=4, evaluate_every=9, num_threads=1)
        folder, _ = train(chosen, tmp_path, hooks=[Slow()])
        lines = folder.lines("timings.jsonl")

        assert len(lines) == 4
        assert lines[0]["wait"] >= 0.4  # four images, one after the other
        assert [line["seconds"] >= 1.0 + line["wait"] for line in lines] == [False, False, True, False]
        assert [line["step"] for line in lines] == [1, 2, 3, 4]
        assert all(0 < line["wait"] < line["seconds"] and line["memory"] > 0 for line in lines)

    def test_metrics_tell_the_epoch_and_the_rate_of_every_step(self, packed, tmp_path):
        chosen = recipe(packed.folder, steps=6, evaluate_every=6)
        folder, _ = train(chosen, tmp_path)
        lines = [line for line in folder.lines("metrics.jsonl") if "loss" in line]

        assert [line["epoch"] for line in lines] == pytest.approx([4 * step / 21 for step in range(1, 7)])
        assert [line["lr"] for line in lines] == pytest.approx([0.05 * (1 - step / 6) ** 0.9 for step in range(6)])

    def test_the_console_has_a_line_as_often_as_asked(self, packed, tmp_path):
        folder, _ = train(recipe(packed.folder, log_every=5, evaluate_every=99), tmp_path)
        lines = (folder.path / "log.txt").read_text().splitlines()

        assert [int(line.split()[1]) for line in lines if "  data wait " in line] == [5, 10, 12]

    def test_events_are_what_happened(self, packed, tmp_path):
        folder, _ = train(recipe(packed.folder, steps=4), tmp_path, hooks=[Stop(2)])
        resume(folder.path)
        lines = [json.loads(line) for line in (folder.path / "events.jsonl").read_text().splitlines()]

        assert [(line["event"], line["step"]) for line in lines] == [
            ("started", 0), ("stopped", 2), ("resumed", 2), ("evaluated", 4), ("finished", 4),
        ]  # fmt: skip

    def test_the_command_and_the_revision_are_kept(self, packed, tmp_path, monkeypatch):
        git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
        for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "x"]):
            subprocess.run([*git, *words], cwd=tmp_path, check=True)
        head = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=tmp_path, check=True, capture_output=True, text=True
        ).stdout.strip()
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["penstock", "train", "somewhere"])
        folder, _ = train(recipe(packed.folder, steps=1, evaluate_every=9), tmp_path / "runs")
        kept = json.loads((folder.path / "environment.json").read_text())

        assert kept["revision"].removesuffix("-dirty") == head
        assert kept["command"] == ["penstock", "train", "somewhere"]
        assert kept["packages"] == environment()["packages"]

    def test_a_resume_elsewhere_says_what_differs_and_keeps_it(self, packed, tmp_path, capsys):
        folder, _ = train(recipe(packed.folder, steps=4), tmp_path, hooks=[Stop(2)])
        kept = folder.read_json("environment.json")
        folder.write_json("environment.json", {**kept, "threads": 77})
        resume(folder.path, on_event=show)

        assert f"note: threads was 77, is {kept['threads']}: same records, same order; " in capsys.readouterr().out
        assert [then["threads"] for then in folder.read_json("environment.json")["then"]] == [kept["threads"]]

    def test_tensorboard_has_a_point_as_often_as_asked(self, packed, tmp_path):
        accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
        folder, _ = train(recipe(packed.folder, log_every=5, evaluate_every=99), tmp_path)
        found = accumulator.EventAccumulator(str(folder.path / "tensorboard"))
        found.Reload()
        rates = {line["step"]: line["lr"] for line in folder.lines("metrics.jsonl") if "lr" in line}

        assert [event.step for event in found.Scalars("train/loss")] == [5, 10]
        points = {event.step: event.value for event in found.Scalars("train/lr")}
        assert points == pytest.approx({step: rates[step] for step in (5, 10)})

    def test_as_many_answers_are_drawn_as_asked_and_they_are_the_models(self, run, capsys):
        drawn = {}
        for step, count in ((1, 1), (1, 3), (2, 1)):
            words = ["--checkpoint", f"step-{step:08d}", "--images", count]
            assert call("evaluate", run, *words, capsys=capsys)[0] == 0
            drawn[step, count] = cv2.imread(str(run / f"figures/answers-val-{step:08d}.png"))
        assert drawn[1, 3].shape[0] > 2 * drawn[1, 1].shape[0]
        assert drawn[1, 1].shape == drawn[2, 1].shape
        assert (drawn[1, 1] != drawn[2, 1]).mean() > 0.01

    def test_replay_draws_what_the_step_saw(self, packed, tmp_path, monkeypatch, capsys):
        looks = Looks()
        folder, _ = train(recipe(packed.folder, steps=3, evaluate_every=9), tmp_path, hooks=[looks])
        drawn, draw = [], Segmentation.draw
        monkeypatch.setattr(
            Segmentation, "draw", lambda task, arrays, *rest: (drawn.append(dict(arrays)), draw(task, arrays, *rest))[1]
        )
        for step in (1, 3):
            drawn.clear()
            assert call("replay", folder.path, "--step", step, capsys=capsys)[0] == 0
            for name, tensor in looks.batches[step - 1].items():
                assert np.array_equal(np.stack([each[name] for each in drawn]), tensor.numpy()), (step, name)


class TestHooks:
    def test_weights_change_between_the_backward_and_the_next_point(self, packed, tmp_path):
        """Gradients are there, the optimizer has not stepped."""

        class Weighs(Hook):
            def before_step(self, session):
                self.note(session)

            after_backward = after_step = before_step

            def note(self, session):
                noted.append(next(session.model.parameters()).detach().clone())

        noted = []
        train(recipe(packed.folder, steps=2, evaluate_every=9), tmp_path, hooks=[Weighs()])
        same = [torch.equal(a, b) for a, b in itertools.pairwise(noted)]

        assert same == [True, False, True, True, False]

    def test_one_that_is_new_is_told_nothing_and_one_of_a_run_without_a_checkpoint_is(self, packed, tmp_path):
        class Told(Hook):
            def __init__(self):
                self.states = []

            def load_state_dict(self, state):
                self.states.append(dict(state))

            def state_dict(self):
                return {"a": 1}

        class Another(Told):
            pass

        first, again, new = Told(), Told(), Another()
        folder, _ = train(recipe(packed.folder, steps=4), tmp_path, hooks=[first, Stop(2)])
        resume(folder.path, hooks=[again, new])

        assert (first.states, again.states, new.states) == ([{}], [{"a": 1}], [])

    def test_a_clock_of_minutes(self, packed, tmp_path, monkeypatch):
        """Every step takes half a minute here: of every two of them one is saved."""
        from penstock.hooks import saving

        class Clock:
            now = 0.0

            @classmethod
            def monotonic(cls):
                return cls.now

        class Ticks(Hook):
            def before_step(self, session):
                Clock.now += 30

        monkeypatch.setattr(saving, "time", Clock)
        chosen = recipe(packed.folder, steps=7, keep=9, save_every=99, evaluate_every=99, save_minutes=1.0)
        folder, _ = train(chosen, tmp_path, hooks=[Ticks()])

        assert CheckpointStore(folder.checkpoints).names() == [f"step-{step:08d}" for step in (2, 4, 6, 7)]

"""Whole new tasks in files of their own: every command works on them, and nothing in Penstock changes."""

from __future__ import annotations

import json
import shutil
import signal
import time

import cv2
import numpy as np
import pytest
from support import processes
from support.commands import call
from support.paths import EXAMPLES

import penstock as ps
from penstock.custom import trust
from penstock.errors import RunError
from penstock.images import drawing

pytestmark = pytest.mark.slow


def run(*words):
    return processes.run("-m", "penstock", *words, check=True).stdout


def scenes_with_depth(folder, images):
    """Discs on a wall; the nearer the larger."""
    draw = np.random.default_rng(0)
    for split, count in images.items():
        for number in range(count):
            depth = np.full((48, 64), 5000, np.uint16)
            image = np.full((48, 64, 3), 90, np.uint8)
            for _ in range(3):
                distance = int(draw.integers(800, 4000))
                center = int(draw.integers(0, 64)), int(draw.integers(0, 48))
                near = np.zeros((48, 64), np.uint8)
                cv2.circle(near, center, 24_000 // distance, 1, -1)
                front = (near > 0) & (depth > distance)
                depth[front], image[front] = distance, 255 - distance // 20
            depth[:4] = 0
            for part, name, array in (("images", "jpg", image), ("depth", "png", depth)):
                (folder / part / split).mkdir(parents=True, exist_ok=True)
                cv2.imwrite(str(folder / part / split / f"{number}.{name}"), array)


class TestDepth:
    """A whole new task in files of its own."""

    @pytest.fixture(scope="class")
    @classmethod
    def home(cls, tmp_path_factory):
        """Raw data, packed by a layout that is gone by now, and the task."""
        folder = tmp_path_factory.mktemp("depth")
        scenes_with_depth(folder / "raw", {"train": 12, "val": 4})
        shutil.copytree(EXAMPLES / "depth", folder / "own")
        run("pack", folder / "raw", "-o", folder / "data", "--layout", f"{folder}/own/depth_layout.py:recognise")
        (folder / "own" / "depth_layout.py").unlink()
        return folder

    def words(self, home, steps):
        settings = ["task_options.farthest=6.0", "train.save_every=2", "train.log_origins=true", "optimizer.name=adamw"]
        listed = [word for setting in settings for word in ("--set", setting)]
        return [
            "train", home / "data", "--task", f"{home}/own/depth_task.py:Depth",
            "--crop", 32, 32, "--batch", 4, "--steps", steps, "--lr", 5e-3, "--device", "cpu", *listed,
        ]  # fmt: skip

    def test_inspect_pack_verify_and_show(self, home, tmp_path, capsys):
        layout = ["--layout", f"{EXAMPLES}/depth/depth_layout.py:recognise"]
        found = call("inspect", home / "raw", *layout, capsys=capsys)
        assert found[0] == 0
        assert f"{home}/raw: depth, images and depth\n" in found[1]
        assert json.loads((home / "data" / "dataset.json").read_text())["task"] == "code/depth_kind.py:Depth"
        assert call("verify", home / "data", capsys=capsys)[1] == "16 records are sound, 0 faults\n"
        assert call("show", home / "data", "-o", tmp_path / "sheet.png", capsys=capsys)[0] == 0
        assert cv2.imread(str(tmp_path / "sheet.png")).std() > 10
        assert ps.open(home / "data")["val"][1].image.shape[2] == 3

    def test_what_is_wrong_is_named(self, tmp_path, capsys):
        scenes_with_depth(tmp_path / "raw", {"train": 4})
        cv2.imwrite(str(tmp_path / "raw/depth/train/1.png"), np.zeros((48, 64), np.uint8))
        cv2.imwrite(str(tmp_path / "raw/depth/train/2.png"), np.zeros((48, 64), np.uint16))
        (tmp_path / "raw/depth/train/3.png").unlink()
        found = ps.inspect(tmp_path / "raw", layout=f"{EXAMPLES}/depth/depth_layout.py:recognise")

        assert [problem.message for problem in found.fatal] == [
            "depth/train/1.png (depth): expected 16-bit gray of 48 x 64 (height x width), like its image, found uint8 of "
            "shape (48, 64). Export it in millimetres, at the image's size.",
            "depth/train/2.png: expected a known depth, found none. Check how it was exported.",
            "images/train/3.jpg: expected a depth map, found none, but the layout is for depth. Give it some, or leave it out.",
        ]

    def test_it_learns_and_is_resumed_after_a_kill(self, home, tmp_path):
        run(*self.words(home, 40), "--runs", tmp_path / "whole")
        (whole,) = (tmp_path / "whole").iterdir()
        process = processes.Child(["-m", "penstock", *self.words(home, 40), "--runs", tmp_path / "killed"])
        end = time.monotonic() + 120
        while not list((tmp_path / "killed").glob("*/checkpoints/step-000000[1-3]*")):
            assert time.monotonic() < end
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.wait()
        (killed,) = (tmp_path / "killed").iterdir()
        run("train", "--resume", killed)
        scores = [line["evaluation"]["abs_rel"] for line in ps.Run(whole).metrics if "evaluation" in line]

        assert (killed / "metrics.jsonl").read_bytes() == (whole / "metrics.jsonl").read_bytes()
        assert (killed / "origins.jsonl").read_bytes() == (whole / "origins.jsonl").read_bytes()
        last = "checkpoints/last/model.safetensors"
        assert (killed / last).read_bytes() == (whole / last).read_bytes()
        assert ps.Run(whole).best["abs_rel"] == min(scores) < 0.6

    def test_evaluate_predict_replay_and_report(self, home, tmp_path, capsys):
        run(*self.words(home, 4), "--runs", tmp_path / "runs")
        (folder,) = (tmp_path / "runs").iterdir()
        shutil.move(home / "own", home / "gone")
        try:
            code, out, err = call("evaluate", folder, capsys=capsys)
            assert code == 0, err
            assert "abs_rel" in out
            assert call("replay", folder, "--step", 2, capsys=capsys)[0] == 0
            assert (folder / "figures" / "step-00000002.png").is_file()
            assert call("report", folder, capsys=capsys)[0] == 0
            out = ["-o", tmp_path / "out"]
            assert call("predict", folder, home / "raw/images/val", *out, capsys=capsys)[0] == 0
            assert (tmp_path / "out" / "0-depth.png").is_file()
            header, *rows = (tmp_path / "out" / "predictions.csv").read_text().splitlines()
            assert (header, len(rows)) == ("file,nearest,farthest", 4)
            assert call("export", folder, "-o", tmp_path / "a.pt2", capsys=capsys)[2] == (
                "error: Export is not supported for depth. Use penstock predict, or load the run from Python.\n"
            )
            assert call("evaluate", folder, "--flip", capsys=capsys)[2] == (
                "error: Test-time augmentation is not supported for depth. Remove --flip.\n"
            )
        finally:
            shutil.move(home / "gone", home / "own")

    @pytest.mark.parametrize("command", ["show", "verify", "publish", "open"])
    def test_the_code_of_a_dataset_from_elsewhere_is_not_executed_unasked(
        self, home, tmp_path, monkeypatch, capsys, command
    ):
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
        monkeypatch.setattr(trust, "_NOW", set())
        data = home / "data"
        message = (
            f"{data}/code/depth_kind.py: loading {data} would execute this code, which does not come from you. Read it, then "
            "add --trust, in Python trust=True."
        )
        if command == "open":
            with pytest.raises(RunError) as caught:
                ps.open(data)
            assert str(caught.value) == message
            assert ps.open(data, trust=True).splits == ("train", "val")
            return
        more = {"show": ["-o", tmp_path / "s.png"], "verify": [], "publish": ["kafka://me:secret@h:1/t"]}[command]
        assert call(command, data, *more, capsys=capsys)[2] == f"error: {message}\n"
        exit_code, _, err = call(command, data, *more, "--trust", capsys=capsys)
        if command == "publish":  # on to the address, which it does not take
            assert err.startswith("error: kafka://.../t: expected kafka://HOST:PORT/TOPIC, ")
        else:
            assert exit_code == 0

    def test_without_a_task_it_is_asked_for(self, home, capsys):
        found = call("train", home / "data", "--model", "small", capsys=capsys)
        assert found[2].startswith(
            "error: task: expected FILE.py:NAME of a task for records of code/depth_kind.py:Depth"
        )

    def test_options_that_the_task_does_not_know_are_named(self, home, tmp_path, capsys):
        words = [*self.words(home, 2), "--runs", tmp_path]
        assert call(*words, "--set", "task_options.nearest=1", capsys=capsys)[2] == (
            "error: The task has no setting nearest in task_options, only farthest. Check the name.\n"
        )


def discs_with_points(folder, images, seed=3):
    """Discs of three colours and their centres, a sixth of which nobody sees."""
    draw = np.random.default_rng(seed)
    for split, count in images.items():
        for part in ("images", "points"):
            (folder / part / split).mkdir(parents=True, exist_ok=True)
        for number in range(count):
            image, points = draw.integers(90, 130, (48, 64, 3)).astype(np.uint8), {}
            colors = {"red": (40, 40, 220), "green": (60, 200, 40), "blue": (230, 70, 50)}
            for left, (name, color) in zip((6, 26, 46), colors.items(), strict=True):
                x, y = left + float(draw.uniform(0, 12)), float(draw.uniform(6, 42))
                visible = bool(draw.random() < 5 / 6)
                if visible:
                    cv2.circle(image, (int(x), int(y)), 5, color, -1)
                points[name] = {"x": x, "y": y, "visible": visible}
            cv2.imwrite(str(folder / "images" / split / f"{number}.png"), image)
            (folder / "points" / split / f"{number}.json").write_text(json.dumps(points))


class TestKeypoints:
    """A task that was written from the documentation alone."""

    layout = f"{EXAMPLES}/keypoints/keypoints_layout.py:recognise"
    task = f"{EXAMPLES}/keypoints/keypoints_task.py:Keypoints"

    @pytest.fixture(scope="class")
    @classmethod
    def home(cls, tmp_path_factory):
        """Raw data, packed."""
        folder = tmp_path_factory.mktemp("keypoints")
        discs_with_points(folder / "raw", {"train": 12, "val": 5})
        run("pack", folder / "raw", "-o", folder / "data", "--layout", cls.layout)
        return folder

    def words(self, home, steps):
        return [
            "train", home / "data", "--task", self.task, "--crop", 32, 32, "--batch", 4, "--steps", steps, "--lr", 3e-3,
            "--optimizer", "adamw", "--device", "cpu", "--set", "train.save_every=2", "--set", "augment.view.scale=[1.0, 1.0]",
        ]  # fmt: skip

    def test_inspect_counts_visible_points(self, home, capsys):
        seen = dict.fromkeys(("red", "green", "blue"), 0)
        for file in (home / "raw/points/train").iterdir():
            for name, point in json.loads(file.read_text()).items():
                seen[name] += point["visible"]
        found = call("inspect", home / "raw", "--layout", self.layout, capsys=capsys)

        assert found[0] == 0
        assert ps.open(home / "data")["train"].counts == seen
        assert next(line.split() for line in found[1].splitlines() if line.startswith("  red")) == [
            "red", str(seen["red"]), "points",
        ]  # fmt: skip
        assert call("verify", home / "data", capsys=capsys)[1] == "17 records are sound, 0 faults\n"

    def test_points_stay_on_their_discs(self, home, tmp_path, capsys):
        """After crop, scale and mirror the pixel under a visible point has its disc's colour."""
        feed = ps.open(home / "data")["train"].feed(
            batch=12, crop=(32, 32), settings={"task": self.task, "augment.view.scale": (1.0, 2.0)}
        )
        found = 0
        for position in range(60):
            arrays = feed[position].arrays
            for color, (x, y, visible) in enumerate(arrays["points"]):
                if visible == 1 and 1 < x < 31 and 1 < y < 31:
                    assert int(arrays["image"][int(y), int(x)].argmax()) == color
                    found += 1
        assert found > 30
        sheet = ["-o", tmp_path / "sheet.png"]
        assert call("show", home / "data", "--augmented", "--task", self.task, *sheet, capsys=capsys)[0] == 0
        assert cv2.imread(str(tmp_path / "sheet.png")).std() > 10

    def test_it_learns_and_every_command_works(self, home, tmp_path, capsys, monkeypatch):
        captions = []
        monkeypatch.setattr(drawing, "caption", lambda image, text: captions.append(text) or image)
        run(*self.words(home, 30), "--runs", tmp_path)
        folder = tmp_path / "0001-keypoints-data"
        run("train", "--resume", folder, "--steps", 60)
        distances = [line["evaluation"]["distance"] for line in ps.Run(folder).metrics if "evaluation" in line]
        code, out, err = call("evaluate", folder, capsys=capsys)

        assert code == 0, err
        assert ps.Run(folder).best["distance"] == min(distances)
        images = [text for text in captions if not text.startswith("loss ")]  # which is below the worst
        assert {text.partition(": ")[2] for text in images} == {"image with points, image with predicted points"}
        printed = float(next(line.split()[1] for line in out.splitlines() if line.startswith("distance")))
        assert printed == pytest.approx(min(distances), rel=1e-3)
        assert printed < 5
        assert call("predict", folder, home / "raw/images/val", "-o", tmp_path / "out", capsys=capsys)[0] == 0
        header, *rows = (tmp_path / "out" / "predictions.csv").read_text().splitlines()
        assert (header, len(rows)) == ("file,point,x,y,visible", 15)
        for words in (("replay", folder, "--step", 3), ("report", folder)):
            assert call(*words, capsys=capsys)[0] == 0

    def test_padding_of_a_batch_counts_nowhere(self, home, tmp_path):
        """Five records in batches of four; the score is that of the images one by one."""
        run(*self.words(home, 2), "--runs", tmp_path)
        (folder,) = tmp_path.iterdir()
        model, distances = ps.load(folder, device="cpu"), []
        for file in (home / "raw/images/val").iterdir():
            found = model.predict(file).points[:, :2]
            truth = json.loads((home / "raw/points/val" / f"{file.stem}.json").read_text()).values()
            for (x, y), point in zip(found, truth, strict=True):
                if point["visible"]:
                    distances.append(np.hypot(x - point["x"], y - point["y"]))

        assert ps.Run(folder).evaluate("val").scores.distance == pytest.approx(np.mean(distances), rel=1e-4)

    def test_what_it_does_not_support_is_refused(self, home, capsys):
        for options, message in (
            (
                ("--model", "unet:resnet18"),
                "A choice of models is not supported for keypoints. Remove model.name=unet:resnet18.",
            ),
            (
                ("--weights", "pretrained"),
                "A pretrained backbone is not supported for keypoints. Remove model.weights.",
            ),
        ):
            assert call(*self.words(home, 2), *options, capsys=capsys)[2] == f"error: {message}\n"


def test_a_task_without_a_backbone_has_no_weights_to_load(tmp_path):
    """Nobody gives any, or says that there are none: the run can be used either way."""
    discs_with_points(tmp_path / "raw", {"train": 4, "val": 2})
    data = ps.pack(tmp_path / "raw", tmp_path / "data", layout=TestKeypoints.layout)
    for weights in ("", "none"):
        run = ps.train(
            data, task=TestKeypoints.task, weights=weights, crop=(32, 32), batch=4, steps=1, device="cpu", runs=tmp_path
        )
        assert run.recipe.model.weights == "none"
        assert run.recipe.model.name == "keypoints"
        assert ps.resume(run, settings={"train.steps": 2}).outcome.step == 2
        assert ps.load(run, device="cpu").predict(tmp_path / "raw/images/val/0.png").points.shape == (3, 3)

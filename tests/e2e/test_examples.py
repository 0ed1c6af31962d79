"""The examples run on small data: what they show is what the software does."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys

import cv2
import numpy as np
import pytest
from support import miniatures, processes
from support.commands import call
from support.paths import EXAMPLES

import penstock as ps
from penstock.custom import trust
from penstock.errors import RunError

pytestmark = pytest.mark.slow

OWN = EXAMPLES / "own_parts"


SMALL = {
    "augment.crop": (32, 32),
    "train.batch": 4,
    "train.device": "cpu",
    "train.evaluate_every": 2,
    "train.log_every": 1,
}


def small(**more):
    return {**SMALL, **{key.replace("__", "."): value for key, value in more.items()}}


class TestOwnParts:
    @pytest.fixture(scope="class")
    @classmethod
    def run(cls, packed, tmp_path_factory):
        """A run whose network, loss, metric, hooks and optimizer are files, which are gone by now."""
        there = tmp_path_factory.mktemp("own")
        shutil.copytree(OWN, there / "parts")
        run = ps.train(
            str(packed.folder),
            model=f"{there}/parts/my_net.py:build",
            loss=f"{there}/parts/my_loss.py:margin",
            optimizer=f"{there}/parts/my_optimizer.py:Lion",
            lr=1e-3,
            steps=4,
            hooks=[f"{there}/parts/my_hooks.py:Norms", {"name": f"{there}/parts/my_hooks.py:StopAt", "loss": 1e-9}],
            settings=small(train__metrics=[f"{there}/parts/my_metric.py:Worst"], train__best_metric="worst_accuracy"),
            runs=there / "runs",
        )
        shutil.rmtree(there / "parts")
        return run

    def test_each_does_its_part(self, run):
        import torch

        weights = ps.load(run.path, device="cpu").trained.model
        assert [type(layer).__name__ for layer in weights] == ["Conv2d", "ReLU", "Conv2d", "ReLU", "Conv2d"]
        assert run.path.name == "0001-my_net-build-" + run.recipe.data.path.rpartition("/")[2]
        first, *_ = run.metrics
        assert first["loss"] == pytest.approx(by_hand(run, torch), rel=1e-4)
        best = run.best
        assert best["worst_accuracy"] == max(
            line["evaluation"]["worst_accuracy"] for line in run.metrics if "evaluation" in line
        )
        lines = [json.loads(line) for line in (run.path / "norms.jsonl").read_text().splitlines()]
        assert [line["step"] for line in lines] == [1, 2, 3, 4]
        assert lines[0]["norm"] != lines[1]["norm"]

    def test_the_run_carries_them_with_their_hashes(self, run):
        settings = json.loads((run.path / "settings.json").read_text())
        recipe = (run.path / "recipe.toml").read_text()

        assert sorted(path.name for path in (run.path / "code").iterdir()) == [
            "my_hooks.py", "my_loss.py", "my_metric.py", "my_net.py", "my_optimizer.py",
        ]  # fmt: skip
        for path in (run.path / "code").iterdir():
            assert path.read_bytes() == (OWN / path.name).read_bytes()
        assert set(settings["code"]) == {f"code/{path.name}" for path in (run.path / "code").iterdir()}
        assert 'name = "code/my_net.py:build"' in recipe
        assert 'custom = "code/my_loss.py:margin"' in recipe

    def test_it_is_resumed_evaluated_predicted_and_exported_from_them(self, run, raw, tmp_path, capsys):
        image = next((raw / "images" / "val").iterdir())
        longer = tmp_path / "moved" / run.path.name
        shutil.copytree(run.path, longer)
        again = ps.resume(longer, settings={"train.steps": 6})
        lines = [json.loads(line) for line in (longer / "norms.jsonl").read_text().splitlines()]

        assert (again.outcome.status, again.outcome.step) == ("finished", 6)
        assert [(line["step"], line["line"]) for line in lines] == [(n, n) for n in range(1, 7)]
        assert "worst_accuracy" in again.evaluate("val").scores.summary()
        code, _, err = call("predict", longer, image, "-o", tmp_path / "out", capsys=capsys)
        assert code == 0, err
        assert (tmp_path / "out" / f"{image.stem}.png").is_file()
        mask = ps.load(longer).predict(image).mask
        assert np.array_equal(cv2.imread(str(tmp_path / "out" / f"{image.stem}.png"), cv2.IMREAD_UNCHANGED), mask)
        assert call("export", longer, "-o", tmp_path / "net.pt2", capsys=capsys)[0] == 0

    def test_a_recipe_of_the_run_trains_the_same_again(self, run, tmp_path):
        again = ps.train(run.path / "recipe.toml", runs=tmp_path)

        assert again.metrics == run.metrics

    def test_code_from_elsewhere_is_not_executed_unasked(self, run, tmp_path, monkeypatch, capsys):
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
        monkeypatch.setattr(trust, "_NOW", set())
        copy = tmp_path / "copy"
        shutil.copytree(run.path, copy)
        marked = copy / "code" / "my_net.py"
        message = (
            f"{copy}/code/my_hooks.py: loading {copy} would execute this code, which does not come from you. Read it, "
            "then add --trust, in Python trust=True."
        )
        for ask in (lambda: ps.load(copy), lambda: ps.resume(copy), lambda: ps.Run(copy).evaluate("val")):
            with pytest.raises(RunError) as caught:
                ask()
            assert str(caught.value) == message
        assert call("evaluate", copy, "--images", 0, capsys=capsys)[2] == f"error: {message}\n"
        assert call("evaluate", copy, "--images", 0, "--trust", capsys=capsys)[0] == 0
        monkeypatch.setattr(trust, "_NOW", set())
        assert call("evaluate", copy, "--images", 0, capsys=capsys)[0] == 0  # it is remembered
        marked.write_text(marked.read_text() + "\n")
        with pytest.raises(RunError) as caught:
            ps.load(copy, trust=True)
        stated = json.loads((copy / "settings.json").read_text())["code"]["code/my_net.py"]
        from penstock.custom.loading import digest

        assert str(caught.value) == (
            f"{marked}: expected the code that was copied ({stated[:12]}), found {digest(marked.read_bytes())[:12]}. Restore it, or start "
            "a new run from its weights with --init RUN."
        )

    def test_a_place_outside_the_run_is_refused(self, run, tmp_path):
        copy = tmp_path / "copy"
        shutil.copytree(run.path, copy)
        text = (copy / "recipe.toml").read_text()
        (copy / "recipe.toml").write_text(text.replace("code/my_net.py", "/elsewhere/my_net.py"))
        with pytest.raises(RunError) as caught:
            ps.load(copy)

        assert str(caught.value) == (
            f"{copy}/recipe.toml: model.name: expected a file in code/, found /elsewhere/my_net.py. Restore the file from a "
            "copy of the run."
        )


def test_a_loss_of_ones_own_weighs_what_is_said(packed, tmp_path):
    def first(name, **settings):
        run = ps.train(
            str(packed.folder), model=f"{OWN}/my_net.py:build", steps=1, runs=tmp_path / name,
            settings=small(loss__custom=f"{OWN}/my_loss.py:margin", data__validation="", **settings),
        )  # fmt: skip
        return run.metrics[0]["loss"]

    both, alone = first("both"), first("alone", loss__cross_entropy=0)
    doubled = first("doubled", loss__custom_weight=2.0)

    assert doubled - both == pytest.approx(alone, rel=1e-5)
    assert both > alone


def by_hand(run, torch):
    """The first loss: the hinge by loops over pixels, of the network as it is initialised."""
    from penstock.assembly import open_experiment
    from penstock.assembly.runs import run_recipe

    parts = open_experiment(run_recipe(run.path))
    network = parts.model()
    batch = next(parts.training_feed().batches())
    with torch.no_grad():
        logits = network(parts.task.inputs(batch.tensors)).permute(0, 2, 3, 1).reshape(4, -1, len(parts.task.classes))
    losses = []
    for image, mask in zip(logits, batch.tensors["mask"].reshape(4, -1), strict=True):
        pixels = [
            max(0.0, float(1 + max(v for i, v in enumerate(values) if i != label) - values[label]))
            for values, label in zip(image.tolist(), mask.tolist(), strict=True)
            if label != 255
        ]
        losses.append(sum(pixels) / len(pixels))
    return sum(losses) / 4


def example(name, folder, *words):
    """The lines that an example prints, run in a process of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    done = processes.run(EXAMPLES / name, *words, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def steps(lines):
    return [line for line in lines if line.startswith("step ")]


@pytest.mark.parametrize("loop", ["own_loop.py", "lightning_loop.py", "accelerate_loop.py"])
def test_a_loop_of_ones_own_goes_on_where_it_stopped(packed, tmp_path, loop):
    whole = steps(example(loop, tmp_path / "whole", packed.folder, "--steps", 5))
    stopped = [example(loop, tmp_path / "stopped", packed.folder, "--steps", count) for count in (2, 5)]

    assert [line.split()[1] for line in whole] == ["1", "2", "3", "4", "5"]
    assert [line for lines in stopped for line in steps(lines)] == whole


@pytest.mark.soak  # three quarters of a minute; one process is tried above
def test_two_processes_of_accelerate_share_every_batch(packed, tmp_path):
    """The first of two has the first half of the batches of one."""
    whole = steps(example("accelerate_loop.py", tmp_path / "whole", packed.folder, "--steps", 2))
    torchrun = [sys.executable, "-W", "ignore", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    (tmp_path / "two").mkdir()
    words = [*torchrun, str(EXAMPLES / "accelerate_loop.py"), str(packed.folder), "--steps", "2"]
    printed = subprocess.check_output(words, cwd=tmp_path / "two", env=processes.quiet(), text=True)
    shared = steps(printed.splitlines())
    assert [line.split()[-1] for line in shared] == [line.split()[-1] for line in whole]
    assert shared != whole


def test_camvid(tmp_path):
    miniatures.camvid(tmp_path / "raw")
    printed = example("camvid.py", tmp_path, "raw", "work", "--steps", 2)

    assert re.fullmatch(r"mean IoU \d+\.\d%, pixel accuracy \d+\.\d%", printed[-2])
    assert printed[-1] == "1 predictions in work/predictions"
    data = ps.open(tmp_path / "work" / "data")
    assert (len(data.classes), data.opened.description.ignore_label) == (11, 11)
    (scored,) = (tmp_path / "work" / "runs").glob("0*/evaluations/test-*.json")
    assert f"mean IoU {json.loads(scored.read_text())['mean_iou']:.1%}" in printed[-2]


def test_cifar10(tmp_path):
    miniatures.cifar10(tmp_path / "raw")
    (line,) = example("cifar10.py", tmp_path, "raw", "work", "--steps", 1)

    (scored,) = (tmp_path / "work" / "runs").glob("0*/evaluations/test-*.json")
    found = json.loads(scored.read_text())
    assert found["tta"] == {"scales": [1.0], "flip": True, "shift": 1}
    assert line == f"top-1 accuracy {found['top1']:.1%}"


def test_hippocampus(tmp_path):
    """Only the cases that were set aside are scored."""
    pytest.importorskip("nibabel")
    from support.volumes import write_cases

    write_cases(tmp_path / "raw", 9)
    printed = example("hippocampus.py", tmp_path, "raw", "work", "--steps", 2)
    held_out = {sample.name.split("/")[0] for sample in ps.open(tmp_path / "work" / "data")["val"]}

    assert 1 < len(held_out) < 5
    assert [line.split()[0] for line in printed[-4:-1]] == ["class", "anterior", "posterior"]
    rows = (tmp_path / "work" / "out" / "dice.csv").read_text().splitlines()
    assert {row.split(",")[0] for row in rows[1:]} == held_out


def test_a_layout_of_ones_own_packs(tmp_path, capsys):
    (tmp_path / "raw").mkdir()
    for name in ("ant", "bee", "bug"):
        cv2.imwrite(str(tmp_path / "raw" / f"{name}.jpg"), np.full((8, 8, 3), ord(name[1]), np.uint8))
    place = f"{OWN}/my_layout.py:recognise"
    assert call("pack", tmp_path / "raw", "-o", tmp_path / "data", "--layout", place, capsys=capsys)[0] == 0

    assert ps.open(tmp_path / "data").classes == ("a", "b")
    assert ps.open(tmp_path / "data")["train"].counts == {"a": 1, "b": 2}
    assert ps.inspect(tmp_path / "raw", layout=place).layout.name == "first letters"

from __future__ import annotations

import re
import shlex
import subprocess

import pytest
from support.commands import call
from support.paths import ROOT

from penstock.cli.demo import _seconds
from penstock.training.finders import TimeFound


@pytest.fixture
def demo(tmp_path, monkeypatch, capsys):
    """The words of the commands of a demo, none of which is run, and what it prints."""

    def run(seconds):
        ran = []

        def pretended(command, **_):
            words, folder = command[3:], tmp_path / "demo/runs/0001-demo"
            ran.append(words)
            if words[0] == "train":
                (folder / "checkpoints/step-00000210").mkdir(parents=True)
                (folder / "checkpoints/best").symlink_to("step-00000210")
                (folder / "evaluations").mkdir()
            if words[0] == "evaluate":
                (folder / "evaluations/test-00000210.json").write_text('{"mean_iou": 0.9}')
            return subprocess.CompletedProcess(command, 0)

        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr("penstock.cli.demo._seconds", lambda data: seconds)
        monkeypatch.setattr("penstock.cli.demo.subprocess.run", pretended)
        code, out, _ = call("demo", capsys=capsys)
        assert code == 0
        return ran, out

    return run


@pytest.mark.parametrize(("seconds", "steps", "time"), [(1.2, 180, "3 min 36 s"), (100.0, 30, "50 min 00 s")])
def test_a_slow_machine_trains_fewer_steps_and_says_so(demo, seconds, steps, time):
    ran, out = demo(seconds)
    (words,) = [words for words in ran if words[0] == "train"]

    assert words[words.index("--steps") + 1] == str(steps)
    assert f"train.evaluate_every={steps // 3}" in words
    assert (
        f"A training step takes {seconds:.3g} s on this machine. Training has {steps} steps instead of 210, about {time}; "
        "the predictions will be worse.\n"
    ) in out


def test_the_time_of_a_step_is_that_of_the_demos_network(packed, monkeypatch):
    asked = []
    monkeypatch.setattr(
        "penstock.training.finders.find_time", lambda recipe: asked.append(recipe) or TimeFound(0.5, 1, "cpu")
    )

    assert _seconds(packed.folder) == 0.5
    (recipe,) = asked
    assert (recipe.model.name, recipe.augment.crop, recipe.train.batch) == ("unet:resnet18", (96, 128), 8)


def test_the_demo_is_what_the_tour_shows(demo):
    ran, out = demo(0.1)
    tour = (ROOT / "docs" / "tour.md").read_text()
    (block,) = re.findall(r"```\n(\$ penstock scenes .*?)```", tour, re.DOTALL)
    shown = [
        shlex.split(line[11:]) for line in block.replace("\\\n", "").splitlines() if line.startswith("$ penstock ")
    ]

    assert "A training step takes" not in out
    assert [words for words in ran if words != ["show", "demo/data", "-o", "demo/records.png"]] == shown
    assert "demo/runs/0001-demo/report.html" in out
    assert "demo/predictions" in out

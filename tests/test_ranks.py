"""Several ranks score as one process does: every integer the same, and what is no integer up to the order of sums; and
torchrun itself, as README has it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import processes
import pytest
from test_detect import learning, squares  # noqa: F401 - a fixture
from test_mended import classes
from training import recipe

from penstock.config import dump
from penstock.training import train

pytestmark = pytest.mark.slow


def scored(ranks, run, *words):
    """What the ranks find and print together."""
    command = ["-m", "penstock", "evaluate", run, "--images", 0, "--device", "cpu", *words]
    done = processes.ranks(ranks, *command) if ranks > 1 else processes.run(*command)
    assert done.returncode == 0, done.stderr
    (path,) = [path for path in (run / "evaluations").iterdir() if not path.name.startswith("step-")]
    found = json.loads(path.read_text())
    path.unlink()
    return found, [line for line in done.stdout.splitlines() if ": loss " not in line]


def parted(value):
    """The integers and texts of an answer, and its other numbers, in order."""
    if isinstance(value, dict | list):
        pairs = [parted(each) for each in (value.values() if isinstance(value, dict) else value)]
        return [x for exact, _ in pairs for x in exact], [x for _, rounded in pairs for x in rounded]
    return ([], [value]) if isinstance(value, float) else ([value], [])


def compared(run, *words):
    alone, said = scored(1, run, *words)
    exact, rounded = parted(alone)
    assert len(exact) > 4
    for ranks in (2, 3):
        found, printed = scored(ranks, run, *words)
        assert (parted(found)[0], printed) == (exact, said)
        assert parted(found)[1] == pytest.approx(rounded, rel=1e-5, abs=1e-9)
    return alone


def test_masks(packed, tmp_path):
    folder, _ = train(recipe(packed.folder, ema_decay=0.0), tmp_path)
    found = compared(folder.path, "--segments")

    assert sum(map(sum, found["confusion"])) > 7 * 64 * 90  # seven images, nearly all labelled
    assert "panoptic_quality" in found


def test_classes(tmp_path):
    compared(train(classes(tmp_path), tmp_path / "runs")[0].path, "--split", "train")


def test_boxes(squares, tmp_path):  # noqa: F811 - a fixture
    chosen = learning(squares)
    compared(train(chosen, tmp_path)[0].path)


def test_torchrun_trains_the_batches_of_one_process(packed, tmp_path):
    file = tmp_path / "recipe.toml"
    file.write_text(dump(recipe(packed.folder, steps=3)))
    torchrun = [Path(sys.executable).with_name("torchrun"), "--nproc-per-node", "2"]
    words = ["-m", "penstock", "train", file, "--runs"]
    ranks = subprocess.run(
        [*torchrun, *words, tmp_path / "two"], env=processes.quiet(), capture_output=True, text=True, check=False
    )
    assert ranks.returncode == 0, ranks.stderr
    processes.run(*words, tmp_path / "one", check=True)

    def trained(runs):
        (run,) = (path for path in (tmp_path / runs).iterdir() if path.name[0].isdigit())
        steps = [json.loads(line)["step"] for line in (run / "metrics.jsonl").read_text().splitlines()]
        return steps, (run / "origins.jsonl").read_text()

    assert trained("two") == trained("one")

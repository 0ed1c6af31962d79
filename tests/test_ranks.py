"""Several ranks score as one process does: every integer the same, and what is no integer up to the order of sums."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import pytest
from processes import QUIET
from ranks_child import scores_of
from test_detect import learning
from test_mended import classes
from training import recipe

from penstock.recipe import train

pytestmark = pytest.mark.slow
TESTS = Path(__file__).parent


def together(ranks, run, out):
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    words = [*launch, TESTS / "ranks_child.py", run, out]
    done = subprocess.run(
        [*map(str, words)], env={**QUIET, "PYTHONPATH": str(TESTS)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(out.read_text())


def parted(value):
    """The integers and texts of an answer, and its other numbers, in order."""
    if isinstance(value, dict):
        pairs = [parted(each) for each in value.values()]
    elif isinstance(value, list):
        pairs = [parted(each) for each in value]
    else:
        return ([], [value]) if isinstance(value, float) else ([value], [])
    return [x for exact, _ in pairs for x in exact], [x for _, rounded in pairs for x in rounded]


def compared(run, tmp_path):
    exact, rounded = parted(json.loads(scores_of(run)))
    assert len(exact) > 4
    for ranks in (2, 3):
        others = parted(together(ranks, run, tmp_path / f"{ranks}.json"))
        assert others[0] == exact
        assert others[1] == pytest.approx(rounded, rel=1e-5, abs=1e-9)


def test_masks(packed, tmp_path):
    folder, _ = train(recipe(packed.folder, steps=4), tmp_path)
    found = json.loads(scores_of(folder.path))
    assert sum(map(sum, found["confusion"])) > 7 * 64 * 90  # seven pictures, nearly all labelled
    assert "panoptic_quality" in found
    compared(folder.path, tmp_path)


def test_classes(tmp_path):
    compared(train(classes(tmp_path), tmp_path / "runs")[0].path, tmp_path)


def test_boxes(tmp_path):
    chosen = learning(tmp_path)
    chosen = dataclasses.replace(chosen, data=dataclasses.replace(chosen.data, validation="val"))
    compared(train(chosen, tmp_path / "runs")[0].path, tmp_path)

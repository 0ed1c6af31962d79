"""Class-balanced sampling, from packing to the origins of a training."""

from __future__ import annotations

import json
import re
from collections import Counter

import numpy as np
import pytest
from support.commands import call
from support.images import array_png
from support.miniatures import write

import penstock as ps
from penstock.assembly import open_experiment, resolve_settings
from penstock.runs import RunFolder


@pytest.fixture(scope="module")
def rare(tmp_path_factory):
    """Thirty images of one class, and two of another."""
    root, draw = tmp_path_factory.mktemp("rare"), np.random.default_rng(0)
    for name, count in (("common", 30), ("rare", 2)):
        for number in range(count):
            write(root / f"raw/{name}/{number}.png", array_png(draw.integers(0, 256, (8, 8, 3), np.uint8)))
    return ps.pack(root / "raw", root / "data") and root / "data"


def words(data, folder, steps=10):
    return [
        "train", data, "--model", "test_resnet", "--weights", "none", "--crop", 8, 8, "--batch", 8, "--steps", steps,
        "--runs", folder, "--set", "data.repeat_threshold=1", "--set", "data.validation=", "--set", "train.log_origins=true",
    ]  # fmt: skip


def origins(run):
    lines = (run / "origins.jsonl").read_text().splitlines()
    return [origin for line in lines for origin in json.loads(line)["origins"]]


def test_rare_classes_come_more_often(rare, tmp_path, capsys):
    code, said, _ = call(*words(rare, tmp_path), capsys=capsys)
    run = RunFolder.open(next(tmp_path.iterdir())).path
    data = ps.open(rare)["train"]
    dataset = open_experiment(
        resolve_settings({"data.path": str(rare), "data.validation": "", "model.weights": "none"}).recipe
    ).dataset
    present, source = dataset.occurrences("train"), dataset.source("train")
    records = [r.origin for p in source.snapshot().partitions for r in source.read(p.name, p.start, p.stop)]
    of_class = {origin: int(np.flatnonzero(row)[0]) for origin, row in zip(records, present, strict=True)}
    seen = Counter(of_class[origin] for origin in origins(run))

    assert code == 0
    places = int(re.search(r"note: classes are balanced: an epoch has (\d+) samples of 32 images", said)[1])
    assert 38 <= places <= 41  # those of the common class come 1.03 times
    assert len(data) == 32
    assert seen[1] / seen.total() == pytest.approx(8 / places, abs=0.03)  # sqrt(32 / 2) = 4 times each
    assert seen.total() == 80


def test_only_records_within_the_limit_come(rare, tmp_path, capsys):
    """Which are of one class here, so that each comes once in an epoch."""
    assert call(*words(rare, tmp_path), "--limit", 12, capsys=capsys)[0] == 0
    seen = Counter(int(origin.rpartition("#")[2]) for origin in origins(RunFolder.open(next(tmp_path.iterdir())).path))

    assert set(seen) == set(range(12))
    assert seen.total() == 80


def test_a_resumed_training_goes_on_in_the_same_order(rare, tmp_path, capsys):
    for name, steps in (("whole", 10), ("part", 4)):
        assert call(*words(rare, tmp_path / name, steps), capsys=capsys)[0] == 0
    whole, part = (next((tmp_path / name).iterdir()) for name in ("whole", "part"))
    assert call("train", "--resume", part, "--steps", 10, capsys=capsys)[0] == 0

    assert origins(part) == origins(whole)


def test_topics_and_old_folders_are_refused(rare, tmp_path, capsys):
    copy = tmp_path / "data"
    copy.mkdir()
    for path in rare.iterdir():
        if not path.name.endswith(".classes.npy"):
            (copy / path.name).write_bytes(path.read_bytes())
    code, _, err = call(*words(copy, tmp_path / "runs"), capsys=capsys)

    assert code == 2
    assert "expected the classes of every record, for data.repeat_threshold, found no such file." in err

from __future__ import annotations

import os
import time
from types import SimpleNamespace

import pytest
import torch
from support.training import recipe

from penstock.errors import CheckpointError
from penstock.hooks.logs import MetricsLog, _marked
from penstock.ranks import Ranks
from penstock.session import Hook
from penstock.training import train


class TestLogs:
    def test_what_a_checkpoint_counts_is_on_the_disk_before_it(self, packed, tmp_path, monkeypatch):
        synced = set()
        sync = os.fsync
        monkeypatch.setattr(os, "fsync", lambda handle: (synced.add(os.fstat(handle).st_ino), sync(handle))[1])
        folder, _ = train(recipe(packed.folder, steps=1), tmp_path)
        assert (folder.path / "metrics.jsonl").stat().st_ino in synced

    def test_times_are_those_of_the_step_and_of_its_wait(self, packed, tmp_path, monkeypatch):
        from penstock.tasks.masks import PrepareSegmentation

        prepare = PrepareSegmentation.__call__
        monkeypatch.setattr(
            PrepareSegmentation, "__call__", lambda *a: (time.sleep(0.1 * (a[2] is not None)), prepare(*a))[1]
        )

        begun, ended = [], []

        class Slow(Hook):
            def on_start(self, session):
                begun.append(time.perf_counter())

            def on_end(self, session):
                ended.append(time.perf_counter())

            def after_backward(self, session):
                time.sleep(1.0 * (session.step == 2))

        chosen = recipe(packed.folder, steps=4, evaluate_every=9, num_threads=1)
        folder, _ = train(chosen, tmp_path, hooks=[Slow()])
        lines = folder.lines("timings.jsonl")

        assert len(lines) == 4
        assert lines[0]["wait"] >= 0.4  # four images, one after the other
        assert lines[2]["seconds"] >= 1.0 + lines[2]["wait"]
        assert sum(line["seconds"] for line in lines) <= ended[0] - begun[0]  # each counts its own step alone
        assert [line["step"] for line in lines] == [1, 2, 3, 4]
        assert all(0 < line["wait"] < line["seconds"] and line["memory"] > 0 for line in lines)

    def test_metrics_tell_the_epoch_and_the_rate_of_every_step(self, packed, tmp_path):
        chosen = recipe(packed.folder, steps=6, evaluate_every=6)
        folder, _ = train(chosen, tmp_path)
        lines = [line for line in folder.lines("metrics.jsonl") if "loss" in line]

        assert [line["epoch"] for line in lines] == pytest.approx([4 * step / 21 for step in range(1, 7)])
        assert [line["lr"] for line in lines] == pytest.approx([0.05 * (1 - step / 6) ** 0.9 for step in range(6)])


@pytest.mark.parametrize("size", [{"a": 1}, "x", [], None, True])
def test_a_length_that_is_no_number_is_named(tmp_path, size):
    with pytest.raises(CheckpointError) as caught:
        MetricsLog(tmp_path / "metrics.jsonl", Ranks()).load_state_dict({"bytes": size})

    assert str(caught.value) == (
        f"{tmp_path}/metrics.jsonl: expected the number of its bytes in the checkpoint, found {size!r}. The checkpoint is "
        "damaged: use another one of the run."
    )


def test_origins_of_padding_are_called_blank():
    batch = SimpleNamespace(origins=["a#0", "a#1", "a#2"], weight=torch.tensor([1.0, 0.0, 1.0]))

    assert _marked(batch) == ["a#0", "a#1 (blank)", "a#2"]

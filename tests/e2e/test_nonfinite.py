"""Trainings some of whose samples give an infinite loss."""

from __future__ import annotations

import dataclasses
import json

import cv2
import pytest
from support.commands import call
from support.norms import two_ranks
from support.training import Stop, recipe, state, stops

from penstock.config import apply, dump
from penstock.errors import NonFiniteError
from penstock.runs import RunFolder
from penstock.session import CheckpointStore
from penstock.settings import Objective
from penstock.training import resume, train

pytestmark = pytest.mark.slow

STEPS = 8
LOSS = '''
import torch
from torch.nn import functional

def some(logits, target, ignore):
    """Infinite for about one image in nine, by what is in its mask."""
    pixels = functional.cross_entropy(logits, target.long(), ignore_index=ignore, reduction="none").mean((1, 2))
    return pixels * torch.where(target.long().flatten(1).sum(1) % 9 == 5, torch.inf, 1.0)
'''


@pytest.fixture(scope="module")
def chosen(packed, tmp_path_factory):
    """A recipe of eight steps, of which some, but not all, are not finite."""
    place = tmp_path_factory.mktemp("loss") / "own.py"
    place.write_text(LOSS)
    made = recipe(packed.folder, steps=STEPS, save_every=3, evaluate_every=4)
    return dataclasses.replace(made, loss=Objective(cross_entropy=0.0, custom=f"{place}:some"))


@pytest.fixture(scope="module")
def skipped(chosen, tmp_path_factory):
    folder, _ = train(apply(chosen, ["train.nonfinite=skip"]), tmp_path_factory.mktemp("skipped"))
    return folder


def left_out(folder):
    return [line["step"] for line in folder.lines("metrics.jsonl") if line.get("left_out")]


def without_checksums(folder):
    return {name: data for name, data in state(folder).items() if name != "manifest.json"}


def test_steps_are_left_out_and_the_others_are_learnt(skipped):
    steps = left_out(skipped)
    metrics = [line for line in skipped.lines("metrics.jsonl") if "lr" in line]
    origins = skipped.lines("origins.jsonl")

    assert 1 < len(steps) < STEPS - 1
    assert [line["step"] for line in metrics] == list(range(1, STEPS + 1))
    assert [line["step"] for line in metrics if "loss" not in line and "grad_norm" not in line] == steps
    assert [line["step"] for line in origins if line.get("left_out")] == steps
    assert json.loads((skipped.checkpoints / "last/state.json").read_text())["left_out"] == steps


@pytest.mark.parametrize("save_every", [pytest.param(1, marks=pytest.mark.soak), 3, 100])
def test_going_back_ends_as_leaving_out_does(chosen, skipped, tmp_path, save_every):
    folder, _ = train(apply(chosen, ["train.nonfinite=rewind", f"train.save_every={save_every}"]), tmp_path)

    assert without_checksums(folder.path) == without_checksums(skipped.path)


@pytest.mark.parametrize("policy", ["skip", "rewind"])
@pytest.mark.every_step
def test_stopped_at_every_step_it_ends_as_if_it_had_not_been(chosen, skipped, tmp_path, policy):
    folder, _ = train(apply(chosen, [f"train.nonfinite={policy}"]), tmp_path, hooks=[Stop(1)])
    for step in stops(range(2, STEPS)):
        resume(folder.path, hooks=[Stop(step)])
    resume(folder.path)

    assert without_checksums(folder.path) == without_checksums(skipped.path)


def test_no_more_are_left_out_than_the_recipe_allows(chosen, skipped, tmp_path):
    with pytest.raises(NonFiniteError, match=r"; .*1 step left out before, as many as train\.nonfinite_limit allows"):
        train(apply(chosen, ["train.nonfinite=skip", "train.nonfinite_limit=1"]), tmp_path)
    (run,) = tmp_path.iterdir()

    assert left_out(RunFolder.open(run)) == left_out(skipped)[:1]


def test_a_run_that_ended_goes_on_once_it_may_leave_steps_out(chosen, skipped, tmp_path):
    with pytest.raises(NonFiniteError):
        train(chosen, tmp_path)
    (run,) = tmp_path.iterdir()
    resume(run, ["train.nonfinite=skip"])

    assert without_checksums(run) == without_checksums(skipped.path)


@pytest.mark.parametrize(
    ("policy", "norms"),
    [
        pytest.param("skip", "train.freeze_bn=true", marks=pytest.mark.soak),
        ("rewind", "train.freeze_bn=true"),
        pytest.param("skip", "train.accumulate=2", marks=pytest.mark.soak),
    ],
)
def test_two_ranks_leave_out_the_same_steps(chosen, tmp_path, policy, norms):
    """One of them has numbers that are not finite, in one of its micro-batches; the other goes through its own."""
    settings = [f"train.nonfinite={policy}", norms, "train.nonfinite_limit=6"]
    one, _ = train(apply(chosen, settings), tmp_path / "one")
    (tmp_path / "recipe.toml").write_text(dump(apply(chosen, settings)))
    two_ranks("-m", "penstock", "train", tmp_path / "recipe.toml", "--trust", "--runs", tmp_path / "two")
    (path,) = (tmp_path / "two").iterdir()
    two = RunFolder.open(path)

    assert left_out(two) == left_out(one)
    assert CheckpointStore(two.checkpoints).load().step == STEPS
    places = sorted(each.name for each in (path / "nonfinite").iterdir())
    assert places == [f"step-{step:08d}" for step in left_out(one)]
    for place in places:
        parts = [
            json.loads((path / "nonfinite" / place / name).read_text()) for name in ("batch.json", "batch-rank1.json")
        ]
        whole = json.loads((one.path / "nonfinite" / place / "batch.json").read_text())
        assert [origin for part in parts for origin in part["origins"]] == whole["origins"]
        assert parts[0]["samples"] == parts[1]["samples"] == whole["samples"]


def test_its_batch_is_kept_with_the_samples_that_it_is_about(skipped):
    for step in left_out(skipped):
        place = skipped.path / "nonfinite" / f"step-{step:08d}"
        found = json.loads((place / "batch.json").read_text())
        (line,) = [each for each in skipped.lines("origins.jsonl") if each["step"] == step]
        (event,) = [each for each in skipped.lines("events.jsonl") if each.get("step") == step and "began_in" in each]

        assert found["origins"] == line["origins"]
        assert (found["loss"], found["began_in"], found["action"]) == ("inf", "the loss", "skip")
        assert 0 < len(found["samples"]) < 4
        assert set(found["samples"]) < set(found["origins"])
        assert (event["event"], event["samples"]) == ("not finite", found["samples"])
        assert cv2.imread(str(place / "images.png")).shape[0] > 320


def test_people_are_told_what_is_left_out(chosen, tmp_path, capsys):
    (tmp_path / "recipe.toml").write_text(dump(apply(chosen, ["train.nonfinite=rewind"])))
    code, out, _ = call("train", tmp_path / "recipe.toml", "--trust", "--runs", tmp_path / "runs", capsys=capsys)
    (run,) = (tmp_path / "runs").iterdir()
    lines = [line for line in out.splitlines() if "gradient norm" in line]
    found = json.loads((run / f"nonfinite/step-{left_out(RunFolder.open(run))[0]:08d}/batch.json").read_text())

    assert code == 0
    assert len(lines) == len(left_out(RunFolder.open(run)))
    assert lines[0] == (
        f"step {found['step']:>6,}  loss inf, gradient norm {found['gradient_norm']}; it began in the loss, with "
        f"{', '.join(found['samples'])}. Training goes back to step {(found['step'] - 1) // 3 * 3}, and this step is then "
        f"left out: see {run}/nonfinite/step-{found['step']:08d}"
    )
    assert call("report", run, capsys=capsys)[0] == 0
    assert call("runs", tmp_path / "runs", capsys=capsys)[1].count(f"{STEPS}") > 0

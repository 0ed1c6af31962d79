"""Epochs, early stopping, and trainings on a part of the data."""

from __future__ import annotations

import dataclasses
import json

import pytest
from support.commands import call
from support.training import recipe, state, stops

import penstock as ps
from penstock.assembly import open_experiment
from penstock.config import toml
from penstock.datasets import FolderDataset
from penstock.errors import RecipeError
from penstock.session import Hook
from penstock.training import resume, train
from penstock.values import Partition, Snapshot

pytestmark = pytest.mark.slow

SMALL = ("--model", "unet:test_resnet", "--weights", "none", "--crop", "32", "32", "--device", "cpu")


def lines(run):
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def settings(run):
    return toml.load(run / "recipe.toml")


def origins(run):
    return [each for line in (run / "origins.jsonl").read_text().splitlines() for each in json.loads(line)["origins"]]


@pytest.fixture(scope="module")
def records(packed):
    return FolderDataset.open(packed.folder).split("train").records


class TestEpochs:
    def test_are_whole_passes_with_an_evaluation_after_each(self, packed, records, tmp_path, capsys):
        words = ("--epochs", 2, "--batch", records, "--set", "train.log_origins=true", "--runs", tmp_path)
        code, _, err = call("train", packed.folder, *SMALL, *words, capsys=capsys)
        assert code == 0, err
        (run,) = tmp_path.iterdir()
        assert [line["step"] for line in lines(run) if "evaluation" in line] == [1, 2]
        seen = origins(run)
        assert len(seen) == 2 * records
        assert all(seen.count(origin) == 2 for origin in set(seen))
        assert (settings(run).train.epochs, settings(run).train.steps, settings(run).train.save_every) == (2.0, 2, 1)

    def test_are_the_same_from_python_and_from_a_recipe(self, packed, records, tmp_path):
        file = tmp_path / "own.toml"
        file.write_text(f'[data]\npath = "{packed.folder}"\n[train]\nepochs = 1.5\nbatch = 2\n')
        small = {"model.name": "unet:test_resnet", "model.weights": "none", "augment.crop": [32, 32]}
        one = {"runs": tmp_path / "runs", "device": "cpu", "settings": small}
        steps = -(-records * 3 // 4)
        for run in (
            ps.train(packed.folder, epochs=1.5, batch=2, hooks=[StopAt(1)], **one),
            ps.train(file, hooks=[StopAt(1)], **one),
        ):
            assert settings(run.path).train.steps == steps
            assert settings(run.path).train.evaluate_every == -(-records // 2)

    def test_contradicting_steps_are_refused(self, packed, records, tmp_path, capsys):
        words = ("--epochs", 1, "--steps", 7, "--batch", 1, "--runs", tmp_path)
        code, _, err = call("train", packed.folder, *SMALL, *words, capsys=capsys)
        assert (code, err) == (
            2,
            f"error: train.epochs=1 are {records} steps, but train.steps is 7. Remove one of the two settings.\n",
        )

    def test_of_a_topic_are_not_known(self, tmp_path, capsys):
        from penstock.assembly import steps_of

        plain = recipe("kafka://localhost:1/t", epochs=1.0)
        with pytest.raises(RecipeError) as caught:
            steps_of(plain)
        assert str(caught.value) == (
            "train.epochs: expected a packed dataset in a folder, whose records are counted, found "
            "kafka://localhost:1/t. Give --steps instead."
        )

    def test_more_of_them_continue_a_run(self, packed, records, tmp_path, capsys):
        words = ("--epochs", 1, "--batch", records, "--runs", tmp_path)
        assert call("train", packed.folder, *SMALL, *words, capsys=capsys)[0] == 0
        (run,) = tmp_path.iterdir()
        assert call("train", "--resume", run, "--epochs", 3, capsys=capsys)[0] == 0
        assert (settings(run).train.epochs, settings(run).train.steps, lines(run)[-1]["step"]) == (3.0, 3, 3)
        assert call("train", "--resume", run, "--steps", 4, capsys=capsys)[0] == 0
        assert (settings(run).train.epochs, settings(run).train.steps) == (0.0, 4)


class StopAt(Hook):
    def __init__(self, step):
        self.step = step

    def after_step(self, session):
        if session.step == self.step:
            session.request_stop("the test asks")


def scripted(monkeypatch, values):
    """Evaluations score as a list says, one after the other."""
    from penstock.session import best

    left = iter(values)
    monkeypatch.setattr(best.BestMetric, "value", lambda self, scores: next(left))


class TestPatience:
    def patient(self, packed, patience=2):
        return recipe(packed.folder, steps=12, evaluate_every=1, save_every=1, patience=patience)

    def test_ends_after_evaluations_without_a_better_score(self, packed, tmp_path, monkeypatch):
        scripted(monkeypatch, [0.1, 0.3, 0.2, 0.4, 0.4, 0.3, 0.9])
        folder, outcome = train(self.patient(packed), tmp_path)
        assert (outcome.status, outcome.step, outcome.reason) == (
            "stopped",
            6,
            "no better score in 2 evaluations (train.patience)",
        )
        assert (folder.checkpoints / "best").resolve().name == "step-00000005"  # of equal ones the newer

    @pytest.mark.every_step
    def test_is_counted_on_after_a_resume_at_every_step(self, packed, tmp_path, monkeypatch):
        values = [0.1, 0.3, 0.2, 0.25, 0.2]
        for stop in stops(range(1, 5)):
            scripted(monkeypatch, values)
            folder, _ = train(self.patient(packed, 3), tmp_path / str(stop), hooks=[StopAt(stop)])
            # The evaluation of the step at which it stopped is made up for after the resume.
            _, outcome = resume(folder.path)
            assert outcome.step == 5
            assert outcome.reason == "no better score in 3 evaluations (train.patience)"

    def test_needs_an_evaluation(self, packed, tmp_path):
        plain = self.patient(packed)
        with pytest.raises(RecipeError) as caught:
            train(dataclasses.replace(plain, data=dataclasses.replace(plain.data, validation="")), tmp_path)
        assert str(caught.value) == (
            "train.patience has no effect: it needs data.validation set, but data.validation is nothing. Remove "
            "train.patience, or change data.validation."
        )


class TestLimit:
    def test_takes_the_first_records_of_the_partitions(self):
        whole = Snapshot("s", (Partition("a", 3, 8, "x"), Partition("b", 0, 4, "y")))
        assert [(p.name, p.start, p.stop) for p in whole.first(2).partitions] == [("a", 3, 5)]
        assert [(p.name, p.start, p.stop) for p in whole.first(7).partitions] == [("a", 3, 8), ("b", 0, 2)]
        assert whole.first(100) == whole
        assert whole.first(5).digest != whole.digest

    def test_training_and_its_evaluation_see_so_many_records_and_evaluate_all(self, packed, tmp_path):
        plain = recipe(packed.folder, steps=6, batch=3, evaluate_every=6, ema_decay=0.0)
        folder, _ = train(dataclasses.replace(plain, data=dataclasses.replace(plain.data, limit=3)), tmp_path)
        seen = origins(folder.path)
        assert (len(seen), len(set(seen))) == (18, 3)
        parts = open_experiment(settings(folder.path))
        assert len(parts.evaluation("val", whole=False)[1].plan) == 3
        assert len(parts.evaluation("val")[1].plan) == FolderDataset.open(packed.folder).split("val").records

    def test_scores_of_training_are_those_of_the_limited_records(self, packed, tmp_path):
        plain = recipe(packed.folder, steps=2, batch=3, evaluate_every=2, ema_decay=0.0)
        folder, _ = train(dataclasses.replace(plain, data=dataclasses.replace(plain.data, limit=2)), tmp_path)
        (found,) = [json.loads(path.read_text()) for path in (folder.path / "evaluations").glob("step-*.json")]
        assert sum(map(sum, found["confusion"])) == 2 * 64 * 96

    @pytest.mark.every_step
    def test_is_kept_through_a_resume(self, packed, tmp_path):
        plain = recipe(packed.folder, steps=6, batch=3, evaluate_every=2, save_every=1)
        limited = dataclasses.replace(plain, data=dataclasses.replace(plain.data, limit=4))
        whole, _ = train(limited, tmp_path / "whole")
        for stop in stops(range(1, 6)):
            folder, _ = train(limited, tmp_path / str(stop), hooks=[StopAt(stop)])
            resume(folder.path)
            assert state(folder.path) == state(whole.path)

    def test_overfit_evaluates_the_records_it_trains_on(self, packed, tmp_path, capsys):
        words = ("--overfit", 2, "--batch", 2, "--steps", 2, "--runs", tmp_path)
        code, _, err = call("train", packed.folder, *SMALL, *words, capsys=capsys)
        assert code == 0, err
        (run,) = tmp_path.iterdir()
        parts = open_experiment(settings(run))
        _, feed = parts.evaluation("train", whole=False)
        assert feed.plan.snapshot == parts.plan.snapshot
        assert len(feed.plan) == 2

    def test_fast_dev_run_steps_evaluates_and_saves(self, packed, tmp_path, capsys):
        code, _, err = call("train", packed.folder, *SMALL, "--fast-dev-run", "--runs", tmp_path, capsys=capsys)
        assert code == 0, err
        (run,) = tmp_path.iterdir()
        assert [line["step"] for line in lines(run) if "loss" in line] == [1, 2]
        assert [line["step"] for line in lines(run) if "evaluation" in line] == [2]
        assert (run / "checkpoints/step-00000002").is_dir()
        assert settings(run).data.limit == 32

"""Against MLflow itself, which writes to a folder."""

from __future__ import annotations

import dataclasses
import json

import pytest
from support.training import Stop, recipe

from penstock.config import load
from penstock.hooks.mirror import settings_of
from penstock.training import resume, train


@pytest.fixture
def client(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow", reason="mlflow is not installed")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlruns").as_uri())
    return mlflow.MlflowClient()


def chosen(packed, *hooks, **settings):
    settings = {"steps": 6, "save_every": 3, "evaluate_every": 4, **settings}
    return dataclasses.replace(recipe(packed.folder, **settings), hooks=hooks)


def test_a_run_and_its_resume_are_one_run_there(packed, tmp_path, client):
    made = chosen(packed, {"name": "mlflow", "experiment": "roads", "every": 1})
    folder, _ = train(made, tmp_path / "runs", "first", hooks=[Stop(5)])
    (run,) = client.search_runs([client.get_experiment_by_name("roads").experiment_id])
    assert (run.info.run_name, run.info.status) == (folder.path.name, "FINISHED")
    resume(folder.path)
    (run,) = client.search_runs([client.get_experiment_by_name("roads").experiment_id])
    lines = [json.loads(line) for line in (folder.path / "metrics.jsonl").read_text().splitlines()]
    steps = [line for line in lines if "loss" in line]

    assert run.data.tags["penstock.run"] == str(folder.path)
    settings = settings_of(folder.path)
    assert len(settings) > 100
    assert run.data.params == {name: str(value) for name, value in settings.items()}
    assert settings["train.steps"] == load(folder.path / "recipe.toml").train.steps == 6
    for name, key in (("train/loss", "loss"), ("train/lr", "lr"), ("train/grad_norm", "grad_norm")):
        found = [(each.step, each.value) for each in client.get_metric_history(run.info.run_id, name)]
        assert found == [(line["step"], line[key]) for line in steps]
    speeds = client.get_metric_history(run.info.run_id, "train/images_per_second")
    assert [each.step for each in speeds] == [1, 2, 3, 4, 5, 6]
    assert all(each.value > 0 for each in speeds)
    found = {each.step: each.value for each in client.get_metric_history(run.info.run_id, "evaluation/mean_iou")}
    assert found == {line["step"]: line["evaluation"]["mean_iou"] for line in lines if "evaluation" in line}


def test_a_training_that_fails_is_a_run_that_failed(packed, tmp_path, client):
    class Fails(Stop):
        def after_step(self, session):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        train(chosen(packed, "mlflow"), tmp_path / "runs", hooks=[Fails(1)])
    (run,) = client.search_runs([client.get_experiment_by_name("penstock").experiment_id])
    assert run.info.status == "FAILED"


def test_a_server_that_is_away_ends_nothing(packed, tmp_path, client, monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    away = {"name": "mlflow", "uri": "http://127.0.0.1:9"}
    folder, outcome = train(chosen(packed, away, steps=2), tmp_path / "runs")
    (line,) = [line for line in (folder.path / "log.txt").read_text().splitlines() if "MLflow" in line]

    assert outcome.status == "finished"
    assert line.startswith("note: MLflow: ")
    assert line.endswith("Nothing more is written to it; training goes on, and the run folder has everything")


def test_a_run_that_was_interrupted_says_so_and_runs_again(packed, tmp_path, client):
    """Until the end of its resume: MLflow lists what runs."""

    class Interrupts(Stop):
        def after_step(self, session):
            if session.step == self.step:
                raise KeyboardInterrupt

    class Looks(Stop):
        def after_step(self, session):
            seen.append(status())

    def status():
        (run,) = client.search_runs([client.get_experiment_by_name("penstock").experiment_id])
        return run.info.status

    seen = []
    with pytest.raises(KeyboardInterrupt):
        train(chosen(packed, "mlflow"), tmp_path / "runs", "one", hooks=[Interrupts(4)])
    seen.append(status())
    (path,) = (tmp_path / "runs").iterdir()
    resume(path, hooks=[Looks(9)])

    assert (seen[0], {*seen[1:]}, status()) == ("FAILED", {"RUNNING"}, "FINISHED")

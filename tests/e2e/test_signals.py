from __future__ import annotations

import json
import os
import signal

import pytest
from support.commands import call
from support.training import Stop, recipe

from penstock.session import CheckpointStore, Hook, Outcome
from penstock.training import resume, train


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_save_and_end(packed, tmp_path, number):
    class Signal(Hook):
        def before_step(self, session):
            if session.step == 2:
                os.kill(os.getpid(), number)

    before = signal.getsignal(number)
    # Nothing else saves at that step.
    folder, outcome = train(recipe(packed.folder, save_every=99, evaluate_every=99), tmp_path, hooks=[Signal()])

    assert outcome == Outcome("interrupted", signal.Signals(number).name, 3, int(number))
    assert CheckpointStore(folder.checkpoints).load().step == 3
    assert signal.getsignal(number) == before


def test_an_outcome_says_why_training_ended(packed, tmp_path):
    short = recipe(packed.folder, steps=2, evaluate_every=9)

    assert train(short, tmp_path)[1] == Outcome("finished", "step 2 reached", 2)
    assert train(short, tmp_path, hooks=[Stop(1)])[1] == Outcome("stopped", "the test asks", 1)


@pytest.mark.parametrize(("number", "reported"), [(signal.SIGINT, True), (signal.SIGTERM, False)])
def test_who_interrupts_has_a_report_and_who_terminates_is_not_kept_waiting(
    packed, tmp_path, capsys, monkeypatch, number, reported
):
    def interrupted(chosen, root, name, hooks, on_event, go_on):
        class Signal(Hook):
            def before_step(self, session):
                if session.step == 2:
                    os.kill(os.getpid(), number)

        return train(recipe(packed.folder), root, name, hooks=[Signal()], on_event=on_event)

    monkeypatch.setattr("penstock.cli.training.train_recipe", interrupted)
    code, out, err = call("train", packed.folder, "--runs", tmp_path, capsys=capsys)
    (run,) = tmp_path.iterdir()

    assert (code, err) == (128 + number, "")
    assert f"saved; go on with: penstock train --resume {run}" in out.splitlines()
    assert (run / "report.html").is_file() == reported
    assert (f"report {run / 'report.html'}" in out.splitlines()) == reported


def test_a_signal_during_an_evaluation_ends_it_and_a_resume_does_it(packed, whole_run, tmp_path):
    class Once(Hook):
        def after_step(self, session):
            if session.step == 4:
                session.evaluate_with = interrupted(session.evaluate_with)

    def interrupted(evaluate):
        def run(model, stop):
            os.kill(os.getpid(), signal.SIGTERM)
            return evaluate(model, stop)

        return run

    folder, outcome = train(recipe(packed.folder), tmp_path, hooks=[Once()])
    assert (outcome.status, outcome.step) == ("interrupted", 4)
    lines = [json.loads(line) for line in folder.metrics.read_text().splitlines()]
    assert not any("evaluation" in line for line in lines)
    resume(folder.path)
    assert folder.metrics.read_bytes() == (whole_run / "metrics.jsonl").read_bytes()

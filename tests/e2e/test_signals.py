from __future__ import annotations

import functools
import json
import os
import signal
import time

import pytest
from support.commands import call
from support.processes import Child, kill_tree
from support.training import Stop, recipe, state

from penstock.session import CheckpointStore, Hook, Outcome
from penstock.training import resume, train

pytestmark = pytest.mark.slow


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


class Send(Hook):
    """Sends a signal to its own process, once, in a phase of the training."""

    def __init__(self, number, phase):
        self.number, self.phase, self.saves, self.sent = number, phase, [], 0
        for point in POINTS:
            setattr(self, point, functools.partial(self.reached, point))

    def reached(self, point, session, *arguments):
        if point == "on_start" and self.phase in ("saving", "evaluating"):
            owner, name = (session.saver, "save") if self.phase == "saving" else (session, "evaluate_with")
            setattr(owner, name, self.around(getattr(owner, name), session))
        if point == "after_save":
            self.saves.append(int(arguments[0].name.removeprefix("step-")))
        if point == self.phase:
            self.send(session)

    def around(self, function, session):
        def called(*arguments):
            self.send(session)
            return function(*arguments)

        return called

    def send(self, session):
        if session.step >= 4 or self.phase == "on_start":
            number, self.number = self.number, 0
            if number:
                self.sent = session.step
                os.kill(os.getpid(), number)


@pytest.fixture(scope="module")
def with_it(packed, tmp_path_factory):
    """An undisturbed run with that hook, which its checkpoints name."""
    folder, _ = train(recipe(packed.folder), tmp_path_factory.mktemp("with"), hooks=[Send(0, "")])
    return folder.path


POINTS = ("on_start", "before_step", "after_backward", "after_step", "after_save", "after_eval", "on_end")
PHASES = (*POINTS, "saving", "evaluating")
QUICK = {
    *((signal.SIGINT, phase) for phase in PHASES),
    (signal.SIGTERM, "after_step"),
    *((signal.SIGUSR1, phase) for phase in ("on_start", "after_save", "evaluating")),
}
"""What is tried in every run; `make soak` tries each signal in each phase."""
SENT = [
    pytest.param(number, phase, marks=[] if (number, phase) in QUICK else pytest.mark.soak)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
    for phase in PHASES
]


@pytest.mark.parametrize(("number", "phase"), SENT)
def test_a_signal_in_any_phase_loses_nothing(packed, whole_run, with_it, tmp_path, number, phase):
    """Those that end a training save its last finished step, SIGUSR1 saves and goes on; the run ends as undisturbed."""
    hook = Send(number, phase)
    folder, outcome = train(recipe(packed.folder), tmp_path, hooks=[hook])
    saved = CheckpointStore(folder.checkpoints).load().step
    done = {"on_start": 1, "before_step": 5, "after_backward": 5, "after_eval": 5}.get(phase, 4)

    if number == signal.SIGUSR1 or phase == "on_end":
        asked = {"on_start": {1}, "after_step": {4}, "on_end": {12}, "after_save": {hook.sent, hook.sent + 1}}
        usual = {3, 4, 6, 8, 9, 12}
        assert (outcome.status, saved) == ("finished", 12)
        assert len({*hook.saves}) == len(hook.saves)
        assert {*hook.saves} in [usual | {step} for step in asked.get(phase, {5})]
        assert state(folder.path) == state(with_it)
    else:
        assert outcome == Outcome("interrupted", signal.Signals(number).name, done, int(number))
        assert saved == done
        resume(folder.path)
        assert state(folder.path) == state(whole_run)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_before_training_begins(packed, tmp_path, number):
    """Those that end a training leave nothing behind; SIGUSR1 finds nothing to save, and ends nothing."""
    (tmp_path / "net.py").write_text(
        "import pathlib, time\nfrom penstock.models import build_segmenter\n\n\ndef build(*, classes, **options):\n"
        "    folder = pathlib.Path(__file__).parent\n    (folder / 'here').touch()\n"
        "    while not (folder / 'go').exists():\n        time.sleep(0.01)\n"
        "    import torch\n    return torch.nn.Conv2d(3, classes, 1)\n"
    )
    words = ["--model", f"{tmp_path / 'net.py'}:build", "--steps", 1, "--crop", 32, 32, "--batch", 2, "--device", "cpu"]
    child = Child(["-m", "penstock", "train", packed.folder, *words, "--runs", tmp_path / "runs"])
    try:
        end = time.monotonic() + 120
        while not (tmp_path / "here").exists():
            assert child.poll() is None
            assert time.monotonic() < end
            time.sleep(0.01)
        child.send_signal(number)
        if number == signal.SIGUSR1:
            time.sleep(0.2)
            (tmp_path / "go").touch()
        code = child.wait(120)
    finally:
        kill_tree(child)
    out, err = child.printed()

    if number == signal.SIGUSR1:
        assert (code, err) == (0, "")
        assert "finished at step 1" in out
    else:
        assert (code, err) == (128 + number, "interrupted\n")
        assert not (tmp_path / "runs").exists()


def test_an_outcome_says_why_training_ended(packed, tmp_path):
    short = recipe(packed.folder, steps=2, evaluate_every=9)

    assert train(short, tmp_path)[1] == Outcome("finished", "step 2 reached", 2)
    assert train(short, tmp_path, hooks=[Stop(1)])[1] == Outcome("stopped", "the test asks", 1)


@pytest.mark.parametrize(("number", "reported"), [(signal.SIGINT, True), (signal.SIGTERM, False)])
def test_who_interrupts_has_a_report_and_who_terminates_is_not_kept_waiting(
    packed, tmp_path, capsys, monkeypatch, number, reported
):
    def interrupted(chosen, root, name, hooks, on_event, **_):
        class Signal(Hook):
            def before_step(self, session):
                if session.step == 2:
                    os.kill(os.getpid(), number)

        return train(recipe(packed.folder), root, name, hooks=[Signal()], on_event=on_event)

    monkeypatch.setattr("penstock.training.train", interrupted)
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

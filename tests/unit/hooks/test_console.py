from __future__ import annotations

import re

import pytest
import torch
from support.clock import Clock, clocked_session
from support.training import recipe

from penstock.cli.events import show
from penstock.hooks import Console
from penstock.session import Outcome
from penstock.training import train


class Scores:
    def summary(self):
        return {"mean_iou": 0.5, "pixel_accuracy": 0.75}


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


class TestConsole:
    def lines(self, clock, tmp_path, interval=10, evaluated=0.0, wait=0.1, seconds=2.0, steps=20, begin=0, whole=100):
        """The lines of some steps, with an evaluation after the tenth."""
        training, hook = clocked_session(begin, whole), Console(tmp_path / "log.txt", interval)
        hook.on_start(training)
        for _ in range(steps):
            clock.now += seconds
            training.step += 1
            training.timing = {"step": seconds, "wait": wait}
            hook.after_step(training)
            if training.step == 10 and evaluated:
                clock.now += evaluated
                hook.after_eval(training, Scores(), 0.125)
        return (tmp_path / "log.txt").read_text().splitlines()

    def test_says_how_fast_it_is_how_long_data_is_waited_for_and_how_long_it_will_take(self, clock, tmp_path):
        assert self.lines(clock, tmp_path)[1:] == [
            "step     10  loss 0.2500  lr 1.00e-02  4.0 images/s  data wait 5%  3:00 left",
            "step     20  loss 0.2500  lr 1.00e-02  4.0 images/s  data wait 5%  2:40 left",
        ]

    def test_the_time_of_an_evaluation_is_none_of_training(self, clock, tmp_path):
        assert self.lines(clock, tmp_path, evaluated=500.0)[2:] == [
            "step     10  evaluation  loss 0.1250  mean_iou 0.5000  pixel_accuracy 0.7500  (best)",
            "step     20  loss 0.2500  lr 1.00e-02  4.0 images/s  data wait 5%  2:40 left",
        ]

    def test_slow_steps_have_a_line_every_half_minute(self, clock, tmp_path):
        found = self.lines(clock, tmp_path, seconds=11.0, steps=7)
        assert [line.split()[1] for line in found[1:]] == ["3", "6"]

    def test_the_last_step_has_one_and_hours_are_said(self, clock, tmp_path):
        found = self.lines(clock, tmp_path, interval=1, seconds=29.0, begin=98, steps=2, whole=100)
        assert found[0] == (
            f"resuming at step 98 to 100 on cpu ({torch.get_num_threads()} thread"
            f"{'s' if torch.get_num_threads() > 1 else ''}), float32, 1 rank, 8 images a step"
        )
        assert [line.split("  ")[-1] for line in found[1:]] == ["0:29 left", "0:00 left"]
        (tmp_path / "far").mkdir()
        far = self.lines(clock, tmp_path / "far", interval=1, seconds=29.0, steps=1, whole=1000)
        assert far[-1].endswith("8:02:51 left")

    def test_the_end_is_said(self, clock, tmp_path):
        training, hook = clocked_session(5), Console(tmp_path / "log.txt", 10)
        training.outcome = Outcome("stopped", "enough", 1005)
        hook.on_end(training)
        assert (tmp_path / "log.txt").read_text() == "stopped at step 1,005: enough\n"


def test_slow_steps_are_told_of_before_there_are_many(packed, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("penstock.hooks.console._LONG", 0.0)
    train(recipe(packed.folder, steps=3, evaluate_every=3, log_every=1000), tmp_path / "runs", on_event=show)

    assert re.findall(r"^step +(\d+)  loss .* images/s", capsys.readouterr().out, re.MULTILINE) == ["1", "2", "3"]


def test_the_console_has_a_line_as_often_as_asked(packed, tmp_path):
    folder, _ = train(recipe(packed.folder, log_every=5, evaluate_every=99), tmp_path)
    lines = (folder.path / "log.txt").read_text().splitlines()

    assert [int(line.split()[1]) for line in lines if "  data wait " in line] == [5, 10, 12]


def test_the_last_step_has_a_line(packed, tmp_path):
    folder, _ = train(recipe(packed.folder, steps=3, log_every=50), tmp_path)

    assert [
        line[:12]
        for line in (folder.path / "log.txt").read_text().splitlines()
        if "  loss " in line and "evaluation" not in line
    ] == ["step      3  "[:12]]


def test_a_slow_evaluation_says_how_far_it_is(clock, tmp_path):
    """Every quarter of a minute in which nothing else is said."""
    hook = Console(tmp_path / "log.txt", 10)
    hook.on_start(clocked_session(0, 100))
    for done in range(1, 10):
        clock.now += 6
        hook.evaluating(done, 9)
    assert (tmp_path / "log.txt").read_text().splitlines()[1:] == [
        f"evaluation: {done} of 9 images" for done in (3, 6, 9)
    ]


def test_a_training_says_how_far_its_evaluations_are(packed, tmp_path, monkeypatch):
    monkeypatch.setattr("penstock.hooks.console._SLOW", -1.0)
    folder, _ = train(recipe(packed.folder, steps=2), tmp_path)
    lines = [line for line in (folder.path / "log.txt").read_text().splitlines() if line.startswith("evaluation: ")]
    assert lines == ["evaluation: 4 of 7 images", "evaluation: 7 of 7 images"]

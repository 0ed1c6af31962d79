"""What hooks say and ask for by the clock, on a clock of our own."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from penstock.hooks import Console, SaveByTime, console, saving
from penstock.ranks import Ranks
from penstock.session import Options, Outcome


class Clock:
    """Seconds that pass when they are told to."""

    def __init__(self, monkeypatch):
        self.now = 1000.0
        own = SimpleNamespace(monotonic=lambda: self.now, perf_counter=lambda: self.now)
        for module in (console, saving):  # of them alone: other threads go on by the real one
            monkeypatch.setattr(module, "time", own)


class Scores:
    def summary(self):
        return {"mean_iou": 0.5, "pixel_accuracy": 0.75}


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


def session(step=0, steps=100):
    return SimpleNamespace(
        step=step, options=Options(steps), ranks=Ranks(), device=torch.device("cpu"), feed=SimpleNamespace(batch=8),
        loss=0.25, lr=0.01, timing={"step": 0.0, "wait": 0.0}, is_best=True, outcome=None,
    )  # fmt: skip


class TestConsole:
    def lines(self, clock, tmp_path, interval=10, evaluated=0.0, wait=0.1, seconds=2.0, steps=20, begin=0, whole=100):
        """The lines of some steps, with an evaluation after the tenth."""
        training, hook = session(begin, whole), Console(tmp_path / "log.txt", interval)
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
        training, hook = session(5), Console(tmp_path / "log.txt", 10)
        training.outcome = Outcome("stopped", "enough", 1005)
        hook.on_end(training)
        assert (tmp_path / "log.txt").read_text() == "stopped at step 1,005: enough\n"


class TestSaveByTime:
    def asked(self, clock, saved=()):
        """After which of eight steps of 20 seconds each it asks; checkpoints are saved after some besides."""
        hook, asked, training = SaveByTime(1.0), [], session()
        training.request_save = lambda: asked.append(training.step)
        hook.on_start(training)
        for _ in range(8):
            clock.now += 20
            training.step += 1
            hook.after_step(training)
            if training.step in {*asked, *saved}:
                hook.state_dict()  # as a session does just before it saves
        return asked

    def test_asks_when_the_last_one_is_some_minutes_old(self, clock):
        assert self.asked(clock) == [3, 6]

    def test_whoever_asked_for_that(self, clock):
        assert self.asked(clock, saved=(2, 7)) == [5]

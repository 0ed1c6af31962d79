from __future__ import annotations

import pytest
from support.clock import Clock, clocked_session
from support.training import recipe

from penstock.hooks import SaveByTime
from penstock.session import CheckpointStore, Hook
from penstock.training import train


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


class TestSaveByTime:
    def asked(self, clock, saved=()):
        """After which of eight steps of 20 seconds each it asks; checkpoints are saved after some besides."""
        hook, asked, training = SaveByTime(1.0), [], clocked_session()
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


def test_checkpoints_are_saved_by_the_clock_too(packed, tmp_path):
    clock = SaveByTime(minutes=1e-9)
    folder, _ = train(
        recipe(packed.folder, steps=3, keep=9, save_every=100, evaluate_every=100), tmp_path, hooks=[clock]
    )

    assert CheckpointStore(folder.checkpoints).names() == [f"step-{step:08d}" for step in (1, 2, 3)]


def test_minutes_between_checkpoints_are_a_setting(packed, tmp_path):
    """So short that every step has one; 0 counts steps alone."""
    for minutes, names in ((1e-6, 4), (0.0, 1)):
        chosen = recipe(packed.folder, steps=4, keep=9, save_every=99, evaluate_every=99, save_minutes=minutes)
        folder, _ = train(chosen, tmp_path)
        assert len(CheckpointStore(folder.checkpoints).names()) == names


def test_a_clock_of_minutes(packed, tmp_path, monkeypatch):
    """Every step takes half a minute here: of every two of them one is saved."""
    from penstock.hooks import saving

    class Clock:
        now = 0.0

        @classmethod
        def monotonic(cls):
            return cls.now

    class Ticks(Hook):
        def before_step(self, session):
            Clock.now += 30

    monkeypatch.setattr(saving, "time", Clock)
    chosen = recipe(packed.folder, steps=7, keep=9, save_every=99, evaluate_every=99, save_minutes=1.0)
    folder, _ = train(chosen, tmp_path, hooks=[Ticks()])

    assert CheckpointStore(folder.checkpoints).names() == [f"step-{step:08d}" for step in (2, 4, 6, 7)]

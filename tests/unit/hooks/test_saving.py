from __future__ import annotations

import dataclasses

import pytest
from support.clock import Clock, clocked_session
from support.line import Told, session
from support.training import recipe

from penstock.errors import RecipeError
from penstock.hooks.saving import KeepBest, SaveByTime
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


class Two:
    """Scores of two kinds, by evaluation."""

    lower_is_better = ("error",)

    def __init__(self, first, error):
        self.first, self.error = first, error

    def summary(self):
        return {"score": self.first, "error": self.error}


class Evaluates:
    """Gives the scores of a list, one after the other."""

    def __init__(self, *scores):
        self.scores = [*scores]

    def __call__(self, model, stop):
        return Two(*self.scores.pop(0)), None


SCORES = [(0.5, 3.0), (0.9, 2.0), (0.7, 1.0), (0.6, 4.0), (0.4, 5.0)]


def best_of(folder, name):
    return (folder / name).resolve().name


class TestKeepBest:
    def test_the_best_by_another_score_is_kept_too(self, tmp_path):
        hooks = [KeepBest("error")]
        made = session(
            tmp_path, hooks=hooks, steps=5, save_every=1, evaluate_every=1, keep=1, evaluate=Evaluates(*SCORES)
        )
        made.train()

        assert made.saver.store.names() == ["step-00000002", "step-00000003", "step-00000005"]
        assert (best_of(tmp_path, "best"), best_of(tmp_path, "best-error")) == ("step-00000002", "step-00000003")
        assert made.saver.store.load("best-error").step == 3

    def test_a_resume_remembers_it_and_one_from_before_it_forgets_it(self, tmp_path):
        options = {"steps": 5, "save_every": 1, "evaluate_every": 1, "keep": 9}
        made = session(
            tmp_path,
            hooks=[KeepBest("error"), Told({4: lambda each: each.request_stop("enough")})],
            evaluate=Evaluates(*SCORES),
            **options,
        )
        made.train()
        again = session(
            tmp_path, hooks=[KeepBest("error"), Told()], evaluate=Evaluates((0.6, 4.0), (0.4, 5.0)), **options
        )
        again.restore(again.saver.store.load())
        again.train()
        assert best_of(tmp_path, "best-error") == "step-00000003"
        back = session(
            tmp_path, hooks=[KeepBest("error"), Told()], evaluate=Evaluates((0.9, 2.5)), **{**options, "steps": 2}
        )
        back.restore(back.saver.store.load("step-00000002"))
        assert not (tmp_path / "best-error").is_symlink()
        back.train()
        assert best_of(tmp_path, "best-error") == "step-00000002"

    def test_a_score_that_there_is_not_is_named(self, tmp_path):
        made = session(tmp_path, hooks=[KeepBest("iou")], steps=1, evaluate=Evaluates(*SCORES))
        with pytest.raises(RecipeError) as caught:
            made.train()
        assert str(caught.value) == (
            "keep_best: expected one of score, error, found iou. Choose one of these scores, such as score."
        )

    def test_a_recipe_names_it(self, packed, tmp_path):
        chosen = recipe(packed.folder, steps=4, evaluate_every=2)
        chosen = dataclasses.replace(chosen, hooks=({"name": "keep_best", "metric": "pixel_accuracy"},))
        folder, _ = train(chosen, tmp_path)
        found = {
            line["step"]: line["pixel_accuracy"]
            for line in folder.lines("events.jsonl")
            if line["event"] == "evaluated"
        }
        right = max(found, key=lambda step: (found[step], step))
        assert best_of(folder.checkpoints, "best-pixel_accuracy") == f"step-{right:08d}"

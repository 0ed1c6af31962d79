"""Trainings that go on by themselves after failures that pass: a network disk that does not answer for a while."""

from __future__ import annotations

import dataclasses
import errno
import functools
import os
import shutil
from types import SimpleNamespace

import pytest
from support.commands import call
from support.training import recipe, state

from penstock.config import apply, dump
from penstock.errors import AwayError, DataError
from penstock.session import CheckpointStore, Hook
from penstock.sources import FilesSource
from penstock.training import train


class Fails(Hook):
    """Makes reading fail from given steps on, in as many attempts of the training as given for each.

    All reads of an attempt fail after the first one: threads read ahead until the failure is noticed, and how far they
    come must not count.
    """

    def __init__(self, times, error=None):
        self.left, self.step, self.has_failed = dict(times), 0, False
        self.error = error or OSError(errno.ESTALE, os.strerror(errno.ESTALE), "data")

    def on_start(self, session):
        self.step = session.step

    def after_step(self, session):
        self.step = session.step

    def on_exception(self, session, error):
        self.has_failed = False  # the threads have ended

    def read(self, source, *place):
        if not self.has_failed:
            due = next((step for step, left in self.left.items() if left and step <= self.step), None)
            if due is None:
                return self.own(source, *place)
            self.left[due] -= 1
            self.has_failed = True
        raise self.error


@pytest.fixture
def pauses(monkeypatch):
    slept = []
    monkeypatch.setattr("penstock.training.retrying.time", SimpleNamespace(sleep=slept.append))  # and nobody else's
    return slept


def _read(source, hook, *place):
    return hook.read(source, *place)


def failing(monkeypatch, times, error=None):
    """A hook that stands between a training and its files."""
    hook = Fails(times, error)
    hook.own = FilesSource.read
    monkeypatch.setattr(FilesSource, "read", functools.partialmethod(_read, hook))
    return hook


def slow(packed, **changes):
    """One thread, so that an attempt fails once."""
    return recipe(packed.folder, num_threads=1, **changes)


def test_a_training_goes_on_and_ends_as_undisturbed(packed, whole_run, tmp_path, monkeypatch, pauses):
    hook, events = failing(monkeypatch, {0: 2, 5: 1, 9: 1}), []
    folder, outcome = train(slow(packed, retries=2), tmp_path, hooks=[hook], on_event=events.append)

    assert outcome.status == "finished"
    assert not any(hook.left.values())
    for name in ("model.safetensors", "optimizer.safetensors", "ema.safetensors", "metrics.jsonl", "origins.jsonl"):
        assert state(folder.path)[name] == state(whole_run)[name]
    said = [event.message for event in events if event.message.startswith("retry")]
    stale = "[Errno 116] Stale file handle: 'data'"
    assert said[0] == f"retry 1 of 2 in 1 s: {stale}"
    assert said[1] == f"retry 2 of 2 in 2 s: {stale}"
    assert pauses == [1, 2, 1, 1]
    assert len(said) == 4


def test_pauses_grow_until_it_gives_up_with_the_reason(packed, tmp_path, monkeypatch, pauses):
    hook = failing(monkeypatch, {4: 999})
    with pytest.raises(OSError, match="Stale file handle") as caught:
        train(slow(packed, retries=8), tmp_path, hooks=[hook])
    (folder,) = tmp_path.iterdir()

    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]
    assert "gave up after 8 retries without a new step" in caught.value.__notes__
    assert CheckpointStore(folder / "checkpoints").load().step == 4


@pytest.mark.parametrize("retries", [0, 3])
def test_what_does_not_pass_ends_it_at_once(packed, tmp_path, monkeypatch, pauses, retries):
    wrong = DataError("here", expected="x", found="y", remedy="z")
    passing = AwayError("there", expected="x", found="y", remedy="z")
    hook = failing(monkeypatch, {3: 1}, passing if retries == 0 else wrong)
    with pytest.raises(AwayError if retries == 0 else DataError) as caught:
        train(slow(packed, retries=retries), tmp_path, hooks=[hook])
    assert pauses == []
    assert not [note for note in getattr(caught.value, "__notes__", ()) if "gave up" in note]


def test_the_command_takes_how_often(packed, tmp_path, monkeypatch, pauses, capsys):
    hook = failing(monkeypatch, {2: 1})
    monkeypatch.setattr(
        "penstock.training.train",
        lambda chosen, root, name, hooks, on_event, **_: train(chosen, root, name, [*hooks, hook], on_event),
    )
    (tmp_path / "recipe.toml").write_text(dump(slow(packed)))
    words = ["train", tmp_path / "recipe.toml", "--runs", tmp_path / "runs"]
    code, out, err = call(*words, "--retries", 1, capsys=capsys)
    assert (code, pauses) == (0, [1])
    assert "retry 1 of 1 in 1 s: [Errno 116] Stale file handle: 'data'" in (out + err).splitlines()


def test_settings_say_how_often(packed):
    assert apply(recipe(packed.folder), ["train.retries=3"]).train.retries == 3


def test_a_retry_before_the_first_checkpoint_begins_with_the_same_weights(
    packed, whole_run, tmp_path, monkeypatch, pauses
):
    """Those that the run keeps, as the run that they are from may be gone by then."""
    shutil.copytree(whole_run, tmp_path / "first", symlinks=True)
    chosen = slow(packed, retries=1, steps=2, save_every=9, evaluate_every=9)
    chosen = dataclasses.replace(chosen, init=str(tmp_path / "first"))
    whole, _ = train(chosen, tmp_path / "whole")

    class Removes(Hook):
        def on_start(self, session):
            shutil.rmtree(tmp_path / "first", ignore_errors=True)

    hook = failing(monkeypatch, {0: 1})
    folder, outcome = train(chosen, tmp_path / "again", hooks=[Removes(), hook])
    assert (outcome.status, pauses) == ("finished", [1])
    assert state(folder.path)["model.safetensors"] == state(whole.path)["model.safetensors"]

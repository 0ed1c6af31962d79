"""Where a training stands, and checkpoints that are written while it goes on."""

from __future__ import annotations

import errno
import json
import threading

import pytest
import torch
from support.line import CPU, Scorer, Told, session

from penstock.errors import CheckpointError
from penstock.ranks import Ranks
from penstock.session import CheckpointStore, Hook, Saver
from penstock.session.saving import TrainingState
from penstock.values import Cursor


@pytest.mark.parametrize("best", [None, (4, 0.25)])
def test_where_a_training_stands_is_kept_as_json(best):
    standing = TrainingState(7, Cursor(56, "plan"), best, pending_evaluation=True)

    saved = json.loads(json.dumps({**standing.as_json(), "hooks": {}}))
    assert TrainingState.from_json(7, saved, "run/step") == standing


def test_a_step_leaves_the_data_path_at_one_position():
    TrainingState(7, Cursor(56, "plan")).check_position(8, "run/step")
    with pytest.raises(CheckpointError) as caught:
        TrainingState(7, Cursor(55, "plan")).check_position(8, "run/step")

    assert str(caught.value) == (
        "run/step: expected a cursor at position 56, behind 7 steps, found position 55. The checkpoint is of another "
        "batch size, or damaged: use another one of the run."
    )


class Gate(CheckpointStore):
    """A disk that writes nothing until it is let, and says what it is asked to write."""

    def __init__(self, folder):
        super().__init__(folder, 9)
        object.__setattr__(self, "open", threading.Event())
        object.__setattr__(self, "begun", [])
        object.__setattr__(self, "error", None)

    def save(self, checkpoint):
        self.begun.append(checkpoint.step)
        assert self.open.wait(60)
        if self.error:
            raise self.error
        return super().save(checkpoint)


def training(folder, hooks=(), **options):
    made = session(folder, hooks=hooks, **options)
    store = Gate(folder)
    made.saver = Saver(store, Ranks(), CPU, in_background=True)
    return made, store


class At(Hook):
    """Does something after a step."""

    def __init__(self, step, do):
        self.step, self.do, self.saved = step, do, []

    def after_step(self, session):
        if session.step == self.step:
            self.do()

    def after_save(self, session, path):
        self.saved.append((session.step, path.name))


class Growing(Hook):
    """Gives its own list as its state, which grows on while a checkpoint of it is written."""

    def __init__(self):
        self.steps = []

    def after_step(self, session):
        self.steps.append(session.step)

    def state_dict(self):
        return {"steps": self.steps}


def test_steps_go_on_meanwhile_and_what_is_saved_is_as_it_was(tmp_path):
    """The checkpoint of step 2 is written after step 5: with the weights, the optimizer and hooks' states of step 2."""
    made, store = training(tmp_path / "slow", [Told(), Growing()], steps=6, save_every=2, evaluate_every=99)
    hook = At(3, lambda: None)
    made.attached.hooks = (*made.attached.hooks, hook)
    hook.after_step = lambda session: store.open.set() if session.step == 3 else None
    assert made.train().status == "finished"

    right = session(
        tmp_path / "right", hooks=[Told(), Growing(), At(0, None)], steps=6, save_every=2, evaluate_every=99
    )
    right.train()
    for step in (2, 4, 6):
        name = f"step-{step:08d}"
        saved, whole = store.load(name), right.saver.store.load(name)
        assert saved.state == whole.state
        for file, tensors in whole.tensors.items():
            assert all(torch.equal(tensor, saved.tensors[file][key]) for key, tensor in tensors.items())
    weights = [store.load(f"step-{step:08d}").tensors["model"]["weight"] for step in (2, 4, 6)]
    assert not torch.equal(weights[0], weights[1])
    lists = [store.load(f"step-{step:08d}").state["hooks"]["Growing"]["steps"] for step in (2, 4, 6)]
    assert lists == [[1, 2], [1, 2, 3, 4], [1, 2, 3, 4, 5, 6]]
    assert [name for _, name in hook.saved] == ["step-00000002", "step-00000004", "step-00000006"]


def test_hooks_are_told_after_the_step_in_which_it_is_written(tmp_path):
    made, store = training(tmp_path, steps=5, save_every=2, evaluate_every=99)

    def write():
        store.open.set()
        made.saver.join()

    hook = At(3, write)
    made.attached.hooks = (hook,)
    made.train()
    assert hook.saved[0] == (3, "step-00000002")


def test_the_end_waits_for_the_last_one(tmp_path):
    made, store = training(tmp_path, steps=2, save_every=9, evaluate_every=99)
    hook = At(0, None)
    made.attached.hooks = (hook,)
    threading.Timer(0.3, store.open.set).start()
    made.train()
    assert store.names() == ["step-00000002"]
    assert hook.saved == [(2, "step-00000002")]


def test_a_second_save_waits_for_the_first(tmp_path):
    made, store = training(tmp_path, steps=4, save_every=1, evaluate_every=99)
    thread = threading.Thread(target=made.train)
    thread.start()
    while not (made.step == 2 and store.begun):
        thread.join(0.01)
    thread.join(0.3)
    assert (made.step, store.begun, made.saver.step, made.saver.begun) == (2, [1], 0, 1)
    store.open.set()
    thread.join(60)
    assert (store.begun, made.saver.step) == ([1, 2, 3, 4], 4)


def test_what_cannot_be_written_ends_the_training_and_is_tried_once_more(tmp_path):
    full = OSError(errno.ENOSPC, "No space left on device")
    made, store = training(tmp_path, steps=6, save_every=2, evaluate_every=99)
    object.__setattr__(store, "error", full)
    store.open.set()
    with pytest.raises(OSError, match="No space left on device") as caught:
        made.train()
    assert caught.value is full
    assert made.outcome.status == "failed"
    assert not made.outcome.is_saved
    assert len(store.begun) == 2
    assert [note for note in full.__notes__ if note.endswith(f"could not be saved: {full!r}")]
    assert store.names() == []


def test_an_error_waits_for_what_is_being_written(tmp_path):
    """A hook fails while the checkpoint of its step is on its way: nothing is saved again."""
    made, store = training(tmp_path, steps=6, save_every=2, evaluate_every=99)

    def fail():
        threading.Timer(0.2, store.open.set).start()
        raise ZeroDivisionError

    made.attached.hooks = (At(3, fail),)
    with pytest.raises(ZeroDivisionError):
        made.train()
    assert store.names() == ["step-00000002", "step-00000003"]
    assert (made.saver.step, made.outcome.is_saved) == (3, True)


def test_what_is_being_written_is_not_written_again_for_an_error(tmp_path):
    made, store = training(tmp_path, steps=6, save_every=2, evaluate_every=99)

    class Failing(Hook):
        def before_step(self, session):
            if session.step == 2:
                threading.Timer(0.2, store.open.set).start()
                raise ZeroDivisionError

    made.attached.hooks = (Failing(),)
    with pytest.raises(ZeroDivisionError):
        made.train()
    assert (store.begun, store.names()) == ([2], ["step-00000002"])
    assert (made.saver.step, made.outcome.is_saved) == (2, True)


def test_who_interrupts_again_leaves_no_thread_behind(tmp_path):
    """What is being written is written; nothing more is."""
    made, store = training(tmp_path, steps=6, save_every=2, evaluate_every=99)

    def interrupt():
        threading.Timer(0.2, store.open.set).start()
        raise KeyboardInterrupt

    made.attached.hooks = (At(3, interrupt),)
    with pytest.raises(KeyboardInterrupt):
        made.train()
    assert not [thread for thread in threading.enumerate() if thread.name == "penstock-save"]
    assert store.names() == ["step-00000002"]


def test_the_best_is_marked_once_it_is_there(tmp_path):
    made, store = training(tmp_path, steps=2, save_every=2, evaluate_every=2, evaluate=Scorer(0.5))
    best = []

    class Evaluated(Hook):
        def after_eval(self, session, scores, loss):
            best.append((tmp_path / "best" / "manifest.json").exists())

    made.attached.hooks = (Evaluated(),)
    threading.Timer(0.3, store.open.set).start()
    made.train()
    assert best == [True]
    assert store.load("best").step == 2


@pytest.mark.parametrize(
    "change",
    [
        {"cursor": []}, {"cursor": {"position": "4", "plan": ""}}, {"best": "abc"}, {"best": [1]}, {"best": [99, 0.9]}, {"best": [-2, 0.1]}, {"left_out": 5},
        {"sample": 5}, {"sample": {}}, {"hooks": 5}, {"hooks": {"MetricsLog": [1]}}, {"pending_evaluation": 3},
    ],
    ids=str,
)  # fmt: skip
def test_another_state_is_a_damaged_checkpoint(change):
    saved = {**TrainingState(7, Cursor(56, "plan")).as_json(), "hooks": {}, **change}
    with pytest.raises(CheckpointError) as caught:
        TrainingState.from_json(7, saved, "run/step")
    assert str(caught.value).startswith("run/step/state.json: expected the state of a training, found ")


def test_half_a_surrogate_pair_in_a_state_is_named():
    saved = {"cursor": {"position": 0, "plan": ""}, "best": "\ud800", "pending_evaluation": False, "hooks": {}}
    with pytest.raises(CheckpointError, match="expected the state of a training"):
        TrainingState.from_json(0, saved, "runs/1/checkpoints/last")

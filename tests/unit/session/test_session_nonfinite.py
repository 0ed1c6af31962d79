"""What becomes of a step whose loss or gradients are not finite."""

from __future__ import annotations

import json
import math

import pytest
from support.line import Numbers, Scorer, Told, by_hand, close, numbers, session

from penstock.errors import NonFiniteError
from penstock.feed import Batch
from penstock.session import Hook, Outcome
from penstock.session.diagnosis import Cause

STEPS = 6


def spoiled(*steps):
    """A feed whose batches of some steps teach infinity; `given` are the steps whose batches it gave, in order."""
    feed = Numbers()
    batches, feed.given = feed.batches, []

    def give(cursor, given_up):
        for batch in batches(cursor, given_up):
            step = batch.cursor.position // len(batch)
            own = numbers(batch.cursor.position - len(batch))
            if step in steps:
                own["y"][1] = math.inf
            feed.given.append(step)
            yield Batch(own, batch.weight, batch.cursor, batch.origins)

    feed.batches = give
    return feed


class Finds(Told):
    def __init__(self):
        super().__init__()
        self.found = []

    def after_step(self, session):
        super().after_step(session)
        if session.is_left_out:
            self.told.append(f"left out {session.step}")
            assert math.isnan(session.loss)
            assert math.isnan(session.grad_norm)

    def on_nonfinite(self, session, found):
        self.found.append(found)
        self.told.append(f"not finite {found.step} {found.action}")
        assert session.step == found.step - 1


@pytest.mark.parametrize("bad", [(step,) for step in range(1, STEPS + 1)] + [(1, 2), (2, 5), (5, 6), (2, 3, 4)])
@pytest.mark.parametrize("policy", ["skip", "rewind"])
@pytest.mark.parametrize("save_every", [1, 2, 100])
def test_what_is_left_out_is_as_if_it_had_never_been(tmp_path, bad, policy, save_every):
    hook = Finds()
    made = session(
        tmp_path, STEPS, spoiled(*bad), [hook], save_every=save_every, nonfinite=policy, ema_decay=0.9,
        evaluate=Scorer(0.5), evaluate_every=4,
    )  # fmt: skip
    outcome = made.train()
    weights, mean, _ = by_hand(STEPS, ema_decay=0.9, left_out=bad)

    close(list(made.model.parameters()), weights)
    close(list(made.learner.ema.model.parameters()), mean)
    assert outcome == Outcome("finished", f"step {STEPS} reached", STEPS)
    assert made.standing.left_out == bad
    assert [each.step for each in hook.found] == list(bad)
    assert {each.action for each in hook.found} == {policy}
    assert json.loads((tmp_path / "last/state.json").read_text())["left_out"] == list(bad)


@pytest.mark.parametrize("policy", ["skip", "rewind"])
@pytest.mark.parametrize("stop", range(1, STEPS))
def test_a_run_that_is_stopped_after_each_step_leaves_out_the_same(tmp_path, policy, stop):
    bad = (2, 4)
    asks = {stop: lambda s: s.request_stop("the test asks")}
    session(tmp_path, STEPS, spoiled(*bad), [Told(asks)], save_every=3, nonfinite=policy).train()
    again = session(tmp_path, STEPS, spoiled(*bad), save_every=3, nonfinite=policy)
    assert again.step == stop
    assert again.standing.left_out == tuple(step for step in bad if step <= stop)
    again.train()

    close(list(again.model.parameters()), by_hand(STEPS, left_out=bad)[0])
    assert again.standing.left_out == bad


def test_training_goes_back_to_the_last_checkpoint_and_does_its_steps_again(tmp_path):
    feed, hook = spoiled(5), Finds()
    made = session(tmp_path, STEPS, feed, [hook], save_every=3, nonfinite="rewind")
    made.train()

    assert feed.given == [1, 2, 3, 4, 5, 4, 5, 6]
    assert made.saver.store.names()[0] == "step-00000000"
    assert hook.told[-17:] == [
        "before 3", "backward 3", "after 4",
        "before 4", "backward 4", "not finite 5 rewind", "load 3",
        "before 3", "backward 3", "after 4",
        "before 4", "after 5", "left out 5",
        "before 5", "backward 5", "after 6", "end finished",
    ]  # fmt: skip
    assert hook.state == STEPS


def test_a_step_that_is_skipped_is_not_done_again(tmp_path):
    feed, hook = spoiled(5), Finds()
    session(tmp_path, STEPS, feed, [hook], save_every=3, nonfinite="skip").train()

    assert feed.given == [1, 2, 3, 4, 5, 6]
    assert hook.told[-9:] == [
        "before 4", "backward 4", "not finite 5 skip", "after 5", "left out 5",
        "before 5", "backward 5", "after 6", "end finished",
    ]  # fmt: skip


@pytest.mark.parametrize("policy", ["skip", "rewind"])
def test_only_so_many_steps_are_left_out(tmp_path, policy):
    hook = Finds()
    made = session(tmp_path, STEPS, spoiled(2, 4, 5), [hook], save_every=1, nonfinite=policy, nonfinite_limit=2)
    with pytest.raises(NonFiniteError) as caught:
        made.train()

    assert str(caught.value) == (
        "step 5: expected a finite loss and finite gradients, found loss inf, gradient norm inf, from n#16, n#17, n#18, "
        "n#19; it began in the loss, with n#17. 2 steps left out before, as many as train.nonfinite_limit allows. Lower "
        "the learning rate."
    )
    assert [each.action for each in hook.found] == [policy, policy, "stop"]
    assert (made.saver.step, made.standing.left_out) == (4, (2, 4))


def test_what_was_found_is_said_before_training_stops(tmp_path):
    hook = Finds()
    with pytest.raises(NonFiniteError):
        session(tmp_path, STEPS, spoiled(3), [hook]).train()
    (found,) = hook.found

    assert (found.step, found.loss, found.action) == (3, math.inf, "stop")
    assert found.cause == Cause("the loss", ("n#9",))
    assert hook.told[-4:-2] == ["backward 2", "not finite 3 stop"]


def test_a_run_that_left_out_steps_and_is_to_stop_now_says_nothing_of_a_limit(tmp_path):
    asks = {3: lambda s: s.request_stop("the test asks")}
    session(tmp_path, STEPS, spoiled(2, 5), [Told(asks)], nonfinite="skip").train()
    again = session(tmp_path, STEPS, spoiled(2, 5))
    with pytest.raises(NonFiniteError, match=r"Resume with --set train\.nonfinite=skip to leave this step out"):
        again.train()
    assert again.standing.left_out == (2,)


class Overflows(Hook):
    """Makes a weight infinite after a step, as often as asked, although the loss and the gradients were finite."""

    def __init__(self, step, times):
        self.step, self.times = step, times

    def after_step(self, session):
        if session.step == self.step and self.times:
            self.times -= 1
            next(session.model.parameters()).data[0] = math.inf


def test_weights_that_would_be_saved_are_gone_back_from_too(tmp_path):
    made = session(tmp_path, STEPS, hooks=[Overflows(4, 1)], save_every=2, nonfinite="rewind")
    made.train()

    close(list(made.model.parameters()), by_hand(STEPS, left_out=(4,))[0])
    assert made.standing.left_out == (4,)


def test_a_step_that_fails_although_it_was_left_out_ends_training(tmp_path):
    made = session(tmp_path, STEPS, hooks=[Overflows(4, 2)], save_every=2, nonfinite="rewind")
    with pytest.raises(NonFiniteError, match=r"^step 4: expected finite weights, statistics and optimizer states"):
        made.train()
    assert (made.saver.step, made.standing.left_out) == (2, (4,))


def test_a_diagnosis_that_fails_hides_nothing(tmp_path, monkeypatch):
    made = session(tmp_path, STEPS, spoiled(3))
    monkeypatch.setattr(type(made.learner), "diagnose", lambda *_: 1 / 0)
    with pytest.raises(NonFiniteError, match=r"; where it began is not known\. The images"):
        made.train()

"""A training that fails saves the last good step, and goes on from it as if nothing had happened."""

from __future__ import annotations

import math

import pytest
import torch
from support.line import CPU, Numbers, Others, Scorer, Told, by_hand, close, numbers, session

from penstock.errors import NonFiniteError
from penstock.feed import Batch
from penstock.session import Outcome

STEPS = 5


class Bad(Told):
    """Raises at one point of one step."""

    def __init__(self, point, step, error=RuntimeError):
        super().__init__()
        self.point, self.step, self.error = point, step, error

    def before_step(self, session):
        self.raise_at("before_step", session.step + 1)

    def after_backward(self, session):
        self.raise_at("after_backward", session.step + 1)

    def after_step(self, session):
        self.raise_at("after_step", session.step)

    def raise_at(self, point, step):
        if (point, step) == (self.point, self.step):
            raise self.error("the test breaks it")


def failing(folder, hook, error=RuntimeError, **options):
    made = session(folder, STEPS, hooks=[hook], save_every=100, **options)
    with pytest.raises(error):
        made.train()
    return made


@pytest.mark.parametrize("point", ["before_step", "after_backward", "after_step"])
@pytest.mark.parametrize("step", range(1, STEPS + 1))
def test_the_last_good_step_is_saved_and_gone_on_from(tmp_path, point, step):
    made = failing(tmp_path, Bad(point, step), ema_decay=0.9)
    good = step if point == "after_step" else step - 1

    assert made.outcome == Outcome("failed", "RuntimeError: the test breaks it", good, is_saved=good > 0)
    assert made.saver.store.names() == ([f"step-{good:08d}"] if good else [])
    again = session(tmp_path, STEPS, save_every=100, ema_decay=0.9)
    assert again.step == good
    again.train()
    weights, mean, _ = by_hand(STEPS, ema_decay=0.9)
    close(list(again.model.parameters()), weights)
    close(list(again.learner.ema.model.parameters()), mean)


def test_hooks_learn_of_it_once_it_is_saved(tmp_path):
    class Sees(Bad):
        def on_exception(self, session, error):
            self.saved = session.saver.store.names()
            super().on_exception(session, error)

    hook = Sees("after_step", 2)
    failing(tmp_path, hook)

    assert hook.saved == ["step-00000002"]
    assert hook.told[-2:] == ["exception the test breaks it", "end failed"]


@pytest.mark.parametrize(("point", "step", "pending"), [("after_step", 4, True), ("after_step", 3, False)])
def test_an_evaluation_that_was_due_is_still_due(tmp_path, point, step, pending):
    made = failing(tmp_path, Bad(point, step), evaluate=Scorer(0.5), evaluate_every=4)
    evaluate = Scorer(0.7)
    again = session(tmp_path, STEPS, save_every=100, evaluate=evaluate, evaluate_every=4)

    assert again.standing.pending_evaluation is pending
    assert len(made.saver.store.names()) == 1
    again.train()
    assert len(evaluate.models) == 2  # after steps 4 and 5


def spoiled(step):
    """A feed whose batch of a step teaches infinity."""
    feed = Numbers()
    batches = feed.batches

    def give(cursor, given_up):
        for batch in batches(cursor, given_up):
            own = numbers(batch.cursor.position - len(batch))
            if batch.cursor.position == step * len(batch):
                own["y"][1] = math.inf
            yield Batch(own, batch.weight, batch.cursor, batch.origins)

    feed.batches = give
    return feed


@pytest.mark.parametrize("saved", [0, 2])
def test_a_step_before_that_is_not_finite_either_is_named(tmp_path, saved):
    """As running statistics are that overflow before the loss does."""

    class Overflows(Told):
        def after_step(self, session):
            if session.step == 3:
                session.model.weight.data.fill_(math.inf)

    made = session(tmp_path, STEPS, hooks=[Overflows()], save_every=saved or 100)
    with pytest.raises(NonFiniteError) as caught:
        made.train()
    begin = f"Resume from step {saved}" if saved else "There is no checkpoint: start again"
    assert made.saver.store.names() == ([f"step-{saved:08d}"] if saved else [])
    assert str(caught.value).startswith("step 4: expected a finite loss and finite gradients, found loss ")
    assert caught.value.remedy == (
        f"The step before could not be saved (NaN or infinity in model weight). {begin} with a lower --lr"
    )


@pytest.mark.parametrize("step", range(1, STEPS + 1))
def test_steps_before_one_that_is_not_finite_are_saved(tmp_path, step):
    failing(tmp_path, Told(), NonFiniteError, feed=spoiled(step))
    again = session(tmp_path, STEPS, save_every=100)

    assert again.step == step - 1
    again.train()
    close(list(again.model.parameters()), by_hand(STEPS)[0])


def test_all_ranks_save_what_all_have_failed_with(tmp_path):
    ranks = Others(flags=[(0, 0, 0)] * 9)
    failing(tmp_path / "all", Told(), NonFiniteError, feed=spoiled(3), ranks=ranks)
    made = failing(tmp_path / "one", Bad("before_step", 3), ranks=Others(flags=[(0, 0, 0)] * 9))

    assert session(tmp_path / "all", STEPS).step == 2
    assert (made.saver.store.names(), made.outcome.is_saved) == ([], False)


def test_weights_that_were_being_updated_are_not_saved(tmp_path):
    class Tears(Told):
        def before_step(self, session):
            if session.step == 2:

                def torn():
                    with torch.no_grad():
                        next(session.model.parameters()).add_(1)
                    raise RuntimeError

                session.optimizer.step = torn

    made = failing(tmp_path, Tears())
    assert (made.saver.store.names(), made.outcome.is_saved) == ([], False)


def test_what_forbids_saving_is_noted(tmp_path):
    class Forgets(Bad):
        def state_dict(self):
            raise ValueError("no state")

    made = session(tmp_path, STEPS, hooks=[Forgets("after_step", 2)], save_every=100)
    with pytest.raises(RuntimeError) as caught:
        made.train()

    assert caught.value.__notes__ == [
        "in Forgets.after_step, step 2", "step 2 could not be saved: ValueError('no state')",
    ]  # fmt: skip
    assert made.outcome.is_saved is False


def test_a_save_that_fails_is_not_tried_again(tmp_path):
    tries = []

    class Full(Told):
        def state_dict(self):
            tries.append(1)
            raise OSError("no room")

    with pytest.raises(OSError, match="no room"):
        session(tmp_path, STEPS, hooks=[Full()], save_every=2).train()
    assert len(tries) == 1


def test_who_presses_ctrl_c_twice_does_not_want_to_wait(tmp_path):
    made = failing(tmp_path, Bad("after_step", 2, KeyboardInterrupt), KeyboardInterrupt)

    assert (made.saver.store.names(), made.outcome.is_saved) == ([], False)


def test_statistics_of_a_step_that_is_undone_are_those_before_it():
    from penstock.session.undo import Undo

    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    undo = Undo(model)
    for step in range(3):
        before = [buffer.clone() for buffer in model.buffers()]
        undo.begin()
        model(torch.rand(4, 2, device=CPU))
        assert not torch.equal(before[0], next(model.buffers()))
        if step == 1:  # a module may put another tensor in the place of its own
            model[1].running_mean = model[1].running_mean.clone()
            undo.begin()
            before = [buffer.clone() for buffer in model.buffers()]
        assert undo.restore()
        assert all(torch.equal(one, other) for one, other in zip(before, model.buffers(), strict=True))
    undo.begin()
    undo.update()
    assert undo.restore() is False
    undo.end()
    assert undo.restore() is True

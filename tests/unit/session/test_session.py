from __future__ import annotations

import dataclasses
import itertools
import math

import pytest
import torch
from support.line import SPEC, Numbers, Others, Scorer, Told, by_hand, close, numbers, session
from support.training import Stop, recipe

from penstock.assembly import open_experiment
from penstock.errors import NonFiniteError
from penstock.feed import Batch
from penstock.session import Hook, Outcome
from penstock.settings.schedules import Cosine
from penstock.training import resume, train
from penstock.values import Cursor


class TestSteps:
    @pytest.mark.parametrize("clip", [0.0, 0.3])
    @pytest.mark.parametrize("accumulate", [1, 3])
    def test_are_those_by_hand(self, tmp_path, clip, accumulate):
        spec = dataclasses.replace(SPEC, schedule=Cosine())
        made = session(tmp_path, spec=spec, ema_decay=0.9, accumulate=accumulate, grad_clip=clip)
        losses = []
        made.attached.hooks = (Told({step: lambda s: losses.append(s.loss) for step in range(1, 7)}),)
        outcome = made.train()
        weights, mean, expected = by_hand(6, spec, 0.9, grad_clip=clip)

        close(list(made.model.parameters()), weights)
        close(list(made.learner.ema.model.parameters()), mean)
        assert losses == pytest.approx(expected)
        assert made.lr == pytest.approx(spec.rate(5, 6))
        assert outcome == Outcome("finished", "step 6 reached", 6)
        assert made.outcome is outcome
        assert (made.step, made.cursor) == (6, Cursor(24, "plan"))
        assert made.batch.origins == ("n#20", "n#21", "n#22", "n#23")
        assert 0 <= made.timing["wait"] < made.timing["step"]

    def test_points_are_called_in_order(self, tmp_path):
        hook, feed = Told(), Numbers()
        session(tmp_path, 3, feed, [hook], evaluate=Scorer(0.5, 0.4), evaluate_every=2).train()

        assert hook.told == [
            "load 0", "start 0",
            "before 0", "backward 0", "after 1",
            "before 1", "backward 1", "after 2", "eval 2 0.25 best",
            "before 2", "backward 2", "after 3", "eval 3 0.25",
            "end finished",
        ]  # fmt: skip
        assert feed.closed == 1

    def test_every_third_step(self, tmp_path):
        hook = Told(every=3)
        session(tmp_path, 7, hooks=[hook]).train()
        steps = ["before 2", "backward 2", "after 3", "before 5", "backward 5", "after 6"]
        assert hook.told == ["load 0", "start 0", *steps, "end finished"]

    def test_randomness_in_the_network_is_of_the_seed_the_step_and_the_rank(self, tmp_path):
        class Seeds(Told):
            def after_backward(self, session):
                self.told.append(torch.initial_seed())

        def seeds(number, **options):
            hook = Seeds()
            session(tmp_path / str(number), 3, hooks=[hook], **options).train()
            return [each for each in hook.told if isinstance(each, int)]

        one, again, other = seeds(1, seed=4), seeds(2, seed=4), seeds(3, seed=5)
        rank = seeds(4, seed=4, ranks=Others(rank=1))
        assert one == again
        assert len({*one, *other, *rank}) == 9

    def test_an_error_in_a_hook_is_noted_and_all_are_told_of_the_end(self, tmp_path):
        def fail(session):
            raise KeyError("mine")

        hooks = [Told({2: fail}), Told()]
        made = session(tmp_path, hooks=hooks)
        with pytest.raises(KeyError) as caught:
            made.train()

        assert caught.value.__notes__ == ["in Told.after_step, step 2"]
        assert hooks[0].told[-2:] == ["exception 'mine'", "end failed"]
        assert hooks[1].told[-3:] == ["backward 1", "exception 'mine'", "end failed"]
        assert made.outcome == Outcome("failed", "KeyError: 'mine'", 2)
        assert made.saver.store.names() == ["step-00000002"]

    def test_errors_at_the_end_do_not_hide_the_first(self, tmp_path):
        class Bad(Told):
            def on_exception(self, session, error):
                raise ValueError("again")

            def on_end(self, session):
                raise OSError("and again")

        made = session(tmp_path, hooks=[Bad({1: lambda _: 1 / 0})])
        with pytest.raises(ZeroDivisionError) as caught:
            made.train()
        assert caught.value.__notes__ == [
            "in Bad.after_step, step 1",
            "Bad.on_exception then failed too: ValueError('again')",
            "Bad.on_end then failed too: OSError('and again')",
        ]

    def test_of_errors_at_a_good_end_the_first_is_raised_once_all_are_called(self, tmp_path):
        class Bad(Told):
            def on_end(self, session):
                super().on_end(session)
                raise ConnectionError(self.every.interval)

        hooks = [Bad(every=3), Bad(every=4), Told()]
        with pytest.raises(ConnectionError) as caught:
            session(tmp_path, hooks=hooks).train()
        assert (caught.value.args, caught.value.__notes__) == ((4,), ["in Bad.on_end, step 6"])
        assert [hook.told[-1] for hook in hooks] == ["end finished"] * 3

    def test_a_loss_that_is_not_finite_ends_it(self, tmp_path):
        feed, own = Numbers(), numbers(4)
        batches = feed.batches

        def spoiled(cursor, given_up):
            for batch in batches(cursor, given_up):
                if batch.cursor.position == 8:
                    own["y"][1] = math.inf
                    yield Batch(own, batch.weight, batch.cursor, batch.origins)
                yield batch

        feed.batches = spoiled
        with pytest.raises(NonFiniteError) as caught:
            session(tmp_path, feed=feed).train()
        assert str(caught.value).startswith(
            "step 2: expected a finite loss and finite gradients, found loss inf, gradient norm "
        )


def test_the_state_of_a_hook_that_is_gone_is_kept_for_when_it_is_back(packed, tmp_path):
    """And people are told that it is not attached."""

    class Counts(Hook):
        def __init__(self):
            self.steps = 0

        def after_step(self, session):
            self.steps += 1

        def state_dict(self):
            return {"steps": self.steps}

        def load_state_dict(self, state):
            self.steps = state.get("steps", 0)

    counts, said = Counts(), []
    folder, _ = train(recipe(packed.folder, steps=6, save_every=1), tmp_path, hooks=[counts, Stop(2)])
    resume(folder.path, hooks=[Stop(4)], on_event=said.append)
    back = Counts()
    resume(folder.path, hooks=[back])

    assert "note: Counts is not attached any more: its state is kept" in [event.message for event in said]
    assert (counts.steps, back.steps) == (2, 4)  # two before it was gone, two since it is back


def test_every_hook_is_ended_though_one_fails(packed, tmp_path):
    ended = []

    class Fails(Hook):
        def on_end(self, session):
            message = "no"
            raise ValueError(message)

    class Ends(Hook):
        def on_end(self, session):
            ended.append(session.step)

    with pytest.raises(ValueError, match="no") as caught:
        train(recipe(packed.folder, steps=1), tmp_path, hooks=[Fails(), Ends()])
    assert ended == [1]
    assert caught.value.__notes__ == ["in Fails.on_end, step 1"]


class TestHooks:
    def test_weights_change_between_the_backward_and_the_next_point(self, packed, tmp_path):
        """Gradients are there, the optimizer has not stepped."""

        class Weighs(Hook):
            def before_step(self, session):
                self.note(session)

            after_backward = after_step = before_step

            def note(self, session):
                noted.append(next(session.model.parameters()).detach().clone())

        noted = []
        train(recipe(packed.folder, steps=2, evaluate_every=9), tmp_path, hooks=[Weighs()])
        same = [torch.equal(a, b) for a, b in itertools.pairwise(noted)]

        assert same == [True, False, True, True, False]

    def test_one_that_is_new_is_told_nothing_and_one_of_a_run_without_a_checkpoint_is(self, packed, tmp_path):
        class Told(Hook):
            def __init__(self):
                self.states = []

            def load_state_dict(self, state):
                self.states.append(dict(state))

            def state_dict(self):
                return {"a": 1}

        class Another(Told):
            pass

        first, again, new = Told(), Told(), Another()
        folder, _ = train(recipe(packed.folder, steps=4), tmp_path, hooks=[first, Stop(2)])
        resume(folder.path, hooks=[again, new])

        assert (first.states, again.states, new.states) == ([{}], [{"a": 1}], [])


def test_the_best_is_the_newest_with_the_highest_score_and_marked_when_hooks_are_told(packed, tmp_path):
    from support.sessions import make_session

    from penstock.settings import Train

    class Score:
        def __init__(self, value):
            self.value = value

        def summary(self):
            return {"mean_iou": self.value}

    class Told(Hook):
        def after_eval(self, session, scores, loss):
            told.append((session.step, session.is_best, session.saver.store.load("best").step))

    told, scores = [], iter([0.3, 0.5, 0.4, 0.5])
    make_session(
        open_experiment(recipe(packed.folder)), tmp_path / "run", Train(steps=4, evaluate_every=1), [Told()],
        evaluate=lambda model, stop: (Score(next(scores)), None),
    ).train()  # fmt: skip

    assert told == [(1, True, 1), (2, True, 2), (3, False, 2), (4, True, 4)]

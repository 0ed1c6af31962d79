"""The session's loop on a network of three numbers, against a loop by hand; a run takes milliseconds."""

from __future__ import annotations

import dataclasses
import itertools
import math
import os
import signal
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from training import Stop, recipe

from penstock.errors import CheckpointError, NonFiniteError
from penstock.feed import Batch
from penstock.ranks import Ranks
from penstock.session import (
    Attached,
    CheckpointStore,
    Hook,
    Learner,
    OptimizerSpec,
    Options,
    Outcome,
    Saver,
    Session,
    Steps,
    finite,
)
from penstock.session.optimizer import make_optimizer
from penstock.tasks.base import Task
from penstock.training import resume, train
from penstock.values import Cursor

CPU, BATCH = torch.device("cpu"), 4
SPEC = OptimizerSpec(lr=0.02, momentum=0.5, weight_decay=0.0, schedule="constant")


class Line(Task):
    """Learns y from two numbers."""

    classes, ignore, main_score = ("y",), -1, "score"
    of = None

    def prepare(self, *, train):
        raise NotImplementedError

    def model(self):
        torch.manual_seed(0)
        return nn.Linear(2, 1)

    def inputs(self, tensors):
        return tensors["x"]

    def mask_padding(self, tensors, weight):
        raise NotImplementedError

    def count(self, tensors):
        return torch.tensor([len(tensors["x"])])

    def loss(self, outputs, tensors):
        return ((outputs[:, 0] - tensors["y"]) ** 2).sum().unsqueeze(0)

    def scorer(self):
        raise NotImplementedError

    def shown(self, record):
        raise NotImplementedError

    def draw(self, arrays, outputs=None, record=None):
        raise NotImplementedError


def numbers(position):
    """The batch from a position on."""
    drawn = torch.sin(torch.arange(position, position + BATCH).float().unsqueeze(1) * torch.tensor([1.0, 2.0, 3.0]))
    return {"x": drawn[:, :2], "y": drawn[:, 2]}


class Numbers:
    """A feed; `end` is the plan's, `gone` the position from which on it waits until nobody does."""

    batch = BATCH

    def __init__(self, end=None, gone=None):
        self.plan = SimpleNamespace(end=end, start=lambda cursor: self.started.append(cursor.position))
        self.started, self.closed, self.gone = [], 0, gone

    def batches(self, cursor, given_up):
        try:
            for position in itertools.count(cursor.position, BATCH):
                if position == self.gone:
                    assert given_up()
                    raise InterruptedError
                origins = tuple(f"n#{position + row}" for row in range(BATCH))
                yield Batch(numbers(position), torch.ones(BATCH), Cursor(position + BATCH, "plan"), origins)
        finally:
            self.closed += 1


class Told(Hook):
    """Writes down what is called; `asks` maps steps to what is asked for after them."""

    def __init__(self, asks=None, every=1):
        self.every, self.asks, self.told, self.state = Steps(every), asks or {}, [], 0

    def on_start(self, session):
        self.told.append(f"start {session.step}")

    def before_step(self, session):
        self.told.append(f"before {session.step}")

    def after_backward(self, session):
        self.told.append(f"backward {session.step}")

    def after_step(self, session):
        self.state += 1
        self.told.append(f"after {session.step}")
        if session.step in self.asks:
            self.asks[session.step](session)

    def after_eval(self, session, scores, loss):
        self.told.append(f"eval {session.step} {loss}{' best' if session.is_best else ''}")

    def on_exception(self, session, error):
        self.told.append(f"exception {error}")

    def on_end(self, session):
        self.told.append(f"end {session.outcome.status}")

    def state_dict(self):
        return {"state": self.state}

    def load_state_dict(self, state):
        self.state = state.get("state", 0)
        self.told.append(f"load {self.state}")


class Score:
    def __init__(self, value):
        self.value = value

    def summary(self):
        return {"other": 0.0, "score": self.value}


class Scorer:
    """Gives scores in their order, the last for ever; None says that a signal ended the evaluation."""

    def __init__(self, *values):
        self.values, self.models = list(values), []

    def __call__(self, model, stop):
        self.models.append((model, stop()))
        value = self.values.pop(0) if len(self.values) > 1 else self.values[0]
        return None if value is None else (Score(value), 0.25)


def session(folder, steps=6, feed=None, hooks=(), spec=SPEC, ranks=None, evaluate=None, follow=None, keep=9, **options):
    task = Line()
    ranks, store = ranks or Ranks(), CheckpointStore(folder, keep)
    learner = Learner.of(task.model(), options=Options(steps=steps, **options), optimizer=spec, ranks=ranks, device=CPU)
    made = Session(
        task, learner, feed or Numbers(), saver=Saver(store, ranks, CPU), attached=Attached(tuple(hooks)),
        evaluate=evaluate, follow=follow,
    )  # fmt: skip
    made.restore(store.load())
    return made


def by_hand(steps, spec=SPEC, ema_decay=0.0):
    """Weights after some steps, those of their average, and the losses."""
    model, mean = Line().model(), [p.detach().clone() for p in Line().model().parameters()]
    momenta, losses = [torch.zeros_like(p) for p in model.parameters()], []
    for step in range(steps):
        batch = numbers(step * BATCH)
        loss = ((model(batch["x"])[:, 0] - batch["y"]) ** 2).mean()
        gradients = torch.autograd.grad(loss, list(model.parameters()))
        norm = torch.sqrt(sum((g**2).sum() for g in gradients))
        cut = min(1.0, spec.grad_clip / float(norm)) if spec.grad_clip else 1.0
        rate = spec.rate(step, steps)
        with torch.no_grad():
            for weight, gradient, momentum in zip(model.parameters(), gradients, momenta, strict=True):
                momentum.mul_(spec.momentum).add_(cut * gradient)
                weight.sub_(rate * momentum)
            decay = min(ema_decay, (1 + step) / (10 + step))
            for own, weight in zip(mean, model.parameters(), strict=True):
                own.mul_(decay).add_((1 - decay) * weight)
        losses.append(float(loss.detach()))
    return [p.detach() for p in model.parameters()], mean, losses


def close(found, expected):
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


class TestSteps:
    @pytest.mark.parametrize("clip", [0.0, 0.3])
    @pytest.mark.parametrize("accumulate", [1, 3])
    def test_are_those_by_hand(self, tmp_path, clip, accumulate):
        spec = dataclasses.replace(SPEC, grad_clip=clip, schedule="cosine")
        made = session(tmp_path, spec=spec, ema_decay=0.9, accumulate=accumulate)
        losses = []
        made.attached.hooks = (Told({step: lambda s: losses.append(s.loss) for step in range(1, 7)}),)
        outcome = made.train()
        weights, mean, expected = by_hand(6, spec, 0.9)

        close(list(made.model.parameters()), weights)
        close(list(made.learner.average.model.parameters()), mean)
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
        assert made.saver.store.names() == []

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
        assert (caught.value.args, caught.value.__notes__) == ((3,), ["in Bad.on_end, step 6"])
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


class TestCuts:
    """Where micro-batches begin and end."""

    @pytest.mark.parametrize(
        ("rows", "size", "pieces", "expected"),
        [
            (6, 6, 4, [(0, 1), (1, 3), (3, 4), (4, 6)]),
            (6, 6, 1, [(0, 6)]),
            (2, 2, 5, [(0, 1), (1, 2)]),
            (5, 6, 4, [(0, 0), (0, 2), (2, 2), (2, 5)]),  # beside holes, whole pairs
            (7, 8, 2, [(0, 2), (2, 7)]),
            (0, 4, 2, [(0, 0), (0, 0)]),
        ],
    )
    def test_are_as_many_whatever_is_left(self, tmp_path, rows, size, pieces, expected):
        assert session(tmp_path, accumulate=pieces).learner.gradients._cuts(rows, size) == expected


class TestSaving:
    def test_is_done_when_it_is_time_or_somebody_asks(self, tmp_path):
        asks = {4: Session.request_save, 7: Session.request_eval}
        evaluate = Scorer(0.5)
        made = session(tmp_path, 9, hooks=[Told(asks)], evaluate=evaluate, save_every=3, evaluate_every=5)
        made.train()

        assert made.saver.store.names() == [f"step-{n:08d}" for n in (3, 4, 5, 6, 7, 9)]
        assert len(evaluate.models) == 3  # after 5, 7 and 9
        assert made.best == (9, 0.5)  # of equals the newer
        saved = made.saver.store.load("step-00000005").state
        assert saved["cursor"] == {"position": 20, "plan": "plan"}
        assert saved["best"] is None  # it was saved before it was evaluated
        assert saved["pending_evaluation"] is True
        assert saved["hooks"] == {"Told": {"state": 5}}
        assert made.saver.store.load("step-00000006").state["best"] == [5, 0.5]
        assert made.saver.store.load("step-00000006").state["pending_evaluation"] is False

    @pytest.mark.parametrize("step", range(1, 9))
    def test_a_resume_at_every_step_is_as_if_nothing_had_been(self, tmp_path, step):
        options = {"ema_decay": 0.9, "save_every": 1, "evaluate_every": 4}

        def finished(folder, stop):
            hooks = [Told({stop: lambda s: s.request_stop("enough")})]
            return session(folder, 8, hooks=hooks, evaluate=Scorer(0.3), **options).train()

        assert finished(tmp_path / "whole", 0) == Outcome("finished", "step 8 reached", 8)
        first = finished(tmp_path / "cut", step)
        assert first == Outcome("stopped", "enough", step)
        hook = Told()
        again = session(tmp_path / "cut", 8, hooks=[hook], evaluate=Scorer(0.3), **options)
        assert (again.step, again.cursor, again.feed.started) == (step, Cursor(4 * step, "plan"), [4 * step])
        assert hook.told == [f"load {step}"]
        assert again.train().status == "finished"
        one, other = (CheckpointStore(tmp_path / name).load() for name in ("whole", "cut"))
        assert one.state == other.state
        for kind, named in one.tensors.items():
            assert named.keys() == other.tensors[kind].keys()
            assert all(torch.equal(tensor, other.tensors[kind][name]) for name, tensor in named.items())

    def test_an_evaluation_that_a_signal_cut_short_is_done_after_a_resume(self, tmp_path):
        cut = Scorer(None)
        made = session(tmp_path, 4, evaluate=cut, evaluate_every=2)
        assert made.train() == Outcome("stopped", "another rank was stopped", 2)
        hook, evaluate = Told(), Scorer(0.7)
        again = session(tmp_path, 4, hooks=[hook], evaluate=evaluate, evaluate_every=2)
        assert again.train().status == "finished"
        assert hook.told[:4] == ["start 2", "eval 2 0.25 best", "before 2", "backward 2"]
        assert len(evaluate.models) == 2

    def test_without_an_evaluation_nothing_is_pending_after_it_was_due(self, tmp_path):
        made = session(tmp_path, 4, evaluate_every=2, save_every=3)
        made.train()
        assert made.saver.store.load("step-00000003").state["pending_evaluation"] is False
        assert made.best is None

    def test_the_best_is_the_highest_number(self, tmp_path):
        values = [0.2, math.nan, 0.6, 0.6, 0.5, math.nan]
        made = session(tmp_path, 6, evaluate=Scorer(*values), evaluate_every=1)
        hook = Told()
        made.attached.hooks = (hook,)
        made.train()

        assert [line for line in hook.told if "best" in line] == [f"eval {n} 0.25 best" for n in (1, 3, 4)]
        assert (tmp_path / "best").resolve().name == "step-00000004"

    def test_the_average_is_what_is_evaluated_and_the_model_trains_on(self, tmp_path):
        evaluate = Scorer(0.5)
        made = session(tmp_path, 4, evaluate=evaluate, evaluate_every=2, ema_decay=0.9)
        made.train()
        assert [(model is made.learner.average.model, stop) for model, stop in evaluate.models] == [(True, False)] * 2
        assert made.model.training

    def test_a_best_that_is_gone_is_forgotten(self, tmp_path):
        session(tmp_path, 4, evaluate=Scorer(0.9), evaluate_every=2, save_every=1).train()
        again = session(tmp_path, 6, evaluate=Scorer(0.1), evaluate_every=2)
        assert again.best == (2, 0.9)  # the last was saved before it was evaluated
        (tmp_path / "best").unlink()
        assert session(tmp_path, 6).best is None

    def test_a_cursor_that_is_not_where_its_step_is(self, tmp_path):
        session(tmp_path, 2).train()
        again = session(tmp_path / "other", 2)
        again.feed.batch = 3
        with pytest.raises(CheckpointError) as caught:
            again.restore(CheckpointStore(tmp_path).load())
        assert str(caught.value) == (
            f"{tmp_path / 'other'}/step-00000002: expected a cursor at position 6, behind 2 steps, found position 8. The "
            "checkpoint is of another batch size, or damaged: use another one of the run."
        )

    def test_a_hook_that_is_new_begins_as_it_is(self, tmp_path):
        session(tmp_path, 2).train()
        hook = Told()
        session(tmp_path, 4, hooks=[hook])
        assert hook.told == []

    def test_going_on_from_an_earlier_one_the_best_until_then_is_the_best(self, tmp_path):
        values = [0.9, 0.5, 0.95, 0.2]
        made = session(tmp_path, 4, evaluate=Scorer(*values), evaluate_every=1)
        made.train()
        assert (tmp_path / "best").resolve().name == "step-00000003"
        hook = Told()
        again = session(tmp_path, 4, hooks=[hook], evaluate=Scorer(0.5, 0.6, 0.7), evaluate_every=1)
        again.restore(again.saver.store.load("step-00000002"))

        assert (tmp_path / "best").is_symlink()
        assert (tmp_path / "best").resolve().name == "step-00000001"
        assert again.best == (1, 0.9)
        again.train()
        assert not [line for line in hook.told if "best" in line]
        assert (tmp_path / "best").resolve().name == "step-00000001"

    def test_going_on_from_before_the_best_there_is_none(self, tmp_path):
        made = session(tmp_path, 4, evaluate=Scorer(0.2, 0.9, 0.3), evaluate_every=2, save_every=1)
        made.train()
        made.restore(made.saver.store.load("step-00000001"))
        assert (made.best, (tmp_path / "best").is_symlink()) == (None, False)

    def test_what_was_saved_later_goes(self, tmp_path):
        made = session(tmp_path, 4, save_every=1)
        made.train()
        made.restore(made.saver.store.load("step-00000002"))
        assert made.saver.store.names() == ["step-00000001", "step-00000002"]


class TestFinite:
    good, bad = torch.ones(2), torch.tensor([1.0, math.nan])

    def refused(self, tensors, any_rank=bool):
        with pytest.raises(NonFiniteError) as caught:
            finite.check_saved(tensors, 1200, any_rank)
        return str(caught.value)

    @pytest.mark.parametrize(
        ("tensors", "found"),
        [
            ({"model": {"a": good, "b": bad}}, "others: model b"),
            ({"model": {"a": bad}, "ema": {"a": good, "b": bad}}, "others: model a and 1 more"),
            ({"model": {"a": bad * 0, "b": bad, "c": bad}}, "others: model a and 2 more"),
        ],
    )
    def test_what_is_saved_is_named(self, tensors, found):
        assert self.refused(tensors) == (
            f"step 1,200: expected finite weights, statistics and optimizer states to save, found {found}. Nothing was "
            "saved of it. Resume from the last checkpoint with a lower --lr."
        )

    def test_what_another_rank_has_is_not_saved_either(self):
        assert ", found others on another rank. " in self.refused({"model": {"a": self.good}}, lambda _: True)

    def test_whole_numbers_are_always_finite(self):
        finite.check_saved({"optimizer": {"step": torch.tensor(3)}, "model": {"a": self.good}}, 1, bool)


class TestStopping:
    def test_a_hook_may_stop_after_an_evaluation(self, tmp_path):
        class Enough(Told):
            def after_eval(self, session, scores, loss):
                super().after_eval(session, scores, loss)
                session.request_stop("good enough")

        hook = Enough()
        made = session(tmp_path, 6, hooks=[hook], evaluate=Scorer(0.9), evaluate_every=2)
        assert made.train() == Outcome("stopped", "good enough", 2)
        assert made.saver.store.names() == ["step-00000002"]
        last = session(tmp_path / "last", 2, hooks=[Enough()], evaluate=Scorer(0.9), evaluate_every=2)
        assert last.train().status == "finished"  # there was nothing left to stop

    def test_who_asked_to_stop_is_not_evaluated_unless_it_was_due(self, tmp_path):
        evaluate = Scorer(0.9)
        asks = {3: lambda s: s.request_stop("enough")}
        made = session(tmp_path, 6, hooks=[Told(asks)], evaluate=evaluate, evaluate_every=4)
        assert made.train() == Outcome("stopped", "enough", 3)
        assert (evaluate.models, made.saver.store.names()) == ([], ["step-00000003"])

    def test_a_signal_saves_and_ends(self, tmp_path):
        def kill(session):
            os.kill(os.getpid(), signal.SIGTERM)

        before = signal.getsignal(signal.SIGTERM)
        made = session(tmp_path, hooks=[Told({2: kill})], save_every=100)
        assert made.train() == Outcome("interrupted", "SIGTERM", 2, int(signal.SIGTERM))
        assert made.saver.store.names() == ["step-00000002"]
        assert signal.getsignal(signal.SIGTERM) is before

    def test_a_signal_while_no_batch_comes_saves_what_there_is(self, tmp_path):
        def kill(session):
            if session.step == 3:
                os.kill(os.getpid(), signal.SIGINT)

        class Late(Told):
            def before_step(self, session):
                kill(session)

        feed = Numbers(gone=16)
        made = session(tmp_path, feed=feed, hooks=[Late()], save_every=2)
        # the signal comes in step 4; the batch of step 5 is waited for by nobody
        made._agree = lambda: (False, False, False)
        assert made.train() == Outcome("interrupted", "SIGINT", 4, int(signal.SIGINT))
        assert made.saver.store.names() == ["step-00000002", "step-00000004"]
        assert made.saver.store.load().state["pending_evaluation"] is False
        assert feed.closed == 1

    def test_a_signal_before_the_first_batch_of_a_resume_saves_nothing_again(self, tmp_path):
        session(tmp_path, 2).train()
        again = session(tmp_path, 4, feed=Numbers(gone=8))
        again._gives_up = lambda: True
        assert again.train() == Outcome("stopped", "another rank was stopped", 2)
        assert again.saver.store.names() == ["step-00000002"]

    def test_an_evaluation_that_was_pending_may_be_what_ends_it(self, tmp_path):
        class Enough(Told):
            def after_eval(self, session, scores, loss):
                session.request_stop("good enough")

        session(tmp_path, 2, evaluate=Scorer(None)).train()
        again = session(tmp_path, 4, hooks=[Enough()], evaluate=Scorer(0.9))
        assert again.train() == Outcome("stopped", "good enough", 2)


@dataclasses.dataclass(frozen=True)
class Others(Ranks):
    """One of two ranks; what the other adds to sums of flags is given, and whether it says yes to what is asked."""

    of: int = 2
    flags: list = dataclasses.field(default_factory=list)
    agrees: bool = False
    equalized: list = dataclasses.field(default_factory=list)

    def sum(self, tensor):
        if tensor.shape == (3,) and self.flags:
            return tensor + torch.tensor(self.flags.pop(0))
        return 2 * tensor if tensor.is_floating_point() else tensor

    def any(self, flag, device):
        return flag or self.agrees

    def barrier(self):
        pass

    def equalize(self, model):
        self.equalized.append(model)

    def wrap(self, model, device):
        return model


class TestRanks:
    def test_what_another_rank_was_asked_for_is_done(self, tmp_path):
        """To stop, to save, to evaluate: whoever was asked, all do it."""
        flags = [(0, 0, 0), (0, 1, 0), (0, 0, 1), (1, 0, 0)]
        evaluate = Scorer(0.5)
        made = session(tmp_path, 9, ranks=Others(flags=flags), evaluate=evaluate, save_every=50, evaluate_every=50)
        assert made.train() == Outcome("stopped", "another rank was stopped", 4)
        assert made.saver.store.names() == ["step-00000002", "step-00000003", "step-00000004"]
        assert len(evaluate.models) == 1
        assert len(made.ranks.equalized) == 1

    def test_only_the_first_writes(self, tmp_path):
        made = session(tmp_path, 3, ranks=Others(rank=1), evaluate=Scorer(0.5), save_every=1)
        made.train()
        assert not tmp_path.exists() or made.saver.store.names() == []
        assert made.best == (3, 0.5)

    def test_several_do_not_give_up_waiting_alone(self, tmp_path):
        made = session(tmp_path)
        assert made._gives_up() is False
        made._flag.signal = signal.SIGINT
        assert made._gives_up() is True
        several = session(tmp_path, ranks=Others())
        several._flag.signal = signal.SIGINT
        assert several._gives_up() is False


class More:
    """What comes after a plan's end: so many feeds of two batches each."""

    def __init__(self, feeds, error=None):
        self.feeds, self.reason, self.state, self.error, self.asked = feeds, "nothing came", 0, error, []

    def next(self, stop):
        self.asked.append(stop())
        if self.error:
            raise self.error
        self.state += 1
        return self.feed(0) if self.state <= self.feeds else None

    def feed(self, position):
        return Numbers(end=8 * (self.state + 1))

    def state_dict(self):
        return {"taken": self.state}

    def load_state_dict(self, state):
        self.state = state["taken"]


class TestFollowing:
    def test_a_plan_that_ends_ends_training(self, tmp_path):
        made = session(tmp_path, 9, Numbers(end=8), evaluate=Scorer(0.5))
        assert made.train() == Outcome("stopped", "the plan has ended", 2)
        assert made.saver.store.names() == ["step-00000002"]
        assert made.best == (2, 0.5)  # the end of a plan is evaluated

    def test_what_comes_is_gone_on_with(self, tmp_path):
        follow = More(2)
        made = session(tmp_path, 9, Numbers(end=8), follow=follow)
        assert made.train() == Outcome("stopped", "nothing came", 6)
        assert follow.asked == [False] * 3
        assert made.saver.store.load().state["follow"] == {"taken": 2}
        close(list(made.model.parameters()), by_hand(6)[0])

    def test_what_a_hook_asked_is_the_reason(self, tmp_path):
        made = session(tmp_path, 9, Numbers(end=8), follow=More(0))
        made._requests.stop = "a hook's"
        made.standing.step, made.standing.cursor = 2, Cursor(8, "plan")
        assert made._go_on() is False
        assert made._requests.stop == "a hook's"

    def test_a_wait_that_is_given_up_ends_it(self, tmp_path):
        follow = More(5, InterruptedError())
        made = session(tmp_path, 9, Numbers(end=8), follow=follow)
        assert made.train() == Outcome("stopped", "nothing came", 2)

    def test_a_signal_ends_the_wait(self, tmp_path):
        """On any rank: whoever waits is told of it."""
        follow = More(0)
        made = session(tmp_path, 9, Numbers(end=8), follow=follow)
        made._flag.signal = signal.SIGTERM
        assert made._go_on() is False
        several = session(tmp_path, 9, Numbers(end=8), follow=follow, ranks=Others(agrees=True))
        assert several._go_on() is False
        assert follow.asked == [True, True]

    def test_a_resume_takes_back_what_was_taken_up(self, tmp_path):
        asks = {5: lambda s: s.request_stop("enough")}
        session(tmp_path, 9, Numbers(end=8), hooks=[Told(asks)], follow=More(3)).train()
        follow = More(3)
        again = session(tmp_path, 9, Numbers(end=8), follow=follow)
        assert (follow.state, again.feed.plan.end, again.feed.started) == (2, 24, [20])
        assert again.train() == Outcome("stopped", "nothing came", 8)
        close(list(again.model.parameters()), by_hand(8)[0])


class Positions(nn.Module):
    """With a matrix that says it must not decay, and one that may."""

    def __init__(self):
        super().__init__()
        self.places, self.filters = (nn.Parameter(torch.ones(2, 2)) for _ in range(2))

    def no_weight_decay(self):
        return {"places"}


class Nested(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.head = Positions(), nn.Linear(2, 2)


@pytest.mark.parametrize(("model", "before"), [(Positions(), ""), (Nested(), "encoder.")])
def test_what_a_network_says_must_not_decay_does_not(model, before):
    groups = make_optimizer(OptimizerSpec(weight_decay=0.1), model).param_groups
    decays = {id(parameter): group["weight_decay"] for group in groups for parameter in group["params"]}
    found = {name: decays[id(parameter)] for name, parameter in model.named_parameters()}

    assert found[f"{before}places"] == 0.0
    assert found[f"{before}filters"] == 0.1


def test_matrices_of_a_backbone_are_filters_too():
    model = Nested()
    groups = make_optimizer(OptimizerSpec("muon"), model).param_groups
    orthogonal = {id(parameter) for group in groups if group["orthogonal"] for parameter in group["params"]}
    assert orthogonal == {id(model.encoder.places), id(model.encoder.filters)}


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

from __future__ import annotations

import math

import pytest
import torch
from support.line import Scorer, Told, session

from penstock.errors import CheckpointError
from penstock.session import CheckpointStore, Outcome, Session
from penstock.values import Cursor


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
        assert [(model is made.learner.ema.model, stop) for model, stop in evaluate.models] == [(True, False)] * 2
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

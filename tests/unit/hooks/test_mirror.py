from __future__ import annotations

from types import SimpleNamespace

import pytest
from support.line import Scorer, by_hand, close, session

from penstock.hooks import Mirror, mirror
from penstock.ranks import Ranks

POINTS = ("open", "log_step", "log_scores", "close")


class Away(Mirror):
    """Writes down what is called, and fails at one point."""

    tool = "Elsewhere"

    def __init__(self, point):
        super().__init__()
        self.point, self.called = point, []

    def open(self, session):
        self.meet("open")

    def log_step(self, session):
        self.meet("log_step")

    def log_scores(self, session, scores, loss):
        assert (scores.summary()["score"], loss) == (0.5, 0.25)
        self.meet("log_scores")

    def close(self):
        self.meet("close")

    def meet(self, point):
        self.called.append(point)
        if point == self.point:
            raise ConnectionError("nobody answers.")


@pytest.mark.parametrize("point", POINTS)
def test_a_mirror_that_fails_is_told_of_once_and_training_goes_on(tmp_path, point):
    hook, lines = Away(point), []
    made = session(tmp_path, 4, hooks=[hook], evaluate=Scorer(0.5), evaluate_every=2)
    made.note = lines.append
    outcome = made.train()

    assert outcome.status == "finished"
    close(list(made.model.parameters()), by_hand(4)[0])
    assert lines == [
        "note: Elsewhere: ConnectionError: nobody answers. Nothing more is written to it; training goes on, and the run "
        "folder has everything"
    ]
    assert hook.called[-1] == point
    assert hook.called.count(point) == 1


def test_one_that_works_is_given_everything(tmp_path):
    hook = Away("")
    session(tmp_path, 4, hooks=[hook], evaluate=Scorer(0.5), evaluate_every=2).train()

    assert hook.called == [
        "open", "log_step", "log_step", "log_scores", "log_step", "log_step", "log_scores", "close",
    ]  # fmt: skip


def test_a_training_that_fails_closes_it(tmp_path):
    class Fails(Away):
        def log_step(self, session):
            super().log_step(session)
            raise KeyboardInterrupt  # which is for the training

    hook = Fails("")
    with pytest.raises(KeyboardInterrupt):
        session(tmp_path, 4, hooks=[hook]).train()
    assert hook.called == ["open", "log_step", "close"]


def test_one_rank_of_many_writes(tmp_path):
    class Other(Ranks):
        def __init__(self):
            super().__init__(1, 2)

        def sum(self, tensor):
            return tensor

        def barrier(self):
            pass

        def broadcast_buffers(self, model):
            pass

        def wrap(self, model, device):
            return model

        def gather(self, texts):
            return [*texts]

    hook = Away("")
    made = session(tmp_path, 2, hooks=[hook], ranks=Other(), evaluate=Scorer(0.5), evaluate_every=2)
    made.train()
    assert hook.called == []


def test_throughput_is_that_since_the_last_time_it_was_written(monkeypatch):
    clock = iter([10.0, 12.0, 16.0])
    monkeypatch.setattr(mirror.time, "perf_counter", lambda: next(clock))
    feed = SimpleNamespace(batch=8)
    at = [
        SimpleNamespace(
            step=step, feed=feed, lr=0.1, is_left_out=True, timing={"wait": 1.0, "step": 4.0}, ranks=Ranks()
        )
        for step in (3, 4, 10)
    ]
    hook = Away("")
    hook.on_start(at[0])

    assert [hook.numbers(each)["train/images_per_second"] for each in at[1:]] == [8 / 2, 6 * 8 / 4]

from __future__ import annotations

import signal

from support.line import Numbers, Others, Scorer, Told, by_hand, close, session

from penstock.session import Outcome
from penstock.values import Cursor


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

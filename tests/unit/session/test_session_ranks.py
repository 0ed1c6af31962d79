from __future__ import annotations

import signal

from support.line import Others, Scorer, session

from penstock.session import Outcome


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

from __future__ import annotations

import os
import signal

from support.line import Numbers, Scorer, Told, session

from penstock.session import Outcome


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

    def test_a_signal_may_ask_for_a_checkpoint_and_training_goes_on(self, tmp_path):
        def ask(session):
            os.kill(os.getpid(), signal.SIGUSR1)

        before = signal.getsignal(signal.SIGUSR1)
        made = session(tmp_path, 6, hooks=[Told({2: ask, 4: ask})], save_every=100)
        assert made.train().status == "finished"
        assert made.saver.store.names() == ["step-00000002", "step-00000004", "step-00000006"]
        assert signal.getsignal(signal.SIGUSR1) is before

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

from __future__ import annotations

from types import SimpleNamespace

import pytest
from support.commands import call
from support.errors import refused
from support.line import Scorer, session
from support.training import recipe

from penstock.config import apply
from penstock.errors import RecipeError
from penstock.hooks.stopping import EarlyStopping, MaxTime, StopAtScore, seconds_of
from penstock.session import Outcome
from penstock.training import train


def test_patience_goes_on_from_the_best_score_and_the_evaluations_since():
    asked = []
    hook = EarlyStopping(2)
    hook.load_state_dict({"waited": 1, "best": 0.5})
    hook.after_eval(SimpleNamespace(best=(3, 0.5), request_stop=asked.append), None, None)

    assert asked == ["no better score in 2 evaluations (train.patience)"]
    assert hook.state_dict() == {"waited": 2, "best": 0.5}


class TestScore:
    @pytest.mark.parametrize(("score", "step"), [(0.5, 2), (0.6, 4), (0.7, 4), (0.71, 6)])
    def test_it_ends_once_a_score_is_reached(self, tmp_path, score, step):
        scorer = Scorer(0.5, 0.7, 0.6)
        made = session(tmp_path, 6, hooks=[StopAtScore(score)], evaluate=scorer, evaluate_every=2)
        outcome = made.train()

        assert outcome.step == step
        assert made.saver.store.names()[-1] == f"step-{step:08d}"
        if step < 6:
            assert (outcome.status, outcome.reason) == ("stopped", f"score is {scorer_at(step)} (stop_at_score)")

    def test_any_score_may_be_named(self, tmp_path):
        made = session(tmp_path, 6, hooks=[StopAtScore(0.0, "other")], evaluate=Scorer(0.5), evaluate_every=2)
        assert made.train() == Outcome("stopped", "other is 0 (stop_at_score)", 2)

    def test_the_score_that_decides_is_the_default(self, tmp_path):
        options = {"evaluate": Scorer(0.5), "evaluate_every": 2, "best_metric": "other"}
        made = session(tmp_path, 6, hooks=[StopAtScore(0.0)], **options)
        assert made.train() == Outcome("stopped", "other is 0 (stop_at_score)", 2)

    def test_of_some_scores_a_smaller_one_is_better(self, tmp_path):
        made = session(tmp_path, 6, hooks=[StopAtScore(0.4)], evaluate=Scorer(0.5, 0.45, 0.4), evaluate_every=2)
        made.task.lower_is_better = frozenset({"score"})
        assert made.train().step == 6
        assert StopAtScore(0.4).band == "decide"
        made = session(tmp_path / "b", 6, hooks=[StopAtScore(0.45)], evaluate=Scorer(0.5, 0.45), evaluate_every=2)
        made.task.lower_is_better = frozenset({"score"})
        assert made.train() == Outcome("stopped", "score is 0.45 (stop_at_score)", 4)

    def test_a_score_that_there_is_not_is_named(self, tmp_path):
        made = session(tmp_path, 6, hooks=[StopAtScore(0.4, "iou")], evaluate=Scorer(0.5), evaluate_every=2)
        with pytest.raises(RecipeError) as caught:
            made.train()
        assert str(caught.value) == (
            "stop_at_score: expected one of other, score, found iou. Choose one of these scores, such as other."
        )

    def test_a_recipe_may_name_it(self, packed, tmp_path):
        chosen = apply(recipe(packed.folder), ["hooks=[{name='stop_at_score', score=0.0, metric='pixel_accuracy'}]"])
        assert train(chosen, tmp_path)[1].step == 4


def scorer_at(step):
    return {2: 0.5, 4: 0.7}[step]


class TestTime:
    def test_it_ends_before_a_step_that_would_end_too_late(self, tmp_path, monkeypatch):
        """A clock on which a step takes ten seconds, but the third one twenty."""
        now = iter([0, 10, 20, 40, 50, 60, 70, 80, 90])
        monkeypatch.setattr("penstock.hooks.stopping.time", SimpleNamespace(monotonic=lambda: next(now)))
        made = session(tmp_path, 9, hooks=[MaxTime("1m15s")])

        assert made.train() == Outcome(
            "stopped", "its time of 1m15s is over", 5, is_paused=True
        )  # 60 + 20 are more than 75

    def test_a_training_that_is_tried_again_has_no_more_time(self, monkeypatch):
        now = iter([100, 105, 110, 120])
        monkeypatch.setattr("penstock.hooks.stopping.time", SimpleNamespace(monotonic=lambda: next(now)))
        hook, asked = MaxTime("25s"), []
        asking = SimpleNamespace(request_stop=lambda reason, pause: asked.append((reason, pause)))
        hook.on_start(asking)
        hook.after_step(asking)
        hook.on_start(asking)
        assert asked == []
        hook.after_step(asking)
        assert asked == [("its time of 25s is over", True)]

    @pytest.mark.parametrize(
        ("text", "seconds"), [("90s", 90), ("2m", 120), ("3h55m", 14_100), ("1d2h3m4s", 93_784), ("36h", 129_600)]
    )
    def test_times_are_read(self, text, seconds):
        assert seconds_of(text) == seconds

    @pytest.mark.parametrize("text", ["", "0s", "3", "h", "3h 5m", "5m3h", "-3h", "1.5h"])
    def test_what_is_no_time_is_refused(self, text):
        message = (
            f"--max-time: expected a time above 0, such as 3h55m, found {text or 'nothing'}. Write for example 90m."
        )
        refused(seconds_of, text, message=message)

    def test_the_command_takes_it_for_a_start_and_for_a_resume(self, packed, tmp_path, capsys, monkeypatch):
        monkeypatch.setattr(MaxTime, "on_start", lambda self, session: setattr(self, "_began", -1e9))
        words = ("--model", "unet:test_resnet", "--weights", "none", "--crop", 32, 32, "--batch", 4, "--steps", 3)
        code, out, _ = call("train", packed.folder, *words, "--runs", tmp_path, "--max-time", "1h", capsys=capsys)
        (run,) = tmp_path.iterdir()

        assert code == 75
        assert f"stopped at step 1: its time of 1h is over\ngo on with: penstock train --resume {run}\n" in out.replace(
            "saved; ", ""
        )
        code, out, _ = call("train", "--resume", run, "--max-time", "1h", capsys=capsys)
        assert code == 75
        assert "stopped at step 2: its time of 1h is over\n" in out
        code, out, _ = call("train", "--resume", run, capsys=capsys)
        assert code == 0
        assert "finished at step 3" in out

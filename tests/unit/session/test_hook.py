from __future__ import annotations

import pytest
from support.sessions import make_session
from support.training import Stop, recipe

from penstock.assembly import open_parts
from penstock.session import Hook, Options, Steps
from penstock.session.hook import POINTS, keys
from penstock.training import train


class Story(Hook):
    """Writes down what is called."""

    def __init__(self):
        self.told = []

    def on_start(self, session):
        self.told.append(f"start {session.step}")

    def before_step(self, session):
        self.told.append(f"before {session.step}")

    def after_backward(self, session):
        assert any(p.grad is not None for p in session.model.parameters())
        self.told.append(f"backward {session.step}")

    def after_step(self, session):
        self.told.append(f"after {session.step}")

    def after_eval(self, session, scores, loss):
        saved = sorted(path.name for path in session.saver.store.folder.iterdir() if path.name.startswith("step"))
        assert f"step-{session.step:08d}" in saved  # saved before it was evaluated
        self.told.append(f"eval {session.step}{' best' * session.is_best}")

    def on_exception(self, session, error):
        self.told.append(f"exception {type(error).__name__}")

    def on_end(self, session):
        self.told.append(f"end {session.outcome.status}")

    def state_dict(self):
        self.told.append("save")
        return {}


class TestHooks:
    def test_points_are_called_in_the_designs_order(self, packed, tmp_path):
        story = Story()
        train(recipe(packed.folder, steps=3, evaluate_every=2, save_every=9), tmp_path, hooks=[story])
        told = [line.removesuffix(" best") for line in story.told]

        assert told == [
            *("start 0", "before 0", "backward 0", "after 1", "before 1", "backward 1", "after 2", "save", "eval 2"),
            *("before 2", "backward 2", "after 3", "save", "eval 3", "end finished"),
        ]

    def test_every_says_how_often(self, packed, tmp_path):
        story = Story()
        story.every = Steps(2)
        make_session(open_parts(recipe(packed.folder)), tmp_path, Options(steps=5), [story]).train()

        assert [line for line in story.told if line.startswith("after")] == ["after 2", "after 4"]

    def test_an_error_in_a_hook_names_it_and_the_end_is_called(self, packed, tmp_path):
        class Broken(Hook):
            def after_step(self, session):
                raise KeyError("oh")

        class WorseAtTheEnd(Hook):
            def on_end(self, session):
                raise ValueError("and this")

        story = Story()
        session = make_session(
            open_parts(recipe(packed.folder)), tmp_path, Options(steps=3), [Broken(), WorseAtTheEnd(), story]
        )
        with pytest.raises(KeyError, match="oh") as caught:
            session.train()
        assert caught.value.__notes__ == [
            "in Broken.after_step, step 1",
            "WorseAtTheEnd.on_end then failed too: ValueError('and this')",
        ]
        assert story.told[-2:] == ["exception KeyError", "end failed"]
        assert list(tmp_path.iterdir()) == []

    def test_a_misspelt_point_is_an_error(self):
        with pytest.raises(
            TypeError, match=r"Wrong\.after_stpe is not a method of penstock\.Hook\. A hook can override on_start, "
        ):

            class Wrong(Hook):
                def after_stpe(self, session):
                    pass

    def test_hooks_can_ask_for_saves_and_evaluations(self, packed, tmp_path):
        class Ask(Hook):
            def after_step(self, session):
                if session.step == 1:
                    session.request_save()
                if session.step == 2:
                    session.request_eval()

        story = Story()
        train(recipe(packed.folder, steps=3, evaluate_every=99, save_every=99), tmp_path, hooks=[Ask(), story])
        told = [line.removesuffix(" best") for line in story.told if line.startswith(("save", "eval"))]

        assert told == ["save", "save", "eval 2", "save", "eval 3"]

    def test_states_of_two_hooks_of_a_kind_are_kept_apart(self):
        assert keys([Stop(1), Story(), Stop(2)]) == ["Stop", "Story", "Stop#2"]
        assert all(hasattr(Hook, point) for point in POINTS)

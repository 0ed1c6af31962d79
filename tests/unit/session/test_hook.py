from __future__ import annotations

import pytest
from support import line
from support.line import BATCH, Numbers, session
from support.sessions import make_session
from support.training import Stop, recipe

from penstock.assembly import open_experiment
from penstock.session import Hook, Steps
from penstock.session.hook import POINTS, keys
from penstock.settings import Train
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

    def after_save(self, session, path):
        assert (path / "manifest.json").is_file()
        self.told.append(f"saved {path.name}")

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
            *("start 0", "before 0", "backward 0", "after 1", "before 1", "backward 1", "after 2", "save"),
            *("saved step-00000002", "eval 2", "before 2", "backward 2", "after 3", "save", "saved step-00000003"),
            *("eval 3", "end finished"),
        ]

    def test_every_says_how_often(self, packed, tmp_path):
        story = Story()
        story.every = Steps(2)
        make_session(open_experiment(recipe(packed.folder)), tmp_path, Train(steps=5), [story]).train()

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
            open_experiment(recipe(packed.folder)), tmp_path, Train(steps=3), [Broken(), WorseAtTheEnd(), story]
        )
        with pytest.raises(KeyError, match="oh") as caught:
            session.train()
        assert caught.value.__notes__ == [
            "in Broken.after_step, step 1",
            "WorseAtTheEnd.on_end then failed too: ValueError('and this')",
        ]
        assert story.told[-2:] == ["exception KeyError", "end failed"]
        assert session.saver.store.names() == ["step-00000001"]

    def test_a_misspelt_point_is_an_error(self):
        with pytest.raises(
            TypeError,
            match=r"test_hook\.py, line \d+: Wrong\.after_stpe is not a method of penstock\.Hook\. A hook can override on_start, ",
        ):

            class Wrong(Hook):
                def after_stpe(self, session):
                    pass

    @pytest.mark.parametrize(
        ("body", "message"),
        [
            ("def after_step(self): pass", "Mine.after_step(self) is called as after_step(self, session)"),
            (
                "def after_eval(self, session, scores): pass",
                "Mine.after_eval(self, session, scores) is called as after_eval(self, session, scores, loss)",
            ),
            ("def state_dict(self, more): pass", "Mine.state_dict(self, more) is called as state_dict(self)"),
        ],
    )
    def test_a_point_that_cannot_be_called_is_an_error_with_file_and_line(self, body, message):
        code = compile(f"from penstock.session import Hook\n\nclass Mine(Hook):\n    {body}\n", "mine.py", "exec")
        with pytest.raises(TypeError) as caught:
            exec(code, {})

        assert str(caught.value) == f"mine.py, line 4: {message}. Give it these parameters"

    @pytest.mark.parametrize(
        "body", ["def after_step(self, *others): pass", "def after_step(self, session, more=1): pass"]
    )
    def test_a_point_may_take_more_than_it_is_given(self, body):
        exec(f"from penstock.session import Hook\n\nclass Mine(Hook):\n    {body}\n", {})

    def test_who_measures_is_called_before_who_decides_and_who_persists(self, tmp_path):
        told = []

        class Tells(Hook):
            def __init__(self, name):
                self.name = name

            def after_step(self, session):
                told.append(self.name)

            def on_end(self, session):
                told.append(f"{self.name} ends")

        class Decides(Tells):
            band = "decide"

        class Persists(Tells):
            band = "persist"

        line.session(tmp_path, 1, hooks=[Persists("p"), Decides("d"), Tells("m"), Persists("q"), Tells("n")]).train()

        assert told == ["m", "n", "d", "p", "q", *(f"{name} ends" for name in ("q", "p", "d", "n", "m"))]

    def test_all_are_called_at_the_end_in_reverse_where_training_fails(self, tmp_path):
        told = []

        class Ends(Hook):
            def on_end(self, session):
                told.append(self)
                raise OSError("at the end")

        class Fails(Hook):
            def after_step(self, session):
                raise KeyError("mine")

        hooks = [Ends(), Fails(), Ends()]
        with pytest.raises(KeyError):
            line.session(tmp_path, 1, hooks=hooks).train()
        assert told == [hooks[2], hooks[0]]

    def test_hooks_can_ask_for_saves_and_evaluations(self, packed, tmp_path):
        class Ask(Hook):
            def after_step(self, session):
                if session.step == 1:
                    session.request_save()
                if session.step == 2:
                    session.request_eval()

        story = Story()
        train(recipe(packed.folder, steps=3, evaluate_every=99, save_every=99), tmp_path, hooks=[Ask(), story])
        told = [line.removesuffix(" best") for line in story.told if line.startswith(("save ", "save", "eval"))]

        assert [line for line in told if not line.startswith("saved")] == ["save", "save", "eval 2", "save", "eval 3"]

    def test_states_of_two_hooks_of_a_kind_are_kept_apart(self):
        assert keys([Stop(1), Story(), Stop(2)]) == ["Stop", "Story", "Stop#2"]
        assert all(hasattr(Hook, point) for point in POINTS)


class Counts(Hook):
    def __init__(self, every):
        self.every, self.called = every, {"before": [], "backward": [], "after": []}

    def before_step(self, session):
        self.called["before"].append(session.step + 1)

    def after_backward(self, session):
        self.called["backward"].append(session.step + 1)

    def after_step(self, session):
        self.called["after"].append(session.step)


def called(folder, every, end=None):
    """The steps at which the three points of a step are called, of a training of nine steps, four records each."""
    hook = Counts(every)
    session(folder, 9, feed=Numbers(end), hooks=[hook]).train()
    assert hook.called["before"] == hook.called["backward"] == hook.called["after"]
    return hook.called["after"]


@pytest.mark.parametrize(
    ("every", "expected"),
    [(Steps(), list(range(1, 10))), (Steps(4), [4, 8]), (Steps(4, last=True), [4, 8, 9]), (Steps(9, last=True), [9])],
)
def test_points_are_called_as_often_as_it_says(tmp_path, every, expected):
    assert called(tmp_path, every) == expected


def test_a_plan_that_ends_has_a_last_step(tmp_path):
    assert called(tmp_path, Steps(100, last=True), end=3 * BATCH) == [3]

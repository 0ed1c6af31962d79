from __future__ import annotations

from support.training import Stop, recipe

from penstock.session import Hook
from penstock.training import resume, train


class Remembers(Hook):
    """Counts steps, over restarts too."""

    def __init__(self):
        self.count = 0

    def after_step(self, session):
        self.count += 1

    def state_dict(self):
        return {"count": self.count}

    def load_state_dict(self, state):
        self.count = state.get("count", 0)


def test_a_hooks_state_is_there_after_a_restart(packed, tmp_path):
    whole, restarted = Remembers(), Remembers()
    train(recipe(packed.folder), tmp_path / "whole", hooks=[whole])
    folder, _ = train(recipe(packed.folder), tmp_path / "stopped", hooks=[Remembers(), Stop(5)])
    resume(folder.path, hooks=[restarted])

    assert (whole.count, restarted.count) == (12, 12)

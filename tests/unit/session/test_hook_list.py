from __future__ import annotations

import json

import pytest
from support import processes
from support.line import session
from support.training import Stop, recipe

from penstock.ranks import Ranks
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


class Own(Remembers):
    """Counts by tens on rank 1, by ones on others."""

    per_rank = True

    def after_step(self, session):
        self.count += 10 if session.ranks.rank == 1 else 1


class Second(Ranks):
    """Rank 1 of two, of which rank 0 has counted ones and is there no more."""

    def __init__(self):
        super().__init__(1, 2)

    def gather(self, texts):
        return [*(text.replace("0", "") for text in texts), *texts]

    def sum(self, tensor):
        return tensor

    def barrier(self):
        pass

    def wrap(self, model, device):
        return model


@pytest.mark.parametrize(("ranks", "count"), [(Ranks(), 4), (Second(), 40), (Ranks(2, 3), 0)])
def test_each_rank_has_a_state_of_its_own_where_a_hook_says_so(tmp_path, ranks, count):
    """Saved by rank 1 of two; given back to rank 0, to rank 1, and to a rank that there was not."""
    saving = session(tmp_path, steps=4, hooks=[Own()], ranks=Second())
    for _ in range(4):
        saving.attached.hooks[0].after_step(saving)
    saved = json.loads(json.dumps(saving.attached.state_dict(saving.ranks)))
    hook = Own()
    loading = session(tmp_path, steps=4, hooks=[hook])
    loading.attached.load_state_dict(saved, ranks.rank)

    assert saved == {"Own": {"ranks": [{"count": 4}, {"count": 40}]}}
    assert hook.count == count


CHILD = """
import sys
from pathlib import Path
from support.training import Stop, recipe
from penstock.session import Hook
from penstock.training import resume, train

class Own(Hook):
    per_rank = True
    count = 0
    def after_step(self, session):
        self.count += 10 if session.ranks.rank == 1 else 1
    def state_dict(self):
        return {"count": self.count}
    def load_state_dict(self, state):
        self.count = state.get("count", 0)
    def on_end(self, session):
        Path(f"{sys.argv[2]}-{session.ranks.rank}").write_text(str(self.count))

chosen = recipe(sys.argv[1], steps=6, evaluate_every=9)
train(chosen, Path(sys.argv[2]), hooks=[Own(), Stop(4)])
resume(next(Path(sys.argv[2]).glob("0*")), hooks=[Own()])
"""


@pytest.mark.slow
def test_two_ranks_remember_each_its_own(packed, tmp_path):
    program = tmp_path / "child.py"
    program.write_text(CHILD)
    done = processes.ranks(2, program, packed.folder, tmp_path / "runs")
    assert done.returncode == 0, done.stderr
    assert [(tmp_path / f"runs-{rank}").read_text() for rank in (0, 1)] == ["6", "60"]

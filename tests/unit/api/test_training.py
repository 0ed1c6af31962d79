from __future__ import annotations

import penstock as ps
from penstock.api import training
from penstock.runs import RunFolder


def test_a_run_that_goes_on_without_its_data_is_told_all_that_was_asked(tmp_path, monkeypatch):
    monkeypatch.setattr(RunFolder, "newest", classmethod(lambda *_: tmp_path / "0001-a"))
    given = {}
    monkeypatch.setattr(training, "resume", lambda path, **named: given.update(path=path, **named))
    ps.train("", name="a", go_on=True, max_time="3h", accept_changes=True, lr=0.5, runs=tmp_path, trust=True)

    assert (given["path"], given["max_time"], given["accept_changes"]) == (tmp_path / "0001-a", "3h", True)
    assert (given["settings"], given["trust"]) == ({"optimizer.lr": 0.5}, True)

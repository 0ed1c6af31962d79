"""Clocks of machines jump: at the end of a suspend, or when the time is set."""

from __future__ import annotations

import datetime as dt
import itertools
import time
from types import SimpleNamespace

from support.training import recipe, state

from penstock.training import train


def test_a_clock_that_jumps_changes_nothing(packed, whole_run, tmp_path, monkeypatch):
    """Years forwards and backwards, at every look; checkpoints by the minute and the log look at another clock."""
    years = itertools.cycle([0, 20, -15])
    now, own = dt.datetime.now(dt.UTC), time.time

    class Jumping(dt.datetime):
        @classmethod
        def now(cls, zone=None):
            return now.replace(year=now.year + next(years), day=1)

    monkeypatch.setattr(time, "time", lambda: own() + 365 * 86_400 * next(years))
    monkeypatch.setattr("penstock.runs.folder.dt", SimpleNamespace(datetime=Jumping, UTC=dt.UTC))
    folder, outcome = train(recipe(packed.folder, save_minutes=5.0), tmp_path)

    assert outcome.status == "finished"
    assert state(folder.path) == state(whole_run)
    times = [line["time"][:4] for line in folder.lines("events.jsonl")]
    assert len({*times}) > 1

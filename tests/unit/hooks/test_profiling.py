from __future__ import annotations

import json

from support.training import recipe, state

from penstock.config import apply
from penstock.training import train


def test_steps_are_recorded_as_traces(packed, tmp_path):
    chosen = apply(recipe(packed.folder, steps=5, evaluate_every=5), ["hooks=[{name='profiler', every=2}]"])
    plain, _ = train(recipe(packed.folder, steps=5, evaluate_every=5), tmp_path / "plain")
    folder, _ = train(chosen, tmp_path / "traced")
    traces = sorted((folder.path / "profiles").iterdir())

    assert [trace.name for trace in traces] == ["profile-00000002.json", "profile-00000004.json"]
    names = {event.get("name") for event in json.loads(traces[0].read_text())["traceEvents"]}
    assert "aten::convolution_backward" in names
    ours, theirs = (state(each.path) for each in (folder, plain))
    assert {name: ours[name] for name in ours if "json" not in name} == {
        n: theirs[n] for n in theirs if "json" not in n
    }
    assert ours["metrics.jsonl"] == theirs["metrics.jsonl"]

"""Misspelt keyword arguments of the public functions."""

from __future__ import annotations

import pytest

import penstock as ps

TRAIN = (
    "data, settings, hooks, runs, name, go_on, max_time, on_event, progress, accept_changes, trust, model, weights, init, strict, "
    "task, loss, optimizer, lr, crop, batch, steps, epochs, patience, limit, overfit, fast_dev_run, seed, device, start, "
    "until, follow, replay_ratio, stall_timeout, retries"
)


@pytest.mark.parametrize(
    ("function", "name", "said"),
    [
        (ps.train, "modle", "train() has no argument 'modle'. Did you mean model?"),
        (ps.train, "learning_rate", "train() has no argument 'learning_rate'. Did you mean lr?"),
        (
            ps.train,
            "weight_decay",
            "train() has no argument 'weight_decay'. Pass settings={\"optimizer.weight_decay\": ...}.",
        ),
        (ps.train, "quux", f"train() has no argument 'quux'. It takes {TRAIN}."),
        (ps.resume, "setings", "resume() has no argument 'setings'. Did you mean settings?"),
        (ps.load, "chekpoint", "load() has no argument 'chekpoint'. Did you mean checkpoint?"),
        (ps.load, "steps", "load() has no argument 'steps'. It takes run, checkpoint, device, trust."),
        (ps.export, "anysize", "export() has no argument 'anysize'. Did you mean any_size?"),
        (ps.open, "trusted", "open() has no argument 'trusted'. Did you mean trust?"),
        (ps.inspect, "layuot", "inspect() has no argument 'layuot'. Did you mean layout?"),
        (ps.pack, "layouts", "pack() has no argument 'layouts'. Did you mean layout?"),
        (ps.Split.feed, "crops", "feed() has no argument 'crops'. Did you mean crop?"),
        (ps.Run.evaluate, "splt", "evaluate() has no argument 'splt'. Did you mean split?"),
        (ps.LoadedModel.predict, "img", "predict() has no argument 'img'. Did you mean image?"),
        (ps.LoadedModel.with_tta, "scale", "with_tta() has no argument 'scale'. Did you mean scales?"),
    ],
)
def test_what_is_meant_is_said_before_anything_is_done(function, name, said):
    with pytest.raises(TypeError) as caught:
        function("nothing", **{name: 1})
    assert str(caught.value) == said

"""Arguments of public functions that are out of their ranges are refused, as the command line refuses them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import penstock as ps
from penstock.errors import PenstockError


def number(name, value, reach):
    return f"{name}: expected a number {reach}, found {value}. Choose one in this range."


RAW = {
    "threads": (-1, "of at least 0"),
    "limit": (-1, "of at least 0"),
    "max_side": (-1, "of at least 0"),
    "mask_threshold": (999, "from 0 to 255"),
    "ignore": (300, "from 0 to 255"),
    "quality": (101, "from 0 to 100"),
}
CALLS = {
    "mapping": (lambda at: ps.inspect(at.raw, mapping={1: 999}), number("mapping", 999, "from 0 to 255")),
    "shard_size": (lambda at: ps.pack(at.raw, at.out, shard_size=0), number("shard_size", 0, "of at least 1")),
    "validation": (lambda at: ps.pack(at.raw, at.out, validation="x"), number("validation", "'x'", "from 0 to 1")),
    "options of an inspection": (
        lambda at: ps.pack(ps.inspect(at.raw), at.out, limit=2),
        "limit cannot be given with what inspect found. Give them to penstock.inspect.",
    ),
    "train": (lambda at: ps.scenes(at.out, train=0), number("train", 0, "from 1 to 100000")),
    "size": (
        lambda at: ps.scenes(at.out, size=(16,)),
        "--size: expected sides of at least 16 pixels, found 16. Use larger sides.",
    ),
    "count": (lambda at: ps.open(at.data).show(count=0), number("count", 0, "of at least 1")),
    "threads of verify": (lambda at: ps.open(at.data).verify(threads=-1), number("threads", -1, "of at least 0")),
    "count of models": (lambda at: ps.list_models("resnet", count=0), number("count", 0, "of at least 1")),
    "images": (lambda at: ps.Run(at.run).evaluate(images=-1), number("images", -1, "of at least 0")),
    "overlap": (
        lambda at: ps.load(at.run).with_sliding_window(16, overlap=1.5),
        "--sliding-window, --overlap: expected a side from 0 to 65536 pixels, and an overlap from 0 to below 1, found 16 and 1.5. "
        "Choose others.",
    ),
    "scales": (
        lambda at: ps.load(at.run).with_tta(scales=[0]),
        "--scales, --shift: expected at least one scale, above 0, and a shift of at least 0 pixels, found 0 and 0. Choose others.",
    ),
    "ids": (
        lambda at: ps.load(at.run).write(at.out, at.raw, ids="foo"),
        "ids: expected one of classes, original, found foo. Choose one of them.",
    ),
    "palette": (
        lambda at: ps.load(at.run).write(at.out, at.raw, palette="foo"),
        "palette: expected one of auto, distinct, voc, cityscapes, ade20k, found foo. Choose one of them.",
    ),
    "a topic of raw images": (
        lambda at: ps.inspect("kafka://h:9/t"),
        "kafka://h:9/t: expected a folder of raw images, found a topic. See what it holds with penstock.open.",
    ),
    "no run": (
        lambda at: ps.Run(at.out).prune(),
        "{out}: expected a run folder, with a recipe.toml, found no such folder. Name a folder that penstock train made, for "
        "example runs/0001-...",
    ),
    "no runs": (lambda at: ps.write_report(), "penstock report: expected a run folder, found none. Name at least one."),
    "nothing to train on": (
        lambda at: ps.train("", name="a", runs=at.out),
        "penstock train: expected a packed dataset, a topic, a recipe, or --resume RUN, found none of them. Make a dataset with "
        "penstock pack FOLDER -o DIR, then penstock train DIR.",
    ),
}


class Places:
    def __init__(self, raw, data, run, out):
        self.raw, self.data, self.run, self.out = raw, data, run, out


@pytest.fixture
def places(raw, packed, shaken_run, tmp_path):
    return Places(raw, packed.folder, shaken_run, tmp_path / "out")


@pytest.mark.parametrize("name", RAW)
def test_numbers_of_raw_images(places, name):
    value, reach = RAW[name]
    for call in (
        lambda: ps.inspect(places.raw, **{name: value}),
        lambda: ps.pack(places.raw, places.out, **{name: value}),
    ):
        with pytest.raises(PenstockError, match=f"^{re.escape(number(name, value, reach))}$"):
            call()


@pytest.mark.parametrize("name", CALLS)
def test_others(places, name):
    call, message = CALLS[name]
    with pytest.raises(PenstockError) as caught:
        call(places)

    assert str(caught.value) == message.replace("{out}", str(places.out))
    assert not Path(places.out).exists()


def test_text_may_stand_for_a_path_and_for_a_list(places, tmp_path):
    run = ps.Run(str(places.run))
    before = run.summary.tags
    try:
        run.note(tag="abc")
        assert run.summary.tags == (*before, "abc")
    finally:
        run.note(untag="abc")
    assert ps.recipe(settings="seed=77") == ps.recipe(settings=["seed=77"]) == ps.recipe(settings={"seed": 77})

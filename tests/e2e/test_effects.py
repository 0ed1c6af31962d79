"""Every setting has its effect, by itself and beside many others, and no other one."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import effects, miniatures
from support.datasets import learn_colors, learn_squares
from support.effects import BATCHES, CHOICES, CLASSES_TOO, EFFECTS, NOTHING, ORDER, WEIGHTS, Effect, Elsewhere
from support.setting_names import names
from support.training import recipe

from penstock.config import apply
from penstock.datasets import inspect, pack

TESTS = Path(__file__).parents[1]
MEET = ("data.", "augment.", "regularize.", "loss.")
"""Sections whose settings `make soak` tries beside many others too, as they meet in the same batches and sums."""
LIVE = {name: each for name, each in EFFECTS.items() if isinstance(each, Effect)}
TRIED = [*((name, each.data) for name, each in LIVE.items()), *((name, "classes") for name in CLASSES_TOO)]
ROWS = [
    *(pytest.param(name, data, False, id=f"{name}-{data}") for name, data in TRIED),
    *(
        pytest.param(name, data, True, id=f"{name}-{data}-beside", marks=pytest.mark.soak)
        for name, data in TRIED
        if name.startswith(MEET)
    ),
]


def test_every_setting_has_a_row():
    assert [*EFFECTS] == [*names()]


def test_what_is_shown_elsewhere_is_there():
    tests = {name: TESTS / each.test for name, each in EFFECTS.items() if isinstance(each, Elsewhere)}

    assert [name for name, path in tests.items() if name.rpartition(".")[2] not in path.read_text()] == []


@pytest.fixture(scope="module")
def recipes(packed, tmp_path_factory):
    """What learns masks, classes and boxes."""
    root = tmp_path_factory.mktemp("effects")
    miniatures.coco(root / "boxes/raw")
    for number in range(12):
        split, name = ("val", "train")[number < 9], ("rare", "often")[number % 3 > 0]
        miniatures.write(root / f"classes/raw/{split}/{name}/{number}.jpg", miniatures.make_image(seed=number))
    few = {"steps": 3, "evaluate_every": 3, "save_every": 3, "ema_decay": 0.0, "log_origins": False, "log_every": 50}
    sets = {name: pack(inspect(root / name / "raw"), root / name / "data") for name in ("classes", "boxes")}
    begun = {
        "masks": recipe(packed.folder, **few),
        "networks": recipe(packed.folder, wide=True, **few),  # its decoder is of no other network
        "classes": learn_colors(sets["classes"], **{**few, "batch": 2}),
        "boxes": learn_squares(sets["boxes"], **{**few, "batch": 2}),
    }
    return {name: apply(each, ["data.validation="]) for name, each in begun.items()}


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """What trainings show, by recipe: many settings are tried beside the same ones."""
    known = {}

    def look(chosen):
        key = repr(chosen)
        if key not in known:
            known[key] = effects.observe(chosen, tmp_path_factory.mktemp("run"))
        return known[key]

    return look


@pytest.mark.parametrize(("name", "data", "rich"), ROWS)
def test_a_setting_has_its_effect(recipes, seen, name, data, rich):
    effect = LIVE[name]._replace(data=data)
    networks = data == "masks" and any(each.startswith("model.") for each in (name, *effect.beside))
    begun = recipes["networks" if networks else data]
    before, after = (seen(each) for each in effects.changed(begun, effect, name, rich=rich))
    differs = [each for each in ORDER if each != NOTHING and before[each] != after[each]]

    if not rich:
        assert (differs[0] if differs else NOTHING) == effect.first, differs
    assert effect.first in (*differs, NOTHING)
    assert BATCHES not in differs or WEIGHTS in differs  # what is fed and not learnt from is no effect


@pytest.mark.parametrize(("name", "beside"), [(name, each) for name, every in CHOICES.items() for each in every])
def test_a_setting_has_its_effect_for_every_choice(recipes, seen, name, beside):
    effect = LIVE[name]._replace(data="masks", beside=beside)
    before, after = (seen(each) for each in effects.changed(recipes["masks"], effect, name, rich=False))

    assert before[WEIGHTS] != after[WEIGHTS]
    assert (before[BATCHES] == after[BATCHES]) == (effect.first == WEIGHTS)

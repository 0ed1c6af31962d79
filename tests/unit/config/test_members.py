"""Settings that are one of several things: the optimizer, its schedule, the random crop. What belongs to another one cannot be said."""

from __future__ import annotations

import dataclasses
import itertools
import random
import tomllib

import pytest
from support.errors import refused

from penstock.assembly.presets import resolve
from penstock.config import apply, as_settings, dump, load, settings_in
from penstock.config.members import default_of, fields_of, kind_of, members, name_of
from penstock.config.toml import changes, check_given, convert, over, value_of
from penstock.settings import Recipe
from penstock.settings.optimizer import SGD, AdamW, CustomOptimizer, Muon, RMSprop
from penstock.settings.schedules import Constant, Cosine, MultiStep, Poly, Step
from penstock.tasks import TASKS

UNIONS = ("augment.view", "optimizer", "optimizer.schedule")
NEEDED = {"multistep": ["optimizer.schedule.milestones=[3]"]}
"""What a member has no default for."""


def named(member):
    return name_of(member) or "my.py:Best"


def chosen(union, member):
    """The settings that choose a member of a union."""
    return [f"{union}={named(member)}", *NEEDED.get(named(member), [])]


def foreign():
    """Every setting of a member beside every other member, which does not have it."""
    for union in UNIONS:
        for member, other in itertools.permutations(members(kind_of(union)), 2):
            for name in fields_of(other).keys() - fields_of(member).keys():
                yield union, member, name


@pytest.mark.parametrize(("union", "member", "name"), sorted(set(foreign()), key=str))
def test_a_setting_of_another_member_cannot_be_said(union, member, name):
    """Whatever value it has, that of its default too, and in whichever order it is given."""
    owners = [named(each) for each in members(kind_of(union)) if name in fields_of(each)]
    owner = next(each for each in members(kind_of(union)) if name in fields_of(each))
    value = default_of(owner, name)
    plain = list(value) if isinstance(value, tuple) else value
    shown = "[7]" if value is dataclasses.MISSING else str(plain).lower()
    settings = [f"{union}.{name}={shown}", *chosen(union, member)]
    words = [each.replace("my.py:Best", "a custom one") for each in owners]
    either = " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
    message = (
        f"{union}.{name} is a setting of {either}, but {union} is {named(member)}. "
        f"Remove {union}.{name}, or choose {union}={owners[0]}."
    )

    refused(apply, Recipe(), settings, message=message)
    refused(apply, Recipe(), settings[::-1], message=message)
    refused(apply, apply(Recipe(), chosen(union, member)), settings[:1], message=message)


def test_one_door_is_checked_before_anything_is_opened():
    """Before PyTorch is imported: what is said together must go together, whatever another door says."""
    message = (
        "optimizer.momentum is a setting of sgd, rmsprop, muon or a custom one, but optimizer is adamw. Remove "
        "optimizer.momentum, or choose optimizer=sgd."
    )
    refused(check_given, {"optimizer.momentum": 0.5, "optimizer": "adamw"}, message=message)
    check_given({"optimizer.sgd_momentum": 0.5})
    check_given({"optimizer.schedule.milestones": [3]})


@pytest.mark.parametrize("union", UNIONS)
def test_every_member_can_be_chosen_written_and_read(union, tmp_path):
    for member in members(kind_of(union)):
        recipe = apply(Recipe(), chosen(union, member))
        (tmp_path / "r.toml").write_text(dump(recipe))

        assert isinstance(value_of(recipe, union), member)
        assert load(tmp_path / "r.toml") == recipe
        assert convert(tomllib.loads(dump(recipe)), "") == recipe


def test_a_name_begins_with_its_own_defaults_and_naming_it_again_changes_nothing():
    begun = apply(Recipe(), ["optimizer.lr=0.5", "optimizer.momentum=0.2", "optimizer.schedule.power=2"])

    assert apply(begun, ["optimizer=adamw"]).optimizer == AdamW()
    assert apply(begun, ["optimizer=sgd", "optimizer.schedule=poly"]) == begun
    assert apply(begun, ["optimizer.schedule=cosine"]).optimizer == SGD(lr=0.5, momentum=0.2, schedule=Cosine())
    assert apply(begun, ["optimizer=a.py:B"]).optimizer == CustomOptimizer(name="a.py:B")
    placed = apply(apply(begun, ["optimizer=a.py:B", "optimizer.lr=0.3"]), ["optimizer=c.py:B"])
    assert placed.optimizer == CustomOptimizer(name="c.py:B", lr=0.3)


def test_every_order_of_settings_is_one_recipe():
    settings = [
        "optimizer=adamw", "optimizer.lr=0.1", "optimizer.schedule=step", "optimizer.schedule.gamma=0.3",
        "optimizer.schedule.step_size=7", "optimizer.warmup_steps=3", "train.steps=30", "augment.jitter.hue=0.1",
    ]  # fmt: skip
    expected = AdamW(lr=0.1, schedule=Step(gamma=0.3, step_size=7), warmup_steps=3)
    for number in range(100):
        shuffled = random.Random(number).sample(settings, len(settings))
        assert apply(Recipe(), shuffled).optimizer == expected


@pytest.mark.parametrize("place", ["file", "python"])
def test_a_value_of_a_type_a_name_and_a_table_say_the_same(tmp_path, place):
    expected = Recipe(optimizer=Muon(lr=0.3, schedule=MultiStep(milestones=(2, 5))))
    table = {"name": "muon", "lr": 0.3, "schedule": {"name": "multistep", "milestones": [2, 5]}}
    forms = [
        {"optimizer": Muon(lr=0.3, schedule=MultiStep(milestones=(2, 5)))},
        {"optimizer": table},
        {"optimizer": "muon", "optimizer.lr": 0.3, "optimizer.schedule": table["schedule"]},
        {"optimizer.name": "muon", "optimizer.lr": 0.3, "optimizer.schedule.name": "multistep",
         "optimizer.schedule.milestones": [2, 5]},
        {"optimizer": Muon, "optimizer.lr": 0.3, "optimizer.schedule": MultiStep, "optimizer.schedule.milestones": [2, 5]},
    ]  # fmt: skip
    if place == "python":
        assert all(apply(Recipe(), form) == expected for form in forms)
        return
    lines = [
        'optimizer = { name = "muon", lr = 0.3, schedule = { name = "multistep", milestones = [2, 5] } }',
        '[optimizer]\nname = "muon"\nlr = 0.3\n[optimizer.schedule]\nname = "multistep"\nmilestones = [2, 5]',
    ]
    for text in lines:
        (tmp_path / "r.toml").write_text(text)
        assert load(tmp_path / "r.toml") == expected
        assert apply(Recipe(), settings_in(tmp_path / "r.toml")) == expected
    (tmp_path / "r.toml").write_text('optimizer = "adamw"')
    assert load(tmp_path / "r.toml").optimizer == AdamW()


def test_a_value_of_a_type_gives_every_setting(tmp_path):
    """Those too that are as by default: what was there before does not shine through."""
    volumes = resolve({"task": "volumes"}, TASKS["volumes"]).recipe.optimizer

    assert (volumes.name, volumes.lr) == ("adamw", 1e-3)
    assert resolve({"optimizer": "adamw"}, TASKS["volumes"]).recipe.optimizer == volumes
    assert resolve({"optimizer": AdamW}, TASKS["volumes"]).recipe.optimizer == volumes
    assert resolve({"optimizer": AdamW()}, TASKS["volumes"]).recipe.optimizer == AdamW()
    assert resolve({"optimizer": RMSprop()}, TASKS["volumes"]).recipe.optimizer == RMSprop()


def test_a_model_brings_its_optimizer_unless_another_one_is_chosen():
    found = [
        resolve({"model.name": "cifar10-fast", **given}, TASKS["classification"])
        for given in ({}, {"optimizer": "sgd"}, {"optimizer.momentum": 0.5}, {"optimizer.schedule": "constant"})
    ]

    assert isinstance(found[0].recipe.optimizer, Muon)
    assert found[1].recipe.optimizer == SGD()
    assert "optimizer.lr" not in found[1].origins
    assert found[2].recipe.optimizer == dataclasses.replace(found[0].recipe.optimizer, momentum=0.5)
    assert found[3].recipe.optimizer == dataclasses.replace(found[0].recipe.optimizer, schedule=Constant())
    assert found[0].origins["optimizer.schedule.power"] == "model cifar10-fast"


def test_a_choice_of_the_command_line_puts_that_of_a_file_out_of_effect():
    file = {"optimizer.momentum": 0.5, "optimizer.lr": 0.1, "augment.view.margin": 3, "augment.view.name": "pad-crop"}

    assert over(file, {"optimizer.name": "adamw"}) == (
        {"augment.view.margin": 3, "augment.view.name": "pad-crop", "optimizer.name": "adamw"}, ["optimizer"],
    )  # fmt: skip
    assert over(file, {"optimizer.name": "sgd", "optimizer.lr": 0.2}) == (
        {**file, "optimizer.name": "sgd", "optimizer.lr": 0.2}, [],
    )  # fmt: skip
    assert over({}, {"augment.view.name": "pad-crop"}) == ({"augment.view.name": "pad-crop"}, [])


def test_settings_are_given_as_they_are_kept():
    assert as_settings({"optimizer": Muon(schedule=Poly(power=2))})["optimizer.schedule.power"] == 2
    assert as_settings(["optimizer=adamw"]) == {"optimizer.name": "adamw"}
    assert as_settings(["augment.jitter={}"]) == dict.fromkeys(
        (f"augment.jitter.{name}" for name in ("brightness", "contrast", "saturation", "hue")), 0.0
    )
    assert as_settings({"train": {}}) == {}


def test_what_differs_is_named_by_what_is_chosen_now():
    before = apply(Recipe(), ["optimizer.schedule=step", "optimizer.schedule.gamma=0.3"])
    now = apply(before, ["optimizer.schedule=cosine", "optimizer.lr=0.5"])

    assert changes(before, now) == {"optimizer.lr": (0.01, 0.5), "optimizer.schedule.name": ("step", "cosine")}
    assert changes(now, before)["optimizer.schedule.gamma"] == (None, 0.3)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["optimizer=adamv"], "optimizer.name: expected one of sgd, adamw, rmsprop, muon, or FILE.py:NAME, found adamv. "
         "Did you mean adamw?"),
        (["optimizer.schedule=cosin"], "optimizer.schedule.name: expected one of poly, cosine, constant, step, multistep, "
         "exponential, found cosin. Did you mean cosine?"),
        (["optimizer=3"], "optimizer.name: expected a string, found an integer. See the settings with penstock recipe."),
        (["optimizer.schedule=multistep"], "optimizer.schedule = multistep needs optimizer.schedule.milestones. Add "
         "optimizer.schedule.milestones."),
        (["optimizer.schedule=multistep", "optimizer.schedule.milestones=[5, 3]"], "optimizer.schedule.milestones: expected "
         "steps in ascending order, found [5, 3]. List the steps in ascending order."),
        (["optimizer.schedule=multistep", "optimizer.schedule.milestones=[]"], "optimizer.schedule.milestones: expected "
         "steps in ascending order, found []. List the steps in ascending order."),
        (["optimizer.gamma=0.1"], "optimizer.gamma: expected one of name, lr, weight_decay, decay_biases, schedule, "
         "warmup_steps, warmup_start_ratio, bias_lr_mult, norm_bias_lr_mult, head_lr_mult, head, momentum, found gamma. Did "
         "you mean optimizer.schedule.gamma?"),
        (["optimizer.schedule.gama=0.1"], "optimizer.schedule.gama: expected one of name, min_lr_ratio, power, found gama. "
         "Did you mean optimizer.schedule.gamma?"),
        (["train=3"], "train: expected a table, found an integer. See the settings with penstock recipe."),
    ],
)  # fmt: skip
def test_mistakes_are_named(settings, message):
    refused(apply, Recipe(), settings, message=message)

from __future__ import annotations

import dataclasses
import tomllib

import pytest

from penstock.config import Recipe, apply, dump, explained, load, parsed
from penstock.config.reference import attributes
from penstock.config.toml import convert
from penstock.errors import RecipeError
from penstock.images.color import Jitter
from penstock.models import DeepLab
from penstock.models.atrous import DPC


def message(call, *arguments):
    with pytest.raises(RecipeError) as caught:
        call(*arguments)
    return str(caught.value)


def test_what_is_dumped_is_loaded(tmp_path):
    changed = apply(Recipe(), ["train.batch=3", "augment.resize_range=[200, 400]", "augment.jitter.hue=0.1", "seed=-4"])
    path = tmp_path / "recipe.toml"
    for recipe in (Recipe(), changed):
        path.write_text(dump(recipe))
        assert load(path) == recipe
    assert changed.augment.jitter == Jitter(hue=0.1)


def test_settings_are_read_as_toml_or_text():
    recipe = apply(Recipe(), ["model.name=unet:resnet18", 'data.path="a b"', "train.compile=true"])

    assert (recipe.model.name, recipe.data.path, recipe.train.compile) == ("unet:resnet18", "a b", True)


def test_unknown_keys_are_answered_with_the_nearest():
    assert message(apply, Recipe(), ["train.bacth=8"]).endswith(", found bacth. Did you mean train.batch?")
    assert message(convert, {"optimiser": {}}, "r.toml") == (
        "r.toml: optimiser: expected one of seed, init, init_partial, task, task_options, hooks, data, follow, model, augment, regularize, loss, optimizer, train, found optimiser. "
        "Did you mean optimizer?"
    )
    assert message(convert, {"augment": {"jitter": {"zzz": 1}}}, "r.toml") == (
        "r.toml: augment.jitter.zzz: expected one of brightness, contrast, saturation, hue, found zzz. See the "
        "settings with penstock recipe."
    )


def test_every_setting_is_printed_with_what_it_means():
    """Each below a comment of its own, or with others that it is named together with."""
    text = explained(Recipe())
    sections = {"": Recipe, "model.deeplab": DeepLab, "augment.jitter": Jitter}
    sections |= {
        f.name: type(getattr(Recipe(), f.name))
        for f in dataclasses.fields(Recipe)
        if f.name not in {"seed", "init", "init_partial", "task", "task_options", "hooks"}
    }
    for section, kind in sections.items():
        told = {name for names in attributes(kind) for name in names}
        plain = {f.name for f in dataclasses.fields(kind) if not dataclasses.is_dataclass(getattr(kind(), f.name))}
        assert plain <= told, section
    assert convert(tomllib.loads(text), "it") == Recipe()
    assert "# Random seed of order, augmentation, initial weights and dropout.\nseed = 0\n" in text
    assert (
        "# block, window: Shuffle: records in a block, blocks in a shuffle window. 1 and 1 is a true global shuffle."
        in text
    )
    assert '# Merge of the logits of several scales. One of max, average.\nmerge = "max"\n' in text
    assert "at the size of the image.\n# resize_range is not set\n" in text


def test_a_cell_is_printed_too_and_read_again():
    begun = Recipe()
    chosen = dataclasses.replace(begun, model=dataclasses.replace(begun.model, deeplab=DeepLab(cell=DPC)))
    text = explained(chosen)

    assert convert(tomllib.loads(text), "it") == chosen
    assert text.count("# Dense prediction cell in place of the pyramid; the published one is DPC.") == 1


def test_values_that_do_not_fit_are_named():
    assert message(convert, {"train": {"batch": "eight"}}, "r.toml") == (
        "r.toml: train.batch: expected `int`, found `str`. See the settings with penstock recipe."
    )
    assert message(convert, {"optimizer": {"name": "adam"}}, "r.toml") == (
        "r.toml: optimizer.name: expected one of sgd, adamw, rmsprop, muon, or FILE.py:NAME, found adam. See the settings with penstock recipe."
    )
    assert message(apply, Recipe(), ["train.batch=0"]) == (
        "the settings: train.batch: expected a number above 0, found 0. Choose a larger one."
    )
    assert message(apply, Recipe(), ["augment.flip=1.5"]) == (
        "the settings: augment.flip: expected a number from 0 to 1, found 1.5. Choose one of those."
    )
    assert message(apply, Recipe(), ["train.batch"]) == (
        "--set train.batch: expected KEY=VALUE, for example train.batch=8, found no equals sign. Write it so."
    )


def test_files_that_are_no_recipes_are_named(tmp_path):
    path = tmp_path / "r.toml"
    assert message(load, path) == f"{path}: expected a recipe in TOML, found no such file or directory. Check the path."
    path.write_text("train = [")
    assert message(load, path).startswith(f"{path}: expected a recipe in TOML, found a file that is not (")


@pytest.mark.parametrize(
    "setting",
    [
        "augment.scale=[2.0, 0.5]",
        "augment.scale=[nan, 1]",
        "augment.area=[0, 0]",
        "augment.area=[0.5, 2]",
        "augment.resize_range=[9, 3]",
        "augment.rotate=nan",
        "augment.jitter.brightness=-5",
        "optimizer.momentum=5",
        "optimizer.milestones=[5, 3]",
        "optimizer.decay_steps=0",
        "optimizer.grad_clip=-1",
        "loss.ohem_ratio=0",
        "loss.dice=-1",
        "loss.label_smoothing=1",
        "follow.replay_ratio=1",
        "follow.records=0",
        "optimizer.weight_decay=nan",
        "optimizer.warmup_steps=20000",
        "optimizer.lr=inf",
        "train.ema_decay=1",
        "train.num_threads=-1",
    ],
)
def test_numbers_that_make_no_sense_are_refused(setting):
    assert message(apply, Recipe(), [setting]).startswith(f"the settings: {setting.split('=')[0]}: expected ")


def test_settings_that_leave_nothing_to_go_by_are_refused():
    assert message(apply, Recipe(), ["loss.cross_entropy=0"]) == (
        "the settings: loss: expected at least one loss that weighs something, found none. Set loss.cross_entropy=1."
    )
    assert message(apply, Recipe(), ["optimizer.schedule=multistep"]) == (
        "the settings: optimizer.milestones: expected steps in ascending order, found []. Write some."
    )


@pytest.mark.parametrize(
    ("learnt", "model", "setting", "key"),
    [
        ("volumes", "", "loss.cross_entropy=0.0", "loss.cross_entropy"),
        ("classification", "cifar10-tutorial", "optimizer.warmup_steps=30000", "optimizer.warmup_steps"),
    ],
)
def test_settings_are_checked_beside_the_defaults_of_what_is_learnt(monkeypatch, learnt, model, setting, key):
    """Volumes have a loss besides, and the tutorial's network more steps, than where nothing is known yet."""
    from operator import attrgetter

    from penstock.assembly import resolving

    monkeypatch.setattr(resolving, "_task", lambda data: learnt)
    changes = [f"model.name={model}"] if model else []
    found = resolving.resolve_settings({"data.path": "/nowhere", **parsed([*changes, setting])})

    assert attrgetter(key)(found.recipe) == float(setting.partition("=")[2])

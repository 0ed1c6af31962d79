from __future__ import annotations

import dataclasses
import tomllib

import pytest

from penstock.errors import RecipeError
from penstock.images.color import Jitter
from penstock.models import DeepLab
from penstock.models.atrous import DPC
from penstock.recipe import Recipe, apply, dump, explained, load
from penstock.recipe.explaining import attributes
from penstock.recipe.toml import convert


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
        "r.toml: optimiser: expected one of seed, init, init_partial, data, follow, model, augment, regularize, loss, optimizer, train, found optimiser. "
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
        if f.name not in {"seed", "init", "init_partial"}
    }
    for section, kind in sections.items():
        told = {name for names in attributes(kind) for name in names}
        plain = {f.name for f in dataclasses.fields(kind) if not dataclasses.is_dataclass(getattr(kind(), f.name))}
        assert plain <= told, section
    assert convert(tomllib.loads(text), "it") == Recipe()
    assert "# block, window: the shuffle; 1 and 1 is a true global one." in text
    assert '# how their logits become one. One of max, average.\nmerge = "max"\n' in text
    assert "at a picture's own size.\n# resize_range is not set\n" in text


def test_a_cell_is_printed_too_and_read_again():
    begun = Recipe()
    chosen = dataclasses.replace(begun, model=dataclasses.replace(begun.model, deeplab=DeepLab(cell=DPC)))
    text = explained(chosen)

    assert convert(tomllib.loads(text), "it") == chosen
    assert text.count("# a dense prediction cell in place of the pyramid; the published one is DPC.") == 1


def test_values_that_do_not_fit_are_named():
    assert message(convert, {"train": {"batch": "eight"}}, "r.toml") == (
        "r.toml: train.batch: expected `int`, found `str`. See the settings with penstock recipe."
    )
    assert message(convert, {"optimizer": {"name": "adam"}}, "r.toml") == (
        "r.toml: optimizer.name: expected one of sgd, adamw, rmsprop, muon, found adam. See the settings with penstock recipe."
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
        "optimizer.clip=-1",
        "loss.hardest=0",
        "loss.dice=-1",
        "loss.smoothing=1",
        "follow.older=1",
        "follow.records=0",
        "optimizer.weight_decay=nan",
        "optimizer.warmup=20000",
        "optimizer.learning_rate=inf",
        "train.average=1",
        "train.feed_threads=-1",
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
        ("classification", "cifar10-tutorial", "optimizer.warmup=30000", "optimizer.warmup"),
    ],
)
def test_settings_are_checked_beside_the_defaults_of_what_is_learnt(monkeypatch, learnt, model, setting, key):
    """Volumes have a loss besides, and the tutorial's network more steps, than where nothing is known yet."""
    from operator import attrgetter

    from penstock.cli import training

    monkeypatch.setattr(training, "_task", lambda data: learnt)
    changes = [f"model.name={model}"] if model else []
    found = training._recipe("/nowhere", model, [*changes, setting])

    assert attrgetter(key)(found) == float(setting.partition("=")[2])

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.config import apply, dump, load
from penstock.config.toml import convert
from penstock.errors import RecipeError
from penstock.images.color import Jitter
from penstock.settings import Recipe


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


def test_unknown_keys_are_predicted_with_the_nearest():
    assert message(apply, Recipe(), ["train.bacth=8"]).endswith(", found bacth. Did you mean train.batch?")
    assert message(convert, {"optimiser": {}}, "r.toml") == (
        "r.toml: optimiser: expected one of seed, init, strict, task, task_options, hooks, data, follow, model, augment, regularize, loss, optimizer, train, found optimiser. "
        "Did you mean optimizer?"
    )
    assert message(convert, {"augment": {"jitter": {"zzz": 1}}}, "r.toml") == (
        "r.toml: augment.jitter.zzz: expected one of brightness, contrast, saturation, hue, found zzz. See the "
        "settings with penstock recipe."
    )


def test_values_that_do_not_fit_are_named():
    assert message(convert, {"train": {"batch": "eight"}}, "r.toml") == (
        "r.toml: train.batch: expected an integer, found a string. See the settings with penstock recipe."
    )
    assert message(convert, {"optimizer": {"name": "adam"}}, "r.toml") == (
        "r.toml: optimizer.name: expected one of sgd, adamw, rmsprop, muon, or FILE.py:NAME, found adam. Did you mean adamw?"
    )
    assert message(apply, Recipe(), ["train.batch=0"]) == (
        "train.batch: expected a number above 0, found 0. Choose a larger number."
    )
    assert message(apply, Recipe(), ["augment.flip=1.5"]) == (
        "augment.flip: expected a number from 0 to 1, found 1.5. Choose a number in this range."
    )
    assert message(apply, Recipe(), ["train.batch"]) == (
        "--set train.batch: expected KEY=VALUE, for example train.batch=8, found no equals sign. Add = and a value."
    )


def test_files_that_are_no_recipes_are_named(tmp_path):
    path = tmp_path / "r.toml"
    assert message(load, path) == f"{path}: expected a recipe in TOML, found no such file or directory. Check the path."
    path.write_text("train = [")
    assert message(load, path).startswith(f"{path}: expected a recipe in TOML, found a syntax error (")


def test_a_byte_order_mark_is_no_part_of_a_recipe(tmp_path):
    (tmp_path / "r.toml").write_bytes(b"\xef\xbb\xbfseed = 7\n")

    assert load(tmp_path / "r.toml").seed == 7


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("optimizer.learning_rate", "optimizer.lr"),
        ("lr", "optimizer.lr"),
        ("train.crop", "augment.crop"),
        ("train.batch_size", "train.batch"),
    ],
)
def test_a_name_of_another_section_or_written_out_is_understood(name, meant):
    assert message(apply, Recipe(), [f"{name}=1"]).endswith(f". Did you mean {meant}?")


@pytest.mark.parametrize("key", ["data.path", "init", "model.weights", "model.name"])
def test_no_path_has_the_character_0(key):
    assert message(apply, Recipe(), [f'{key}="a\\u0000b"']) == (
        f"{key}: expected text without the character 0, which no path has, found 'a\\x00b'. Remove it."
    )


@pytest.mark.parametrize("key", ["seed", "train.steps", "train.keep"])
def test_numbers_have_64_bits(tmp_path, key):
    (tmp_path / "recipe.toml").write_text(f"{key} = 0x{'f' * 6000}\n")
    for given, where in (
        (tmp_path / "recipe.toml", str(tmp_path / "recipe.toml")),
        ([f"{key}=0x{'f' * 6000}"], "the recipe"),
    ):
        with pytest.raises(RecipeError) as caught:
            load(given) if isinstance(given, Path) else apply(Recipe(), given)
        assert str(caught.value) == (
            f"{where}: expected numbers of at most 64 bits, found a number of more than 64 bits in {key}. Choose a smaller "
            "one."
        )
    with pytest.raises(
        RecipeError, match=r"^--set: expected a value as in TOML, found a number of thousands of digits"
    ):
        apply(Recipe(), [f"{key}={'9' * 5000}"])

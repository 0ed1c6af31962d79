"""Recipes to and from TOML, and single settings from the command line."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import re
import tomllib
import types
import typing
from typing import TYPE_CHECKING, Any

import msgspec
import tomli_w

from penstock.errors import RecipeError
from penstock.recipe.checks import check
from penstock.recipe.values import Recipe

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


def load(path: Path) -> Recipe:
    """Read a recipe file.

    Raises:
        RecipeError: it cannot be read, is no TOML, has a key that we do not know, or a value that does not fit.
    """
    try:
        tree = tomllib.loads(path.read_text())
    except OSError as error:
        found = (error.strerror or str(error)).lower()
        raise RecipeError(str(path), expected="a recipe in TOML", found=found, remedy="Check the path") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        found = "values nested too deeply" if isinstance(error, RecursionError) else f"a file that is not ({error})"
        raise RecipeError(str(path), expected="a recipe in TOML", found=found, remedy="Mend that line") from None
    return convert(tree, str(path))


def convert(tree: Mapping[str, Any], where: str) -> Recipe:
    """A tree of plain values as a recipe.

    Raises:
        RecipeError: as `load`.
    """
    _known(tree, Recipe, where, "")
    try:
        return check(msgspec.convert(tree, Recipe), where)
    except msgspec.ValidationError as error:
        raise _refused(error, where) from None


def _refused(error: msgspec.ValidationError, where: str) -> RecipeError:
    text, _, place = str(error).partition(" - at ")
    expected, _, found = text.partition(", got ")
    key = place.strip("`").removeprefix("$.")
    expected = expected.removeprefix("Expected ") if found else "a value that fits"
    if word := re.fullmatch(r"Invalid enum value '(.*)'", text):
        expected, found = f"one of {', '.join(choices(key))}", word[1]
    remedy = "See the settings with penstock recipe"
    return RecipeError(f"{where}: {key or 'the recipe'}", expected=expected, found=found or text, remedy=remedy)


def apply(recipe: Recipe, settings: Sequence[str]) -> Recipe:
    """A recipe with settings of the form `section.key=value` changed; values are written as in TOML.

    Raises:
        RecipeError: as `load`, or a setting has another form.
    """
    tree = msgspec.to_builtins(recipe)
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise RecipeError(
                f"--set {setting}",
                expected="KEY=VALUE, for example train.batch=8",
                found="no equals sign",
                remedy="Write it so",
            )
        overlay: dict[str, Any] = {}
        node = overlay
        *sections, last = key.strip().split(".")
        for section in sections:
            node = node.setdefault(section, {})
        node[last] = _value(value.strip())
        _known(overlay, Recipe, f"--set {setting}", "")
        _merge(tree, overlay)
    return convert(tree, "the settings" if settings else "the recipe")


def dump(recipe: Recipe) -> str:
    """The recipe in TOML; settings that are unset are left out."""
    return tomli_w.dumps(_without_none(msgspec.to_builtins(recipe)))


def changes(before: Recipe, now: Recipe) -> dict[str, tuple[Any, Any]]:
    """The settings in which two recipes differ, named as `section.key`, with both values."""
    one, other = (_flat(msgspec.to_builtins(each)) for each in (before, now))
    return {key: (one.get(key), other.get(key)) for key in {**one, **other} if one.get(key) != other.get(key)}


def _flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in tree.items():
        found |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return found


def kind_of(key: str) -> Any:
    """The type of a setting or a section, named as `section.key`; "" is the recipe's own; None where there is none."""
    kind: Any = Recipe
    for name in filter(None, key.split(".")):
        section: Any = kind if dataclasses.is_dataclass(kind) else None
        kind = _hints(section).get(name) if section else None
    return kind


def choices(key: str) -> tuple[str, ...]:
    """The words that a setting can be, as its type names them."""
    kind = kind_of(key)
    options = typing.get_args(kind) if typing.get_origin(kind) in (typing.Union, types.UnionType) else (kind,)
    literals = (option for option in options if typing.get_origin(option) is typing.Literal)
    return tuple(str(word) for literal in literals for word in typing.get_args(literal))


@functools.cache
def _hints(kind: Any) -> dict[str, Any]:
    """The types of a section's settings, worked out once: thousands of settings may be given."""
    return typing.get_type_hints(kind)


def _known(tree: Mapping[str, Any], kind: Any, where: str, prefix: str) -> None:
    hints = _hints(kind)
    names = [field.name for field in dataclasses.fields(kind)]
    for key, value in tree.items():
        if key not in names:
            near = difflib.get_close_matches(key, names, n=1, cutoff=0.5)
            raise RecipeError(
                f"{where}: {prefix}{key}",
                expected=f"one of {', '.join(names)}",
                found=key,
                remedy=f"Did you mean {prefix}{near[0]}?" if near else "See the settings with penstock recipe",
            )
        if isinstance(value, dict) and dataclasses.is_dataclass(hints[key]):
            _known(value, hints[key], where, f"{prefix}{key}.")


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
    except RecursionError:
        raise RecipeError(
            "--set", expected="a value as in TOML", found="one nested too deeply", remedy="Write another"
        ) from None


def _merge(tree: dict[str, Any], overlay: Mapping[str, Any]) -> None:
    for key, value in overlay.items():
        if isinstance(value, dict) and isinstance(tree.get(key), dict):
            _merge(tree[key], value)
        else:
            tree[key] = value


def _without_none(tree: dict[str, Any]) -> dict[str, Any]:
    return {k: _without_none(v) if isinstance(v, dict) else v for k, v in tree.items() if v is not None}

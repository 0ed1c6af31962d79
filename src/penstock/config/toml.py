"""Recipes to and from TOML, and single settings from the command line."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

import msgspec
import tomli_w

from penstock import files
from penstock.config.building import built, check_tree
from penstock.config.checks import check
from penstock.config.members import NAME, chooses, flat, kind_of, member_named, members
from penstock.errors import RecipeError
from penstock.runs.listing import LARGEST_RECIPE, check_integers, parse_toml
from penstock.settings import Recipe


def load(path: Path) -> Recipe:
    """Read a recipe file.

    Raises:
        RecipeError: it cannot be read, is no TOML, has a key that we do not know, or a value that does not fit.
    """
    return convert(_read(path), str(path))


def _read(path: Path) -> dict[str, Any]:
    try:
        if path.is_file():  # and no pipe, by which shells pass what another command prints
            files.check_regular(path, LARGEST_RECIPE)
        return parse_toml(path.read_text(encoding="utf-8-sig"))
    except IsADirectoryError:
        remedy = f"Name {path / 'recipe.toml'}" if (path / "recipe.toml").is_file() else "Check the path"
        raise RecipeError(str(path), expected="a recipe in TOML", found="a folder", remedy=remedy) from None
    except OSError as error:
        found = (error.strerror or str(error)).lower()
        raise RecipeError(str(path), expected="a recipe in TOML", found=found, remedy="Check the path") from None
    except (ValueError, RecursionError) as error:  # TOMLDecodeError, UnicodeDecodeError, numbers of thousands of digits
        found = "values nested too deeply" if isinstance(error, RecursionError) else f"a syntax error ({error})"
        raise RecipeError(str(path), expected="a recipe in TOML", found=found, remedy="Fix the file") from None


def convert(tree: Mapping[str, Any], where: str) -> Recipe:
    """A tree of plain values as a recipe.

    Raises:
        RecipeError: as `load`.
    """
    try:
        check_integers(dict(tree))
    except ValueError as error:
        expected, remedy = "numbers of at most 64 bits", "Choose a smaller one"
        raise RecipeError(where or "the recipe", expected=expected, found=str(error), remedy=remedy) from None
    return check(built(Recipe, tree, where), where)


def apply(recipe: Recipe, settings: Sequence[str] | Mapping[str, Any]) -> Recipe:
    """A recipe with settings changed: a table, or texts `section.key=value`, whose values are written as in TOML.

    Raises:
        RecipeError: as `load`, or a text has another form.
    """
    return filled(recipe, as_settings(settings), "" if settings else "the recipe")


def filled(recipe: Recipe, values: Mapping[str, Any], where: str) -> Recipe:
    """A recipe with some settings, named as `section.key`, in place of its own.

    Raises:
        RecipeError: as `load`.
    """
    return convert(overlaid(msgspec.to_builtins(recipe), flat(values)), where)


def overlaid(tree: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """A recipe's tree with some settings, named as `section.key` as by `flat`, in place of its own.

    Where they choose another member of a union, the settings of the one before are gone: what is not said beside the
    choice is as by default.
    """
    for section in switched(tree, values):
        _merge(tree, _nested(section, None))
    for key, value in values.items():
        _merge(tree, _nested(key, value))
    return tree


def switched(tree: Mapping[str, Any], values: Mapping[str, Any]) -> list[str]:
    """The sections, outer ones first, in which settings, named as by `flat`, choose another member than a tree has."""
    found = []
    for key in sorted(filter(chooses, values), key=len):
        section = key.rpartition(".")[0]
        kind, now = kind_of(section), _value_at(tree, section) or {}
        if member_named(kind, values[key]) is not member_named(kind, now.get(NAME)):
            found.append(section)
    return found


def over(below: Mapping[str, Any], above: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Merge settings from two sources, in the form of `flat`; those of the second source win.

    Returns:
        The settings; and the sections in which the second one chooses another member, so that nothing is left of the
        first one's.
    """
    tree = overlaid(msgspec.to_builtins(Recipe()), below)
    gone = [section for section in switched(tree, above) if any(key.startswith(f"{section}.") for key in below)]
    inside = tuple(f"{section}." for section in gone)
    return {key: value for key, value in below.items() if not key.startswith(inside)} | dict(above), gone


def settings_in(path: Path) -> dict[str, Any]:
    """The settings that a recipe file states, named as `section.key`.

    Raises:
        RecipeError: as `load`.
    """
    return _checked(flat(_read(path)), str(path))


def as_settings(settings: Mapping[str, Any] | Sequence[str] | None) -> dict[str, Any]:
    """Settings that are given as a table, or as texts KEY=VALUE, named as `section.key`.

    Raises:
        RecipeError: a text is none.
    """
    if isinstance(settings, Mapping | None):
        return flat(settings or {})
    return parse_settings([settings] if isinstance(settings, str) else settings)


def parse_settings(settings: Sequence[str]) -> dict[str, Any]:
    """Settings of the form `section.key=value` by their names.

    Raises:
        RecipeError: a setting has another form, or its name is not known.
    """
    found: dict[str, Any] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise RecipeError(
                f"--set {setting}",
                expected="KEY=VALUE, for example train.batch=8",
                found="no equals sign",
                remedy="Add = and a value",
            )
        found = joined(found, flat({key.strip(): _value(value.strip())}))
    return _checked(found, "")


def joined(settings: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Merge settings of one source, named as `section.key`, so that their order does not matter.

    Raises:
        RecipeError: one has two values.
    """
    for key in sorted(settings.keys() & more.keys()):
        one, other = (list(value) if isinstance(value, tuple) else value for value in (settings[key], more[key]))
        if one != other:
            raise RecipeError(
                key, remedy="Remove one of the two", message=f"{key} is given twice, as {one!r} and as {other!r}."
            )
    return {**settings, **more}


def check_given(settings: Mapping[str, Any]) -> None:
    """Whether settings, named as `section.key`, are known and have values that fit, whatever rules there are between
    them.

    Raises:
        RecipeError: one is not known, or its value does not fit it.
    """
    _checked(flat(settings), "")


def _checked(settings: dict[str, Any], where: str) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for key, value in settings.items():
        _merge(tree, _nested(key, value))
    check_tree(Recipe, tree, where)
    return settings


def _nested(key: str, value: Any) -> dict[str, Any]:
    """A setting, named as `section.key`, as a tree."""
    tree = value
    for name in reversed(key.split(".")):
        tree = {name: tree}
    return dict(tree)


def dump(recipe: Recipe) -> str:
    """The recipe in TOML; settings that are unset are left out."""
    return tomli_w.dumps(_without_none(msgspec.to_builtins(recipe)))


def value_of(recipe: Recipe, key: str) -> Any:
    """A setting, named as `section.key`."""
    return attrgetter(key)(recipe)


def changes(before: Recipe, now: Recipe) -> dict[str, tuple[Any, Any]]:
    """Settings in which two recipes differ, as `section.key`, with both values; not those of another union member."""
    one, other = (flat(msgspec.to_builtins(each)) for each in (before, now))
    gone = [key for key in one if key not in other and not members(kind_of(key.rpartition(".")[0]))]
    return {key: (one.get(key), other.get(key)) for key in [*gone, *other] if one.get(key) != other.get(key)}


def _value_at(tree: Mapping[str, Any], key: str) -> Any:
    """What a tree of plain values has for a setting, named as `section.key`; None for nothing."""
    value: Any = tree
    for part in filter(None, key.split(".")):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
    except (RecursionError, ValueError) as error:
        found = "one nested too deeply" if isinstance(error, RecursionError) else "a number of thousands of digits"
        raise RecipeError("--set", expected="a value as in TOML", found=found, remedy="Write another") from None


def _merge(tree: dict[str, Any], overlay: Mapping[str, Any]) -> None:
    for key, value in overlay.items():
        if isinstance(value, dict) and isinstance(tree.get(key), dict):
            _merge(tree[key], value)
        else:
            tree[key] = value


def _without_none(tree: dict[str, Any]) -> dict[str, Any]:
    return {k: _without_none(v) if isinstance(v, dict) else v for k, v in tree.items() if v is not None}

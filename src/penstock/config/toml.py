"""Recipes to and from TOML, and single settings from the command line."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import re
import tomllib
import types
import typing
from collections.abc import Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import msgspec
import tomli_w

from penstock.bounds import CHOICES, bounds_of, outside
from penstock.config.checks import check, check_values
from penstock.errors import RecipeError, at
from penstock.settings import Recipe

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from penstock.bounds import Violation

_KINDS: Final = {
    "int": "an integer",
    "float": "a number",
    "str": "a string",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
}
"""Types of TOML's values by the names that msgspec has for them."""


def load(path: Path) -> Recipe:
    """Read a recipe file.

    Raises:
        RecipeError: it cannot be read, is no TOML, has a key that we do not know, or a value that does not fit.
    """
    return convert(_read(path), str(path))


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
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
    return check(typed(tree, where), where)


def typed(tree: Mapping[str, Any], where: str) -> Recipe:
    """A tree of plain values as a recipe whose values have their types and lie within their bounds, whatever rules
    there are between them.

    Raises:
        RecipeError: a setting is not known, or its value does not fit it.
    """
    _known(tree, Recipe, where, "")
    try:
        return check_values(msgspec.convert(tree, Recipe), where)
    except msgspec.ValidationError as error:
        raise _refused(error, tree, where) from None
    except UnicodeEncodeError as error:  # a word of the command line that is no UTF-8
        raise RecipeError(
            where or "the settings",
            expected="text in UTF-8, as recipes are kept",
            found=ascii(error.object),
            remedy="Give files and folders names in UTF-8",
        ) from None


def _refused(error: msgspec.ValidationError, tree: Mapping[str, Any], where: str) -> RecipeError:
    text, _, place = str(error).partition(" - at ")
    expected, _, found = text.partition(", got ")
    key = re.sub(r"\[.*", "", place.strip("`").removeprefix("$."))
    if name := _object_name(_value_at(tree, key)):
        return RecipeError(
            at(where, key),
            expected="FILE.py:NAME or package.module:NAME",
            found=f"the object {name} itself",
            remedy=f"Name the file that defines it, 'FILE.py:{name}', so that the run can keep a copy of it",
        )
    if wrong := next(violations_in(tree, key), None):
        return RecipeError(at(where, key), expected=wrong.expected, found=wrong.found, remedy=wrong.remedy)
    expected = expected.removeprefix("Expected ") if found else "a value that fits"
    if word := re.fullmatch(r"Invalid enum value '(.*)'", text):
        expected, found = f"one of {', '.join(choices(key))}", word[1]
    for kind, words in _KINDS.items():
        expected, found = expected.replace(f"`{kind}`", words), found.replace(f"`{kind}`", words)
    remedy = "See the settings with penstock recipe"
    if expected == _KINDS["array"] and (count := _length(key)):
        expected, remedy = f"{count} numbers", f"Write them in brackets: {key}=[{', '.join('ABCD'[:count])}]"
    return RecipeError(at(where, key or "the recipe"), expected=expected, found=found or text, remedy=remedy)


def apply(recipe: Recipe, settings: Sequence[str]) -> Recipe:
    """A recipe with settings of the form `section.key=value` changed; values are written as in TOML.

    Raises:
        RecipeError: as `load`, or a setting has another form.
    """
    return filled(recipe, parse_settings(settings), "" if settings else "the recipe")


def changed(recipe: Recipe, settings: Sequence[str] | Mapping[str, Any]) -> Recipe:
    """A recipe with some settings, of either form, changed.

    Raises:
        RecipeError: as `apply`.
    """
    if isinstance(settings, Mapping):
        return filled(recipe, settings, "" if settings else "the recipe")
    return apply(recipe, settings)


def filled(recipe: Recipe, values: Mapping[str, Any], where: str) -> Recipe:
    """A recipe with some settings, named as `section.key`, in place of its own.

    Raises:
        RecipeError: as `load`.
    """
    tree = msgspec.to_builtins(recipe)
    for key, value in values.items():
        _merge(tree, _nested(key, value))
    return convert(tree, where)


def settings_in(path: Path) -> dict[str, Any]:
    """The settings that a recipe file states, named as `section.key`.

    Raises:
        RecipeError: as `load`.
    """
    tree = _read(path)
    typed(tree, str(path))
    return _flat(tree)


def as_settings(settings: Mapping[str, Any] | Sequence[str] | None) -> dict[str, Any]:
    """Settings that are given as a table, or as texts KEY=VALUE.

    Raises:
        RecipeError: a text is none.
    """
    if isinstance(settings, Mapping | None):
        return dict(settings or {})
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
        overlay = _nested(key.strip(), _value(value.strip()))
        _known(overlay, Recipe, f"--set {setting}", "")
        found |= _flat(overlay)
    check_given(found)
    return found


def check_given(settings: Mapping[str, Any]) -> None:
    """Whether settings, named as `section.key`, are known and have values that fit, whatever rules there are between
    them.

    Raises:
        RecipeError: one is not known, or its value does not fit it.
    """
    tree: dict[str, Any] = {}
    for key, value in settings.items():
        _merge(tree, _nested(key, value))
    typed(tree, "")


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


def _length(key: str) -> int:
    """How many numbers a setting holds; 0 where it is no list of a certain number."""
    kind = kind_of(key)
    options = typing.get_args(kind) if typing.get_origin(kind) in (typing.Union, types.UnionType) else (kind,)
    items = next((typing.get_args(option) for option in options if typing.get_origin(option) is tuple), ())
    return len(items) if Ellipsis not in items else 0


def _object_name(value: Any) -> str:
    """What a class or a function, or the first one of a list, is called; "" for other values."""
    values = value if isinstance(value, list | tuple) else [value]
    return next((name for each in values if (name := getattr(each, "__name__", ""))), "")


def _value_at(tree: Mapping[str, Any], key: str) -> Any:
    """What a tree of plain values has for a setting, named as `section.key`; None for nothing."""
    value: Any = tree
    for part in filter(None, key.split(".")):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def violations_in(tree: Mapping[str, Any], key: str) -> Iterator[Violation]:
    """What is outside the bounds of a setting, named as `section.key`, in a tree of plain values."""
    section, _, name = key.rpartition(".")
    value = _value_at(tree, key)
    kind: Any = kind_of(section)
    if value is not None and dataclasses.is_dataclass(kind):
        numbers = tuple(value) if isinstance(value, list | tuple) else value
        bounds = bounds_of(typing.cast("type", kind))
        yield from outside(key, numbers, bounds[name])


def choices(key: str) -> tuple[str, ...]:
    """The words that a setting can be, as its type names them."""
    kind = kind_of(key)
    options = typing.get_args(kind) if typing.get_origin(kind) in (typing.Union, types.UnionType) else (kind,)
    literals = (option for option in options if typing.get_origin(option) is typing.Literal)
    words = tuple(str(word) for literal in literals for word in typing.get_args(literal))
    section, _, name = key.rpartition(".")
    bounds = bounds_of(typing.cast("type", kind_of(section))) if kind is not None else {}
    stated = [meta.extra.get(CHOICES, ()) for meta in bounds.get(name, ()) if meta.extra]
    return words or tuple(word for words in stated for word in words)


@functools.cache
def _hints(kind: Any) -> dict[str, Any]:
    """The types of a section's settings, worked out once: thousands of settings may be given."""
    return typing.get_type_hints(kind)


def _known(tree: Mapping[str, Any], kind: Any, where: str, prefix: str) -> None:
    hints = _hints(kind)
    names = [field.name for field in dataclasses.fields(kind)]
    for key, value in tree.items():
        if key not in names:
            near = _meant(key, kind, prefix)
            raise RecipeError(
                at(where, prefix + key),
                expected=f"one of {', '.join(names)}",
                found=key,
                remedy=f"Did you mean {near}?" if near else "See the settings with penstock recipe",
            )
        if isinstance(value, dict) and dataclasses.is_dataclass(hints[key]):
            _known(value, hints[key], where, f"{prefix}{key}.")


def setting_named(key: str, prefix: str = "") -> str:
    """The setting, as `section.key`, whose key is this or is abbreviated from it; in the section `prefix` if it is
    there, and "" where it is nowhere.
    """
    initials = "".join(word[:1] for word in key.split("_"))
    settings = _flat(msgspec.to_builtins(Recipe()))
    same = [name for name in settings if name.rpartition(".")[2] in (key, initials)]
    return next((name for name in same if name.startswith(prefix)), same[0] if same else "")


def _meant(key: str, kind: Any, prefix: str) -> str:
    """The setting that is probably meant by a name that is none; "" where none comes near.

    Abbreviations count (`learning_rate` for `lr`), and settings of other sections whose name it is (`lr` for
    `optimizer.lr`).
    """
    if same := setting_named(key, prefix):
        return same
    near = difflib.get_close_matches(key, [field.name for field in dataclasses.fields(kind)], n=1, cutoff=0.5)
    return f"{prefix}{near[0]}" if near else ""


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

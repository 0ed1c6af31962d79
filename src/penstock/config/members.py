"""The types of settings: which setting is of which type, and the members of those that are one of several things."""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any, Final

from penstock.custom import import_path_of, import_path_of_object
from penstock.settings import Recipe

NAME: Final = "name"
"""The setting that says which member of a union is chosen."""


@functools.cache
def fields_of(kind: Any) -> dict[str, Any]:
    """The settings of a section, with their types, worked out once: thousands of settings may be given."""
    hints = typing.get_type_hints(kind)
    return {each.name: hints[each.name] for each in dataclasses.fields(kind)}


def is_section(kind: Any) -> bool:
    """Whether a type is that of settings inside of settings."""
    return isinstance(kind, type) and dataclasses.is_dataclass(kind)


def members(kind: Any) -> tuple[type, ...]:
    """The members of a union of sections; none of other types."""
    options = _options(kind)
    return options if len(options) > 1 and all(map(is_section, options)) else ()


def sections(kind: Any) -> tuple[type, ...]:
    """The sections that a setting can be: the members of a union, a section itself, or none."""
    return members(kind) or ((kind,) if is_section(kind) else ())


def name_of(member: type) -> str:
    """The name of a member of a union; "" of the one that is named by a place."""
    default = next(each.default for each in dataclasses.fields(member) if each.name == NAME)
    return "" if default is dataclasses.MISSING else str(default)


def names(kind: Any) -> tuple[str, ...]:
    """The names of the members of a union."""
    return tuple(name for each in members(kind) if (name := name_of(each)))


def member_named(kind: Any, name: Any) -> type | None:
    """The member of a union that a name or a place chooses."""
    named = {name_of(each): each for each in members(kind)}
    if not isinstance(name, str) or not name:
        return None
    return named.get(name) or (named.get("") if import_path_of(name) else None)


def default_of(kind: type, name: str) -> Any:
    """The default of a setting; `dataclasses.MISSING` where it has none."""
    field = next(each for each in dataclasses.fields(kind) if each.name == name)
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def kind_of(key: str, kind: Any = Recipe) -> Any:
    """The type of a setting or a section, named as `section.key`; "" is the recipe's own; None where there is none."""
    for name in filter(None, key.split(".")):
        owners = (each for each in sections(kind) if name in fields_of(each))
        kind = next((fields_of(each)[name] for each in owners), None)
    return kind


def choices(key: str) -> tuple[str, ...]:
    """The words that a setting can be, as its type names them."""
    section, _, name = key.rpartition(".")
    if name == NAME and (named := names(kind_of(section))):
        return named
    literals = (option for option in _options(kind_of(key)) if typing.get_origin(option) is typing.Literal)
    return tuple(str(word) for literal in literals for word in typing.get_args(literal))


def chooses(key: str) -> bool:
    """Whether a setting, named as `section.key`, says which member of a union is chosen."""
    section, _, name = key.rpartition(".")
    return name == NAME and bool(members(kind_of(section)))


def length(key: str) -> int:
    """How many numbers a setting holds; 0 where it is no list of a certain number."""
    tuples = (typing.get_args(each) for each in _options(kind_of(key)) if typing.get_origin(each) is tuple)
    items = next(tuples, ())
    return len(items) if Ellipsis not in items else 0


def keys(kind: Any = Recipe, prefix: str = "") -> Iterator[str]:
    """Every setting, named as `section.key`, those of every member of a union too."""
    for section in sections(kind):
        for name, inner in fields_of(section).items():
            yield from keys(inner, f"{prefix}{name}.") if sections(inner) else [f"{prefix}{name}"]


def flat(settings: Mapping[str, Any], kind: Any = Recipe, prefix: str = "") -> dict[str, Any]:
    """Settings in any form as `section.key` and plain values.

    What chooses a member of a union, by its name or as a value of its type, is written as `section.name` and the
    settings beside it. An empty table inside a section is one as it is by default: `augment.jitter={}` is no jitter.
    Classes and functions are written as the places that define them.
    """
    found: dict[str, Any] = {}
    for key, value in settings.items():
        inner = kind_of(key, kind)
        plain = as_table(inner, value)
        if plain == {} and is_section(inner) and (prefix or "." in key):
            plain = as_table(inner, inner())
        found |= (
            flat(plain, inner, f"{prefix}{key}.") if isinstance(plain, dict) else {f"{prefix}{key}": _placed(plain)}
        )
    return found


def _placed(value: Any) -> Any:
    """A class or function, also those in a list or under the name of a list's item, as `FILE.py:NAME`."""
    if isinstance(value, list | tuple):
        return type(value)(_placed(each) for each in value)
    if isinstance(value, dict) and NAME in value:
        return {**value, NAME: _placed(value[NAME])}
    place = import_path_of_object(value) if callable(value) else None
    return str(place) if place else value


def as_table(kind: Any, value: Any) -> Any:
    """A section that is given as a value of its type, or by a member or its name, as a table; other values stay."""
    if isinstance(value, type) and value in members(kind):
        return {NAME: name_of(value)}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
    return {NAME: value} if members(kind) and not isinstance(value, dict) else value


def _options(kind: Any) -> tuple[Any, ...]:
    return typing.get_args(kind) if typing.get_origin(kind) in (typing.Union, types.UnionType) else (kind,)

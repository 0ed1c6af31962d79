"""Trees of plain values to settings, and the mistakes that can be in one."""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec

from penstock.bounds import bounds_of, outside
from penstock.config.members import (
    NAME,
    as_table,
    choices,
    default_of,
    fields_of,
    keys,
    length,
    member_named,
    members,
    name_of,
    names,
    sections,
)  # fmt: skip
from penstock.errors import RecipeError, at

_T = TypeVar("_T")
_KINDS: Final = {
    "int": "an integer",
    "float": "a number",
    "str": "a string",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
}
"""Types of TOML's values by the names that msgspec has for them."""
_SEE: Final = "See the settings with penstock recipe"


def built(kind: type[_T], tree: Mapping[str, Any], where: str, key: str = "") -> _T:
    """A tree of plain values as a section called `key`; what it leaves out is as by default.

    Raises:
        RecipeError: a setting is not known, is missing, or its value does not fit it; the error says `where`.
    """
    section: Any = kind
    values = {}
    for name, value in tree.items():
        _check_known(kind, name, where, key)
        values[name] = _value(kind, name, value, _inside(key, name), where)
    for name in fields_of(section):
        if name not in values and default_of(kind, name) is dataclasses.MISSING:
            raise _missing(kind, name, where, key)
    return kind(**values)


def check_tree(kind: Any, tree: Mapping[str, Any], where: str, key: str = "") -> None:
    """Check that the settings of a tree are known and have valid values, independently of other settings.

    Raises:
        RecipeError: a setting is not known, or its value does not fit.
    """
    if found := member_named(kind, tree.get(NAME)):
        _check_owned(kind, found, tree, where, key)
    for name, value in tree.items():
        owners = [each for each in sections(kind) if name in fields_of(each)]
        owner = owners[0] if owners else sections(kind)[0]
        _check_known(owner, name, where, key)
        place, inner = _inside(key, name), fields_of(owner)[name]
        if name == NAME and members(kind):
            _chosen(kind, value, place, where)
        elif sections(inner) and isinstance(value, dict):
            check_tree(inner, value, where, place)
        else:
            _leaf(owner, name, value, place, where)


def _value(owner: type, name: str, value: Any, key: str, where: str) -> Any:
    """The value of a setting of a section, or of a section inside it."""
    kind = fields_of(owner)[name]
    if not sections(kind):
        return _leaf(owner, name, value, key, where)
    table = _plain(as_table(kind, value), dict, key, where)
    if not members(kind):
        return built(kind, table, where, key)
    if NAME not in table:
        table = {**msgspec.to_builtins(default_of(owner, name)), **table}
    member = _chosen(kind, table[NAME], f"{key}.{NAME}", where)
    _check_owned(kind, member, table, where, key)
    return built(member, table, where, key)


def _chosen(kind: Any, name: Any, key: str, where: str) -> type:
    """The member of a union that a name chooses."""
    if found := member_named(kind, _plain(name, str, key, where)):
        return found
    known = names(kind)
    custom = ", or FILE.py:NAME" if "" in map(name_of, members(kind)) else ""
    near = difflib.get_close_matches(name, known, n=1)
    raise RecipeError(
        at(where, key),
        expected=f"one of {', '.join(known)}{custom}",
        found=name,
        remedy=f"Did you mean {near[0]}?" if near else _SEE,
    )


def _check_owned(kind: Any, member: type, table: Mapping[str, Any], where: str, key: str) -> None:
    """Refuse settings of another member of a union than the chosen one, and name the member that has them."""
    for name in table:
        owners = [name_of(each) for each in members(kind) if name in fields_of(each)]
        if name in fields_of(member) or not owners:
            continue
        setting, chosen = _inside(key, name), table[NAME]
        raise RecipeError(
            at(where, setting),
            remedy=f"Remove {setting}, or choose {key}={owners[0]}",
            message=f"{at(where, setting)} is a setting of {_either(owners)}, but {key} is {chosen}.",
        )


def _either(words: list[str]) -> str:
    shown = [word or "a custom one" for word in words]
    return " or ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def _check_known(kind: type, name: str, where: str, key: str) -> None:
    """Whether a section has a setting."""
    known = fields_of(kind)
    if name in known:
        return
    near = _meant(name, f"{key}." if key else "")
    raise RecipeError(
        at(where, _inside(key, name)),
        expected=f"one of {', '.join(known)}",
        found=name,
        remedy=f"Did you mean {near}?" if near else _SEE,
    )


def _missing(kind: type, name: str, where: str, key: str) -> RecipeError:
    setting = _inside(key, name)
    return RecipeError(
        at(where, setting), remedy=f"Add {setting}", message=f"{at(where, key)} = {name_of(kind)} needs {setting}."
    )


def _leaf(owner: type, name: str, value: Any, key: str, where: str) -> Any:
    kind = fields_of(owner)[name]
    numbers = tuple(value) if isinstance(value, list | tuple) else value
    try:
        converted = msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        if wrong := outside(numbers, bounds_of(owner)[name]):
            raise RecipeError(at(where, key), **wrong) from None
        raise _unfit(at(where, key), value, key, str(error)) from None
    except UnicodeEncodeError as error:  # a word of the command line that is no UTF-8
        raise RecipeError(
            where or "the settings",
            expected="text in UTF-8, as recipes are kept",
            found=ascii(error.object),
            remedy="Give files and folders names in UTF-8",
        ) from None
    if wrong := outside(converted, bounds_of(owner)[name]):
        raise RecipeError(at(where, key), **wrong)
    if isinstance(converted, str) and "\0" in converted:
        expected = "text without the character 0, which no path has"
        raise RecipeError(at(where, key), expected=expected, found=ascii(converted), remedy="Remove it")
    return converted


def _unfit(shown: str, value: Any, key: str, error: str) -> RecipeError:
    """What is said of a value of another type than its setting; `error` is msgspec's."""
    if name := _object_name(value):
        return RecipeError(
            shown,
            expected="a class or function at the top of a module, FILE.py:NAME or package.module:NAME",
            found=f"{name}, which another process cannot import",
            remedy="Define it in a file of its own, so that the run can keep a copy of it",
        )
    text = error.partition(" - at ")[0]
    expected, _, found = text.partition(", got ")
    expected = expected.removeprefix("Expected ") if found else "a value that fits"
    if word := re.fullmatch(r"Invalid enum value '(.*)'", text):
        expected, found = f"one of {', '.join(choices(key))}", word[1]
    expected, found = _in_words(expected), _in_words(found)
    remedy = _SEE
    if expected == _KINDS["array"] and (count := length(key)):
        expected, remedy = f"{count} numbers", f"Write them in brackets: {key}=[{', '.join('ABCD'[:count])}]"
    return RecipeError(shown, expected=expected, found=found or text, remedy=remedy)


def _in_words(text: str) -> str:
    for kind, words in _KINDS.items():
        text = text.replace(f"`{kind}`", words)
    return text


def _plain(value: Any, kind: Any, key: str, where: str) -> Any:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise _unfit(at(where, key), value, key, str(error)) from None


def _object_name(value: Any) -> str:
    """What a class or a function, or the first one of a list, is called; "" for other values."""
    values = value if isinstance(value, list | tuple) else [value]
    return next((name for each in values if (name := getattr(each, "__name__", ""))), "")


def setting_named(key: str, prefix: str = "") -> str:
    """The setting, as `section.key`, that a key names or abbreviates, first in the section `prefix`; "" for none."""
    initials = "".join(word[:1] for word in key.split("_"))
    same = [name for name in keys() if name.rpartition(".")[2] in (key, initials)]
    return next((name for name in same if name.startswith(prefix)), same[0] if same else "")


def _meant(key: str, prefix: str) -> str:
    """The setting that is probably meant: an abbreviated one, one of another section, or one that is spelt alike."""
    if same := setting_named(key, prefix):
        return same
    inside = [name.removeprefix(prefix).partition(".")[0] for name in keys() if name.startswith(prefix)]
    near = difflib.get_close_matches(key, inside, n=1, cutoff=0.5)
    return f"{prefix}{near[0]}" if near else ""


def _inside(key: str, name: str) -> str:
    return f"{key}.{name}" if key else name

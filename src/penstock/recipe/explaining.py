"""A recipe's settings with what they mean, told from the docstrings and types that define them."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
import textwrap
from typing import TYPE_CHECKING, Final

from penstock.recipe import toml

if TYPE_CHECKING:
    from penstock.recipe.values import Recipe

_WIDTH: Final = 110
_ENTRY: Final = re.compile(r" {4}(\w+(?:, \w+)*): (.+)")


def explained(recipe: Recipe) -> str:
    """The recipe in TOML, each setting below what it means; some are explained together, above the first of them."""
    section = ""
    lines: list[str] = []
    for line in toml.dump(recipe).splitlines():
        if line.startswith("[["):  # an entry of a list, whose settings have no comments of their own
            path, _, name = line.strip("[]").rpartition(".")
            lines += _comment(path, name) if line not in lines else []
            section = ""
        elif line.startswith("["):
            section = line.strip("[]")
            lines += [line, *_unset(recipe, section)]
            continue
        elif section and (key := re.match(r"(\w+) = ", line)):
            lines += _comment(section, key[1])
        lines.append(line)
    return "\n".join(lines) + "\n"


def attributes(kind: type) -> dict[tuple[str, ...], str]:
    """What the docstring of a dataclass says of its fields, by the names that are explained together."""
    found: dict[tuple[str, ...], str] = {}
    names: tuple[str, ...] = ()
    _, _, block = (inspect.getdoc(kind) or "").partition("Attributes:\n")
    for line in block.splitlines():
        if entry := _ENTRY.fullmatch(line):
            names = tuple(entry[1].split(", "))
            found[names] = entry[2]
        elif names and line.startswith(" " * 8):
            found[names] += f" {line.strip()}"
        else:
            names = ()
    return found


def _comment(section: str, name: str) -> list[str]:
    for names, text in attributes(toml.kind_of(section)).items():
        if names[0] == name:
            together = f"{', '.join(names)}: " if len(names) > 1 else ""
            words = toml.choices(f"{section}.{name}")
            said = "" if all(word in text for word in words) else f" One of {', '.join(words)}."
            whole = together + text + said
            return textwrap.wrap(whole, _WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False)
    return []


def _unset(recipe: Recipe, section: str) -> list[str]:
    """TOML has no word for what is not set."""
    values = functools.reduce(getattr, section.split("."), recipe)
    assert dataclasses.is_dataclass(values)  # noqa: S101 - a section of it
    names = [field.name for field in dataclasses.fields(values) if getattr(values, field.name) is None]
    return [line for name in names for line in (*_comment(section, name), f"# {name} is not set")]

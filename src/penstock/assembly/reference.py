"""A recipe's settings with what they mean, told from the docstrings and types that define them."""

from __future__ import annotations

import dataclasses
import inspect
import re
import textwrap
from typing import Any, Final

from penstock.assembly.presets import GENERAL, Resolved, as_resolved
from penstock.config import toml
from penstock.config.members import choices
from penstock.settings import Recipe

_WIDTH: Final = 110
_HEADER: Final = (
    "# A comment after a value names what set it: the task, the model, a topic, --set. Other values are the\n"
    "# general defaults."
)
_ENTRY: Final = re.compile(r" {4}(\w+(?:, \w+)*): (.+)")


def explained(recipe: Recipe | Resolved) -> str:
    """The recipe in TOML, each setting below its meaning, with a note where it is no general default."""
    resolved = as_resolved(recipe) if isinstance(recipe, Recipe) else recipe
    section: str | None = ""  # None inside an entry of a list
    lines: list[str] = [_HEADER]
    for line in toml.dump(resolved.recipe).splitlines():
        if line.startswith("[["):  # an entry of a list, whose settings have no comments of their own
            path, _, name = line.strip("[]").rpartition(".")
            lines += _comment(resolved.recipe, path, name) if line not in lines else []
            section = None
        elif line.startswith("["):
            section = line.strip("[]")
            if not dataclasses.is_dataclass(toml.value_of(resolved.recipe, section)):
                parent, _, name = section.rpartition(".")
                lines += _comment(resolved.recipe, parent, name)
            lines += [*_heading(resolved.recipe, section), line, *_unset(resolved.recipe, section)]
            continue
        elif section is not None and (key := re.match(r"(\w+) = ", line)):
            lines += _comment(resolved.recipe, section, key[1])
        lines.append(line + _note(resolved, section, line))
    return "\n".join(lines) + "\n"


def _heading(recipe: Recipe, section: str) -> list[str]:
    """What a section inside another one is for."""
    values = toml.value_of(recipe, section)
    if "." not in section or not dataclasses.is_dataclass(values):
        return []
    return [f"# {line}" for line in (inspect.getdoc(values) or "").partition("\n")[0].splitlines()]


def _note(resolved: Resolved, section: str | None, line: str) -> str:
    """Where the setting of a line comes from, as a comment; of those of lists nothing is known."""
    name = re.match(r"(\w+) = ", line)
    if name is None or section is None:
        return ""
    origin = resolved.origin(f"{section}.{name[1]}" if section else name[1])
    return "" if origin == GENERAL else f"  # {origin}"


def attributes(kind: type) -> dict[tuple[str, ...], str]:
    """What docstrings of a dataclass and its bases say of their fields, by the names that are explained together."""
    bases = [base for base in reversed(kind.__mro__) if dataclasses.is_dataclass(base)] or [kind]
    return {names: text for base in bases for names, text in _attributes(base).items()}


def _attributes(kind: type) -> dict[tuple[str, ...], str]:
    found: dict[tuple[str, ...], str] = {}
    names: tuple[str, ...] = ()
    _, _, block = inspect.cleandoc(kind.__doc__ or "").partition("Attributes:\n")
    for line in block.splitlines():
        if entry := _ENTRY.fullmatch(line):
            names = tuple(entry[1].split(", "))
            found[names] = entry[2]
        elif names and line.startswith(" " * 8):
            found[names] += f" {line.strip()}"
        else:
            names = ()
    return found


def _comment(recipe: Recipe, section: str, name: str) -> list[str]:
    for names, text in attributes(type(toml.value_of(recipe, section) if section else recipe)).items():
        if names[0] == name:
            together = f"{', '.join(names)}: " if len(names) > 1 else ""
            words = choices(f"{section}.{name}".strip("."))
            said = "" if all(word in text for word in words) else f" One of {', '.join(words)}."
            whole = together + text + said
            return textwrap.wrap(whole, _WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False)
    return []


def _unset(recipe: Recipe, section: str) -> list[str]:
    """TOML has no word for what is not set."""
    values: Any = toml.value_of(recipe, section)
    if not dataclasses.is_dataclass(values):  # options of a custom task
        return []
    names = [field.name for field in dataclasses.fields(values) if getattr(values, field.name) is None]
    return [line for name in names for line in (*_comment(recipe, section, name), f"# {name} is not set")]

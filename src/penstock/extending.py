"""What extensions bring: each package below `penstock.extensions` says it in tables of its own.

The core reads a table when it needs it and knows no extension by name, so that one whose folder is removed is gone.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from typing import Any, Generic, TypeVar

T = TypeVar("T")


@functools.cache
def brought(table: str) -> dict[str, Any]:
    """The entries of a table, for example of `LAYOUTS`, of all extensions, in alphabetical order of the extensions."""
    package = importlib.import_module("penstock.extensions")
    names = sorted(each.name for each in pkgutil.iter_modules(package.__path__))
    extensions = [importlib.import_module(f"{package.__name__}.{name}") for name in names]
    return {name: entry for each in extensions for name, entry in getattr(each, table, {}).items()}


def loaded(place: str) -> Any:
    """What a `package.module:NAME` of Penstock itself names."""
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


class Extended(Mapping[str, T], Generic[T]):
    """Built-in things by name, then those of a table of all extensions, which are imported when they are asked for."""

    def __init__(self, built_in: Mapping[str, T], table: str) -> None:
        self._built_in, self._table = built_in, table

    def __getitem__(self, name: str) -> T:
        found: T = self._built_in[name] if name in self._built_in else loaded(brought(self._table)[name])
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._built_in or name in brought(self._table)

    def __iter__(self) -> Iterator[str]:
        yield from self._built_in
        yield from brought(self._table)

    def __len__(self) -> int:
        return len(self._built_in) + len(brought(self._table))

"""What extensions bring: each package below `penstock.extensions` says it in tables of its own.

The core reads a table when it needs it and knows no extension by name, so that one whose folder is removed is gone.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from typing import Any


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

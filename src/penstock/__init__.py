"""From raw image data to a trained vision model.

`import penstock as ps` gives the names in `__all__`, each loaded when it is first used. Everything else may change
without notice.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from penstock.api.data import Data, Sample, Split, inspect, open, pack  # noqa: A004 - as `PIL.Image.open`
    from penstock.api.loaded import LoadedModel
    from penstock.api.runs import Run, compare, export, list_runs, load
    from penstock.api.training import resume, train
    from penstock.datasets import Inspection, Layout
    from penstock.errors import PenstockError
    from penstock.events import Event
    from penstock.feed import Batch, Feed
    from penstock.inference import Evaluation
    from penstock.kinds import Box, FilePart, Item, Kind, Labels, Problem
    from penstock.session import Hook
    from penstock.settings import Recipe
    from penstock.tasks import Prediction, Style, Task
    from penstock.values import Cursor

__version__ = "0.2.0"

_HOMES: Final = {
    "api.data": ("Data", "Sample", "Split", "inspect", "open", "pack"),
    "api.loaded": ("LoadedModel",),
    "api.runs": ("Run", "compare", "export", "list_runs", "load"),
    "api.training": ("resume", "train"),
    "datasets": ("Inspection", "Layout"),
    "errors": ("PenstockError",),
    "events": ("Event",),
    "feed": ("Batch", "Feed"),
    "inference": ("Evaluation",),
    "kinds": ("Box", "Item", "Kind", "Labels", "FilePart", "Problem"),
    "session": ("Hook",),
    "settings": ("Recipe",),
    "tasks": ("Prediction", "Style", "Task"),
    "values": ("Cursor",),
}
_HOME_OF: Final = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Batch",
    "Box",
    "Cursor",
    "Data",
    "Evaluation",
    "Event",
    "Feed",
    "FilePart",
    "Hook",
    "Inspection",
    "Item",
    "Kind",
    "Labels",
    "Layout",
    "LoadedModel",
    "PenstockError",
    "Prediction",
    "Problem",
    "Recipe",
    "Run",
    "Sample",
    "Split",
    "Style",
    "Task",
    "compare",
    "export",
    "inspect",
    "list_runs",
    "load",
    "open",
    "pack",
    "resume",
    "train",
]


def __getattr__(name: str) -> Any:
    """A public name, once its module is imported."""
    if name not in _HOME_OF:
        message = f"module 'penstock' has no attribute {name!r}"
        raise AttributeError(message)
    found = getattr(importlib.import_module(f"penstock.{_HOME_OF[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return [*__all__, "__version__"]

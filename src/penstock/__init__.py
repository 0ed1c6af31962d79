"""From raw image data to a trained vision model.

`import penstock as ps` gives the names in `__all__`, each loaded when it is first used. Everything else may change
without notice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.lazy import names_of

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

__getattr__ = names_of(
    __name__,
    {
        "penstock.api.data": ("Data", "Sample", "Split", "inspect", "open", "pack"),
        "penstock.api.loaded": ("LoadedModel",),
        "penstock.api.runs": ("Run", "compare", "export", "list_runs", "load"),
        "penstock.api.training": ("resume", "train"),
        "penstock.datasets": ("Inspection", "Layout"),
        "penstock.errors": ("PenstockError",),
        "penstock.events": ("Event",),
        "penstock.feed": ("Batch", "Feed"),
        "penstock.inference": ("Evaluation",),
        "penstock.kinds": ("Box", "Item", "Kind", "Labels", "FilePart", "Problem"),
        "penstock.session": ("Hook",),
        "penstock.settings": ("Recipe",),
        "penstock.tasks": ("Prediction", "Style", "Task"),
        "penstock.values": ("Cursor",),
    },
)

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


def __dir__() -> list[str]:
    return [*__all__, "__version__"]

"""From raw image data to a trained vision model.

`import penstock as ps` gives the names in `__all__`, each loaded when it is first used. Everything else may change
without notice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.lazy import names_of

if TYPE_CHECKING:
    from penstock.api.advising import advise, list_models, prepare_process, recipe
    from penstock.api.data import Data, Split, open, pull  # noqa: A004 - as `PIL.Image.open`
    from penstock.api.loaded import LoadedModel
    from penstock.api.packing import download, inspect, pack, scenes
    from penstock.api.runs import Run, compare, export, list_runs, load, write_report
    from penstock.api.samples import Sample
    from penstock.api.scaffolding import new
    from penstock.api.training import check, resume, train
    from penstock.datasets import Inspection, Layout
    from penstock.errors import PenstockError
    from penstock.events import Event
    from penstock.feed import Batch, Feed
    from penstock.inference import Evaluation, Exported
    from penstock.kinds import Box, FilePart, Item, Kind, Labels, Problem
    from penstock.runs.listing import RunSummary
    from penstock.session import Hook
    from penstock.settings import Recipe
    from penstock.settings.optimizer import SGD, AdamW, Muon, RMSprop
    from penstock.settings.schedules import Constant, Cosine, Exponential, MultiStep, Poly, Step
    from penstock.tasks import Prediction, Style, Task
    from penstock.values import Cursor

__version__ = "0.2.0"

__getattr__ = names_of(
    __name__,
    {
        "penstock.api.advising": ("advise", "list_models", "prepare_process", "recipe"),
        "penstock.api.data": ("Data", "Split", "open", "pull"),
        "penstock.api.loaded": ("LoadedModel",),
        "penstock.api.packing": ("download", "inspect", "pack", "scenes"),
        "penstock.api.runs": ("Run", "compare", "export", "list_runs", "load", "write_report"),
        "penstock.api.samples": ("Sample",),
        "penstock.api.scaffolding": ("new",),
        "penstock.api.training": ("check", "resume", "train"),
        "penstock.datasets": ("Inspection", "Layout"),
        "penstock.errors": ("PenstockError",),
        "penstock.events": ("Event",),
        "penstock.feed": ("Batch", "Feed"),
        "penstock.inference": ("Evaluation", "Exported"),
        "penstock.kinds": ("Box", "Item", "Kind", "Labels", "FilePart", "Problem"),
        "penstock.runs.listing": ("RunSummary",),
        "penstock.session": ("Hook",),
        "penstock.settings": ("Recipe",),
        "penstock.settings.optimizer": ("SGD", "AdamW", "Muon", "RMSprop"),
        "penstock.settings.schedules": ("Constant", "Cosine", "Exponential", "MultiStep", "Poly", "Step"),
        "penstock.tasks": ("Prediction", "Style", "Task"),
        "penstock.values": ("Cursor",),
    },
)

__all__ = [
    "SGD",
    "AdamW",
    "Batch",
    "Box",
    "Constant",
    "Cosine",
    "Cursor",
    "Data",
    "Evaluation",
    "Event",
    "Exponential",
    "Exported",
    "Feed",
    "FilePart",
    "Hook",
    "Inspection",
    "Item",
    "Kind",
    "Labels",
    "Layout",
    "LoadedModel",
    "MultiStep",
    "Muon",
    "PenstockError",
    "Poly",
    "Prediction",
    "Problem",
    "RMSprop",
    "Recipe",
    "Run",
    "RunSummary",
    "Sample",
    "Split",
    "Step",
    "Style",
    "Task",
    "advise",
    "check",
    "compare",
    "download",
    "export",
    "inspect",
    "list_models",
    "list_runs",
    "load",
    "new",
    "open",
    "pack",
    "prepare_process",
    "pull",
    "recipe",
    "resume",
    "scenes",
    "train",
    "write_report",
]


def __dir__() -> list[str]:
    return [*__all__, "__version__"]

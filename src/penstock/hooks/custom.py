"""Hooks that a recipe names: built-in ones, and custom ones by their places.

A hook is named by a text, or by a table with its `name` and its settings: `hooks = ["my_hooks.py:Grids", {name =
"profiler", every = 500}]`. It is called with its settings, and with `folder`, the run's folder, where it has a
parameter of that name.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from penstock import custom
from penstock.errors import RecipeError, not_installed
from penstock.hooks.fed import FedImages
from penstock.hooks.mlflow import MLflow
from penstock.hooks.placement import Placement
from penstock.hooks.profiling import Profile
from penstock.hooks.saving import KeepBest
from penstock.hooks.stopping import MaxTime, StopAtScore
from penstock.hooks.values import LogValues
from penstock.hooks.wandb import WandB
from penstock.session import Hook

_SETTING: Final = "hooks"
_FOLDER: Final = "folder"
BUILT_IN: Final[dict[str, Callable[..., Hook]]] = {
    "profiler": lambda folder, every=100: Profile(folder / "profiles", every),
    "keep_best": KeepBest,
    "stop_at_score": StopAtScore,
    "log_values": LogValues,
    "fed_images": FedImages,
    "placement": Placement,
    "max_time": MaxTime,
    "mlflow": MLflow,
    "wandb": WandB,
}
"""Hooks by name, each with the settings that it takes."""


def named_hooks(listed: Sequence[str | Mapping[str, Any]], folder: Path) -> list[Hook]:
    """The hooks that a recipe lists.

    Args:
        listed: names, places, or tables with a `name` and settings.
        folder: the run's.

    Raises:
        RecipeError: a hook is not there, does not take its settings, or is no hook.
    """
    return [_hook(entry, folder) for entry in listed]


def check_hooks(listed: Sequence[str | Mapping[str, Any]]) -> None:
    """Whether the hooks that a recipe lists are there and take their settings; none is made.

    Raises:
        RecipeError: as `named_hooks`, or the package that a hook needs is not installed.
    """
    for entry in listed:
        place, found, settings = _named(entry)
        custom.arguments_for(found, place, _SETTING, {**settings, _FOLDER: None})
        package = getattr(found, "requires", "")
        if package and importlib.util.find_spec(package) is None:
            raise not_installed(f"The hook {place.name}", package, f"Install penstock[{package}]")


def _hook(entry: str | Mapping[str, Any], folder: Path) -> Hook:
    place, found, settings = _named(entry)
    hook: Hook = custom.call(found, place, _SETTING, {**settings, _FOLDER: folder})
    return hook


def _class(place: custom.ImportPath) -> type[Hook]:
    found = custom.load(place, _SETTING)
    if not (isinstance(found, type) and issubclass(found, Hook)):
        raise RecipeError(
            f"{_SETTING} = {place}",
            expected="a class derived from penstock.session.Hook",
            found=getattr(found, "__name__", type(found).__name__),
            remedy="Derive it from Hook",
        )
    return found


def _named(entry: str | Mapping[str, Any]) -> tuple[custom.ImportPath, Any, dict[str, Any]]:
    """Where a hook is, what makes it, and its settings, which it takes."""
    settings = {"name": entry} if isinstance(entry, str) else dict(entry)
    name = str(settings.pop("name", ""))
    place = custom.import_path_of(name)
    if place is None and name not in BUILT_IN:
        raise RecipeError(
            _SETTING,
            expected=f"one of {', '.join(BUILT_IN)}, or FILE.py:NAME",
            found=name or "a table without a name",
            remedy="Name a hook",
        )
    found = _class(place) if place else BUILT_IN[name]
    place = place or custom.ImportPath("penstock.hooks", name)
    custom.refuse_unknown(found, place, _SETTING, settings, supplied=[_FOLDER])
    return place, found, settings

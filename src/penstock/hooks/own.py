"""Hooks that a recipe names: built-in ones, and those of somebody's own by their places.

A hook is named by a text, or by a table with its `name` and its settings: `hooks = ["my_hooks.py:Grids", {name =
"profiler", every = 500}]`. It is called with its settings, and with `folder`, the run's folder, where it has a
parameter of that name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock import names
from penstock.errors import RecipeError
from penstock.hooks.profiling import Profile
from penstock.hooks.saving import SaveByTime
from penstock.session import Hook

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

_SETTING: Final = "hooks"
BUILT_IN: Final[dict[str, Callable[..., Hook]]] = {
    "profiler": lambda folder, every=100: Profile(folder / "profiles", every),
    "checkpoint_saver": lambda minutes=5.0: SaveByTime(minutes),
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


def _hook(entry: str | Mapping[str, Any], folder: Path) -> Hook:
    settings = {"name": entry} if isinstance(entry, str) else dict(entry)
    name = str(settings.pop("name", ""))
    place = names.place_of(name)
    if place is None and name not in BUILT_IN:
        raise RecipeError(
            _SETTING,
            expected=f"one of {', '.join(BUILT_IN)}, or FILE.py:NAME",
            found=name or "a table without a name",
            remedy="Name a hook",
        )
    place, found = (
        (place, names.load(place, _SETTING)) if place else (names.Place("penstock.hooks", name), BUILT_IN[name])
    )
    names.refuse_unknown(found, place, _SETTING, settings)
    hook = names.call(found, place, _SETTING, {**settings, "folder": folder})
    if not isinstance(hook, Hook):
        raise RecipeError(
            f"{_SETTING} = {place}",
            expected="a penstock.session.Hook",
            found=type(hook).__name__,
            remedy="Derive it from Hook",
        )
    return hook

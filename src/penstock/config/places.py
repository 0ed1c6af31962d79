"""The settings of a recipe that name places and paths, and how they change with the folder that they count from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from penstock.config import toml
from penstock.config.members import flat
from penstock.custom import ImportPath, import_path_of
from penstock.datasets import locate
from penstock.errors import RecipeError
from penstock.settings import Recipe

SINGLE = ("task", "model.name", "loss.custom", "optimizer.name")
LISTS = ("train.metrics", "hooks")


def places(recipe: Recipe) -> Iterator[tuple[str, ImportPath]]:
    """The places that a recipe names, each with its setting."""
    return places_in(flat(msgspec.to_builtins(recipe)))


def places_in(settings: Mapping[str, Any]) -> Iterator[tuple[str, ImportPath]]:
    """The places that some settings name, each with its setting."""
    for key in (*SINGLE, *LISTS):
        value = settings.get(key, "")
        for entry in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(entry, (str, dict)) and (place := import_path_of(_name(entry))):
                yield key, place


def with_places(recipe: Recipe, change: Callable[[str, ImportPath], ImportPath]) -> Recipe:
    """The recipe with its places changed; `change` is given the setting and the place."""
    values = {key: toml.value_of(recipe, key) for key in (*SINGLE, *LISTS)}
    changed = {key: _changed(key, value, partial(change, key)) for key, value in values.items()}
    return toml.filled(recipe, changed, "the recipe")


def absolute(recipe: Recipe) -> Recipe:
    """The recipe with its paths made absolute, so that it can be read from any folder.

    Raises:
        RecipeError: one of them is no text, which a recipe cannot hold.
    """
    init = str(Path(recipe.init).resolve()) if recipe.init else ""
    file = Path(recipe.model.weights)
    weights = str(file.resolve()) if file.is_file() else recipe.model.weights
    data = replace(recipe.data, path=locate(recipe.data.path).absolute().uri)
    for name, each in (("data.path", data.path), ("init", init), ("model.weights", weights)):
        if not each.isprintable() and each != (shown := each.encode(errors="backslashreplace").decode()):
            raise RecipeError(name, expected="a path in UTF-8", found=shown, remedy="Rename the file or its folder")
    recipe = replace(recipe, init=init, data=data, model=replace(recipe.model, weights=weights))
    return with_places(recipe, lambda _, place: place.beside(Path.cwd()))


def located(key: str, value: Any, folder: Any) -> Any:
    """A value of a setting with the places in it counted from a folder."""
    return _changed(key, value, lambda place: place.beside(folder))


def _changed(key: str, value: Any, change: Callable[[ImportPath], ImportPath]) -> Any:
    def changed(text: str) -> str:
        place = import_path_of(text)
        return str(change(place)) if place else text

    if key in SINGLE:
        return changed(str(value))
    return [_renamed(entry, changed(_name(entry))) for entry in value] if key in LISTS else value


def _name(entry: Any) -> str:
    return entry if isinstance(entry, str) else str(entry.get("name", ""))


def _renamed(entry: Any, name: str) -> Any:
    return name if isinstance(entry, str) else {**entry, "name": name}

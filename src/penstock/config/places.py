"""The settings of a recipe that name places and paths, and how they change with the folder that they count from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.config import toml
from penstock.custom import Place, place_of
from penstock.datasets import locate
from penstock.errors import RecipeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from penstock.settings import Recipe

SINGLE = ("task", "model.name", "loss.custom", "optimizer.name")
LISTS = ("train.metrics", "hooks")


def places(recipe: Recipe) -> Iterator[tuple[str, Place]]:
    """The places that a recipe names, each with its setting."""
    for key in SINGLE:
        if place := place_of(toml.value_of(recipe, key)):
            yield key, place
    for key in LISTS:
        for entry in toml.value_of(recipe, key):
            if place := place_of(_name(entry)):
                yield key, place


def places_in(settings: Mapping[str, Any]) -> Iterator[tuple[str, Place]]:
    """The places that the settings of a recipe file name, each with its setting."""
    for key in SINGLE:
        if place := place_of(str(settings.get(key, ""))):
            yield key, place
    for key in LISTS:
        listed = settings.get(key, ())
        for entry in listed if isinstance(listed, (list, tuple)) else ():
            if isinstance(entry, (str, dict)) and (place := place_of(_name(entry))):
                yield key, place


def with_places(recipe: Recipe, change: Callable[[str, Place], Place]) -> Recipe:
    """The recipe with its places changed; `change` is given the setting and the place."""

    def changed(key: str, text: str) -> str:
        place = place_of(text)
        return str(change(key, place)) if place else text

    values: dict[str, Any] = {}
    for key in SINGLE:
        values[key] = changed(key, toml.value_of(recipe, key))
    for key in LISTS:
        values[key] = [_renamed(entry, changed(key, _name(entry))) for entry in toml.value_of(recipe, key)]
    return toml.filled(recipe, values, "the recipe")


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

    def beside(text: str) -> str:
        place = place_of(text)
        return str(place.beside(folder)) if place else text

    if key in SINGLE:
        return beside(str(value))
    if key in LISTS:
        return [_renamed(entry, beside(_name(entry))) for entry in value]
    return value


def _name(entry: Any) -> str:
    return entry if isinstance(entry, str) else str(entry.get("name", ""))


def _renamed(entry: Any, name: str) -> Any:
    return name if isinstance(entry, str) else {**entry, "name": name}

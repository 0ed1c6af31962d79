"""Settings that somebody gave to a whole recipe: the dataset says what is learnt, which decides about defaults."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from penstock import files
from penstock.assembly.epochs import with_steps
from penstock.assembly.experiment import open_dataset
from penstock.assembly.presets import Resolved, resolve
from penstock.assembly.published import with_published_decoder
from penstock.assembly.runs import run_recipe
from penstock.assembly.sizing import with_data_defaults
from penstock.assembly.trusting import settings_in
from penstock.config import toml
from penstock.config.checks import check_follow
from penstock.config.members import NAME, flat
from penstock.config.places import located
from penstock.datasets import Dataset, locate
from penstock.errors import EmptySourceError, RecipeError
from penstock.runs import RunFolder
from penstock.settings import DataSettings, Recipe
from penstock.tasks import Ability, Task, find_task, refusal

_UNKNOWN: Final = "segmentation"
"""What a topic that holds nothing yet is taken to be for."""

_NAME_DATA: Final = "Set data.path in the recipe (relative to the folder of the recipe), or add --set data.path=DIR"


def resolve_settings(given: Mapping[str, Any], where: str = "", notes: tuple[str, ...] = ()) -> Resolved:
    """The recipe of some settings; its dataset is opened to see what is learnt.

    Raises:
        RecipeError: a setting is not known, its value does not fit, or the task does not support it.
        DatasetError: there is no such dataset.
        SourceError: the topic cannot be reached.
    """
    given = flat(given)
    begun = {key: value for key, value in given.items() if key.startswith(("data.", "follow."))}
    known = toml.filled(Recipe(), begun, where)
    check_follow(known)  # before anything is reached for
    task = find_task(str(given.get("task", "")), _task(known.data))
    init = Path(str(given.get("init", "")))
    if given.get("init") and not init.is_file() and not given.get("model.name") and Ability.MODELS in task.supports:
        given = {**_network_of(init), **given}
    _check_model(str(given.get("model.name", "")), task)
    resolved = replace(resolve(given, task, where), notes=notes)
    with contextlib.suppress(EmptySourceError):
        resolved = with_data_defaults(resolved, _opened(resolved.recipe.data), task)
    return with_steps(with_published_decoder(resolved))


def _check_model(name: str, task: type[Task]) -> None:
    if name not in ("", task.kind.name) and Ability.MODELS not in task.supports:
        raise refusal(task, Ability.MODELS, f"model.name={name}")


def settings_of_file(file: Path, changes: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The settings of a recipe file, and changes to them; and notes of what the changes put out of effect.

    The data of the file lies beside it, unless the changes say where.

    Raises:
        RecipeError: it is no recipe, or names no data.
        RunError: it names custom parts, and is not trusted.
    """
    stated = {key: located(key, value, file.parent) for key, value in settings_in(file).items()}
    stated |= _begun_with(file, stated)
    given, gone = toml.over(stated, changes)
    begins = "begins with its own defaults"
    notes = tuple(f"note: {each} = {given[f'{each}.{NAME}']} {begins}: [{each}] of {file} is not used" for each in gone)
    notes += _changed_later(file)
    path = str(given.get("data.path", ""))
    if not path:
        raise RecipeError(f"{file}: data.path", remedy=_NAME_DATA, message=f"{file} names no dataset.")
    if "data.path" in changes:
        return given, notes
    return {**given, "data.path": locate(path).beside(file.parent).uri}, notes


def _begun_with(file: Path, stated: Mapping[str, Any]) -> dict[str, Any]:
    """The setting by which a recipe in a run folder begins with the weights that the run keeps.

    Raises:
        RunError: they are not those that it began with.
    """
    folder = RunFolder(file.parent)
    initial = folder.initial if file.name == "recipe.toml" and RunFolder.is_run(file.parent) else None
    if initial is None:
        return {}
    expected, found = folder.read_json("settings.json").get("initial"), files.sha256(initial)
    if found != expected:
        raise folder.damaged(initial.name, f"the weights that the run began with (SHA-256 {expected})", found)
    return {"init" if stated.get("init") else "model.weights": str(initial)}


def _changed_later(file: Path) -> tuple[str, ...]:
    """A note where a recipe is that of a run which began with other settings."""
    others = sorted(path.name for path in file.parent.glob("recipe-until-step-*.toml"))
    if file.name != "recipe.toml" or not others:
        return ()
    return (f"note: {file.parent} was resumed with other settings; it began with those of {', '.join(others)}",)


def _network_of(run: Path) -> dict[str, Any]:
    """The network that a run trained: what starts from its weights is the same one unless said otherwise."""
    model = run_recipe(RunFolder.open(run).path).model
    return {"model.name": model.name, **{f"model.decoder.{name}": value for name, value in model.decoder.items()}}


def _task(data: DataSettings) -> str:
    """What a dataset is for."""
    with contextlib.suppress(EmptySourceError):
        return _opened(data).description.task
    return _UNKNOWN


def _opened(data: DataSettings) -> Dataset:
    return open_dataset(replace(data, block=data.block or 1))

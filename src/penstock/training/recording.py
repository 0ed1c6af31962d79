"""What a run folder keeps of how its training was begun and changed."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock import files
from penstock import ranks as ranking
from penstock.assembly.experiment import Experiment
from penstock.assembly.presets import Resolved
from penstock.assembly.run_data import RunData
from penstock.assembly.runs import kept_recipe
from penstock.config import toml
from penstock.custom import carried, import_path_of
from penstock.events import Events
from penstock.ranks import Ranks
from penstock.records import manifest
from penstock.runs import RunFolder, environment
from penstock.settings import Recipe


def title(parts: Experiment) -> str:
    """The name of a run that nobody named: the model's and the dataset's."""
    model = parts.recipe.model.name
    place = import_path_of(model)
    return f"{place.short if place else re.sub('[:/]', '-', model)}-{parts.dataset.name}"


def new_folder(root: Path, name: str, ranks: Ranks, fill: Callable[[RunFolder], None]) -> RunFolder:
    """A new run folder below `root`, the same on all ranks; `fill` writes what it begins with."""
    path = str(RunFolder.create(root, name, fill).path) if ranks.is_main else ""
    return RunFolder(Path(ranks.broadcast(path)))


def record(
    folder: RunFolder, resolved: Resolved, parts: Experiment, run_data: RunData, promised: dict[str, Any]
) -> None:
    """Keep what a run begins with: the recipe, the code that it names, the data, the environment.

    Args:
        folder: of the run.
        resolved: which settings were given, and where the others come from.
        parts: the recipe, and what it names.
        run_data: what the data is now.
        promised: what of the environment the run's exactness depends on.
    """
    recipe = kept_recipe(parts.recipe, folder.path)
    described = parts.dataset.description
    if kind := import_path_of(described.task):
        carried.keep(kind.beside(Path(described.home)), "task", folder.path)
    files.write_atomically(folder.path / "recipe.toml", toml.dump(recipe).encode())
    digests = _digests(folder)
    run = hashlib.sha256(
        f"{digests['recipe']} {parts.plan.digest}".encode()
    ).hexdigest()  # which each checkpoint states
    begun = {"run": run, **({"initial": files.sha256(folder.initial)} if folder.initial else {})}
    folder.write_json("settings.json", {**resolved.as_json(), **digests, **begun})
    launch = ranking.launch()
    launched = {"launch": launch.name} if launch else {}
    folder.write_json("environment.json", {**environment(folder.path), **promised, **launched})
    run_data.write(folder, parts.plan.digest)
    if parts.dataset.manifest:
        files.write_atomically(folder.path / manifest.NAME, manifest.packed_bytes(parts.dataset.manifest))


def _digests(folder: RunFolder) -> dict[str, Any]:
    return {"code": carried.digests(folder.path), "recipe": files.sha256(folder.path / "recipe.toml")}


def note_edited(folder: RunFolder, events: Events) -> None:
    """Say that somebody has edited the recipe of a run, which is used as it is now."""
    if folder.is_edited:
        events.note("note: recipe.toml was edited since Penstock wrote it, and is used as it is now")
        folder.event("edited", file="recipe.toml")
        now = files.sha256(folder.path / "recipe.toml")
        folder.write_json("settings.json", {**folder.read_json("settings.json"), "recipe": now})


def record_changes(folder: RunFolder, recipe: Recipe, step: int) -> None:
    """Keep the recipe that a run goes on with, and what changed in it from which step on."""
    before, recipe = toml.load(folder.path / "recipe.toml"), kept_recipe(recipe, folder.path)
    if changed := toml.changes(before, recipe):
        folder.event("changed", step=step, settings={key: [was, now] for key, (was, now) in changed.items()})
        kept = folder.path / f"recipe-until-step-{step:08d}.toml"
        if not kept.exists():  # a training that was killed before its next checkpoint changes at this step again
            files.write_atomically(kept, toml.dump(before).encode())
        files.write_atomically(folder.path / "recipe.toml", toml.dump(recipe).encode())
        settings = folder.read_json("settings.json", "given")
        with folder.reading("settings.json"):
            given = {**settings["given"], **{key: now for key, (_, now) in changed.items()}}
        folder.write_json("settings.json", {**settings, "given": given, **_digests(folder)})

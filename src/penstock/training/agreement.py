"""What all ranks must agree on before a run begins: the recipe, the snapshots, the run that a launch began."""

from __future__ import annotations

import contextlib
import json
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

from penstock import ranks as ranking
from penstock.assembly.experiment import Experiment, chosen_shuffle, gather, open_experiment
from penstock.assembly.presets import Resolved
from penstock.assembly.run_data import RunData, shared
from penstock.config import toml
from penstock.config.places import places
from penstock.errors import RunError
from penstock.events import Events
from penstock.ranks import Ranks
from penstock.runs import RunFolder
from penstock.settings import Recipe
from penstock.training.streaming import await_first


def begun_by_launch(root: Path, ranks: Ranks, events: Events) -> Path | None:
    """The run that this very command of torchrun began before one of its processes failed; None where it began none."""
    launch, found = ranking.launch(), ""
    if launch and launch.restarts and ranks.is_main and root.is_dir():
        for path in sorted(root.glob("*/environment.json"), reverse=True):
            folder = RunFolder(path.parent)
            if not RunFolder.is_run(folder.path):
                continue
            with contextlib.suppress(RunError):
                if not found and folder.read_json("environment.json").get("launch") == launch.name:
                    found = str(folder.path)
    found = ranks.broadcast(found)
    if found:
        events.note(f"started again by torchrun: going on with {found}")
    return Path(found) if found else None


def newest_run(root: Path, name: str, ranks: Ranks, events: Events) -> Path | None:
    """The newest run of a name, the same on all ranks; None where there is none."""
    newest = RunFolder.newest(root, name) if ranks.is_main else None
    found = ranks.broadcast(str(newest or ""))
    if found:
        events.note(f"going on with {found}")
    return Path(found) if found else None


def settings_for_resume(resolved: Resolved) -> dict[str, Any]:
    """The settings of a repeated command for the run that it began, without custom code: the run has copies."""
    own = {setting for setting, _ in places(resolved.recipe)}
    return {key: value for key, value in resolved.given.items() if key not in own}


def open_on_all_ranks(recipe: Recipe, ranks: Ranks, events: Events) -> tuple[Experiment, RunData]:
    """A recipe opened, with what its data is now: the main process decides where ranks may see a topic differently.

    Raises:
        DatasetError: there is no such dataset, or it has no such split.
        RecipeError: a setting has no effect on what is learnt.
        SourceError: the topic cannot be reached.
    """
    if recipe.follow.on:
        await_first(recipe.data, ranks, events)
    parts = open_experiment(_with_shuffle(recipe, ranks))
    data = parts.recipe.data
    evaluated = [data.validation] if data.validation else []
    for split in evaluated:
        parts.dataset.split(split)
    fixed = evaluated if recipe.follow.on else [data.train, *evaluated]
    text = json.dumps(gather(parts, fixed).as_json()) if ranks.is_main else ""
    run_data = shared(ranks.broadcast(text))
    return replace(parts, pinned=run_data.snapshots), run_data


def _with_shuffle(recipe: Recipe, ranks: Ranks) -> Recipe:
    """The recipe with a shuffle, which may follow from how a topic looks now."""
    chosen = toml.dump(chosen_shuffle(recipe)) if ranks.is_main else ""
    return toml.convert(tomllib.loads(ranks.broadcast(chosen)), "the recipe")

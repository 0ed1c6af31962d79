"""What all ranks must agree on before a run begins: the recipe, the snapshots, the run that a launch began."""

from __future__ import annotations

import contextlib
import json
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from penstock import ranks as ranking
from penstock.assembly.facts import shared
from penstock.assembly.parts import chosen_shuffle, gather
from penstock.config import toml
from penstock.errors import RunError
from penstock.runs import RunFolder
from penstock.training.streaming import await_first

if TYPE_CHECKING:
    from penstock.assembly.facts import Facts
    from penstock.assembly.parts import Parts
    from penstock.config import Recipe
    from penstock.events import Events
    from penstock.ranks import Ranks


def begun_by_launch(root: Path, ranks: Ranks, events: Events) -> Path | None:
    """The run that this very command of torchrun began before one of its processes failed; None where it began none."""
    launch, found = ranking.launch(), ""
    if launch and launch.restarts and ranks.is_main and root.is_dir():
        for path in sorted(root.glob("*/environment.json"), reverse=True):
            folder = RunFolder(path.parent)
            with contextlib.suppress(RunError):
                if not found and folder.read_json("environment.json").get("launch") == launch.name:
                    found = str(folder.path)
    found = ranks.broadcast(found)
    if found:
        events.note(f"started again by torchrun: going on with {found}")
    return Path(found) if found else None


def agreed_recipe(recipe: Recipe, ranks: Ranks, events: Events) -> Recipe:
    """The recipe with a shuffle: a topic that grows may not look the same to all ranks, so the writer chooses."""
    if recipe.follow.on:
        await_first(recipe.data, ranks, events)
    chosen = toml.dump(chosen_shuffle(recipe)) if ranks.is_main else ""
    return toml.convert(tomllib.loads(ranks.broadcast(chosen)), "the recipe")


def agreed_data(parts: Parts, ranks: Ranks) -> tuple[Parts, Facts]:
    """The parts with the writer's snapshots: a topic that grows may not look the same to all ranks."""
    recipe = parts.recipe
    splits = [split for split in (recipe.data.train, recipe.data.validation) if split]
    fixed = splits[1:] if recipe.follow.on else splits
    text = json.dumps(gather(parts, fixed).as_json()) if ranks.is_main else ""
    facts = shared(ranks.broadcast(text))
    return replace(parts, pinned=facts.snapshots), facts

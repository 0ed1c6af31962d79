"""The weights that a run begins with, and an account of every tensor."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch
from torch import nn

from penstock.assembly import runs
from penstock.assembly.experiment import Experiment
from penstock.assembly.run_data import read_run_data
from penstock.events import Events
from penstock.models import load_matching
from penstock.models.pretrained import account_of
from penstock.models.weights import Loaded
from penstock.runs import RunFolder
from penstock.session.state import read_tensors, write_tensors
from penstock.settings import Recipe
from penstock.training.compatibility import check_optimizer, try_loss, try_sizes


def initial_model(parts: Experiment, events: Events, kept: Path | None = None) -> nn.Module:
    """A new model with the weights that the recipe names, or with the copy of them that a run has kept."""
    if kept:
        parts = replace(parts, recipe=_with_kept(parts.recipe, str(kept)))
    model = parts.model(blank=bool(parts.recipe.init))
    check_optimizer(parts.recipe, model)
    try_sizes(parts.recipe, parts.task, model)
    try_loss(parts, model)
    if not parts.recipe.init:
        _note_file(parts.recipe, events)
        _note_published(model, parts.recipe, events)
        return model
    tensors, named, said = _found(Path(parts.recipe.init))
    account = load_matching(model, tensors, named, strict=parts.recipe.strict)
    events.note("\n  ".join([f"init from {said}:", *account.lines()]))
    learnt, there = _classes_of(Path(parts.recipe.init)), parts.dataset.description.classes
    if len(learnt) == len(there) and learnt != there:
        events.note(
            f"init: the last layer begins with weights of other classes: {', '.join(learnt)}, not {', '.join(there)}"
        )
    return model


def _classes_of(init: Path) -> tuple[str, ...]:
    """The classes that a run learnt; none for a file, and for runs that do not keep them."""
    described = None if init.is_file() else read_run_data(RunFolder.open(init)).described
    return described.classes if described else ()


def _with_kept(recipe: Recipe, kept: str) -> Recipe:
    """The recipe with a copy in place of the run or the file that it names."""
    return replace(recipe, init=kept) if recipe.init else replace(recipe, model=replace(recipe.model, weights=kept))


def _found(init: Path) -> tuple[Mapping[str, torch.Tensor], str, str]:
    """The weights of a file or a run, and what they are called in errors and in notes."""
    if init.is_file():
        return read_tensors(init), str(init), str(init)
    other = RunFolder.open(init)
    checkpoint = runs.load_checkpoint(other)
    named = f"{other.path} ({runs.run_recipe(other.path).model.name})"
    return runs.weights(checkpoint), named, f"{other.path}, step {checkpoint.step:,}"


def keep_initial(folder: RunFolder, model: nn.Module, recipe: Recipe) -> None:
    """Keep the weights that a run begins with, where they come from a run or a file, which may change or go."""
    file = Path(recipe.model.weights)
    if recipe.init:
        write_tensors(folder.path / "initial.safetensors", model.state_dict())
    elif file.is_file():
        shutil.copyfile(file, folder.path / f"initial{file.suffix}")


def _note_published(model: nn.Module, recipe: Recipe, events: Events) -> None:
    """Account for the tensors of a whole network that was published."""
    account = getattr(model, "account", None)
    if isinstance(account, Loaded):
        events.note("\n  ".join([f"weights {recipe.model.weights}:", *account.lines("file")]))


def _note_file(recipe: Recipe, events: Events) -> None:
    """Account for the tensors of a file that the backbone was given."""
    file, backbone = Path(recipe.model.weights), recipe.model.name.rpartition(":")[2]
    if file.is_file():
        account = account_of(backbone, file)
        events.note("\n  ".join([f"backbone from {file}:", *account.lines("file")]))

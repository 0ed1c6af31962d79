"""A run folder opened: its recipe, its dataset, its weights."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from penstock.assembly.experiment import Experiment, check_data, open_experiment, without_weights
from penstock.assembly.run_data import read_run_data
from penstock.assembly.trusting import check_run
from penstock.config import toml
from penstock.config.places import places, with_places
from penstock.custom import ImportPath, carried
from penstock.datasets import FolderDataset, locate
from penstock.errors import DatasetError, RunError
from penstock.runs import RunFolder
from penstock.session import Checkpoint, CheckpointStore
from penstock.settings import Recipe


def run_recipe(path: Path) -> Recipe:
    """The recipe of a run, with the paths of custom files replaced by those of the copies in the run folder.

    Raises:
        RecipeError: it is damaged.
        RunError: the recipe names no data, or the run carries code that was changed, or that nobody trusts.
    """
    _check_version(path)
    recipe = toml.load(path / "recipe.toml")
    if not recipe.data.path:
        raise RunError(
            f"{path / 'recipe.toml'}: data.path",
            expected="the dataset that the run was trained on",
            found="nothing",
            remedy="Restore the file from a copy of the run",
        )
    check_run(path, places(recipe), path / "recipe.toml")
    return with_places(recipe, lambda _, place: place.beside(path.resolve()))


def _check_version(path: Path) -> None:
    """Settings had other names before 0.2.0, whose runs have a settings.json."""
    environment = path / "environment.json"
    if (path / "settings.json").exists() or not environment.exists():
        return
    folder = RunFolder(path)
    with folder.reading("environment.json"):
        version = str(folder.read_json("environment.json").get("packages", {}).get("penstock"))
    if version.startswith("0.1."):
        raise RunError(
            str(path),
            remedy="Resume, evaluate and predict it with that version, or train again",
            message=f"{path}: this run was made by Penstock {version}, in which settings had other names.",
        )


def kept_recipe(recipe: Recipe, path: Path) -> Recipe:
    """A recipe as a run keeps it: the files of its places are copied into the run, and named from there."""

    def copied(setting: str, place: ImportPath) -> ImportPath:
        inside = Path(place.source)
        if place.is_file and inside.is_relative_to(path.resolve()):
            return ImportPath(str(inside.relative_to(path.resolve())), place.name)
        kept = carried.keep(place, setting, path)
        return kept if place.is_file else place

    return with_places(recipe, copied)


def open_run(path: Path, data: str = "") -> Experiment:
    """A run's recipe, with its dataset opened.

    Raises:
        PenstockError: the folder is no run, or its dataset is not there or has changed.
    """
    folder = RunFolder.open(path)
    run_data, recipe = read_run_data(folder), _recipe(path)
    if data:
        recipe = replace(recipe, data=replace(recipe.data, path=data))
    parts = open_experiment(recipe, run_data)
    check_data(parts, run_data, str(path))
    return parts


def _recipe(path: Path) -> Recipe:
    return without_weights(run_recipe(path))


def described_run(path: Path) -> Experiment:
    """A run's recipe with what it keeps of its dataset, which may be gone; runs of before keep nothing."""
    run_data, recipe = read_run_data(RunFolder.open(path)), _recipe(path)
    return (
        Experiment(recipe, FolderDataset(Path(recipe.data.path), run_data.described))
        if run_data.described
        else open_run(path)
    )


def open_on(path: Path, data: str) -> Experiment:
    """A run with another dataset to be scored on: of the same task, and images of the same channels. Classes are
    matched by their names.

    Raises:
        PenstockError: the folder is no run, or the dataset is missing or does not fit the run.
    """
    parts, dataset = described_run(path), locate(data).open()
    learnt, there = parts.dataset.description, dataset.description
    for what in ("task", "channels", "bits", "modalities", "value_range"):
        expected, found = getattr(learnt, what), getattr(there, what)
        if expected != found:
            raise DatasetError(
                f"{data}: {what.replace('_', ' ')}",
                expected=f"{expected}, as {path} learnt",
                found=str(found),
                remedy="Choose a dataset that was packed in the same way",
            )
    if not set(learnt.classes) & set(there.classes):
        raise DatasetError(
            f"{data}: classes",
            expected=f"some of those that {path} learnt ({', '.join(learnt.classes)})",
            found=", ".join(there.classes),
            remedy="Pack the data with the names of the run's classes",
        )
    return replace(parts, scored=dataset)


def load_checkpoint(folder: RunFolder, name: str = "") -> Checkpoint:
    """A run's checkpoint: "best", "last" or "step-NNNNNNNN"; by default the best where there is one, else the last.

    Raises:
        RunError: none was saved yet.
        CheckpointError: it is missing or damaged.
    """
    best = folder.checkpoints / "best"
    preferred = "best" if best.exists() or best.is_symlink() else "last"
    loaded = CheckpointStore(folder.checkpoints).load(name or preferred)
    if loaded is None:
        raise RunError(
            str(folder.path),
            expected="a checkpoint",
            found="none saved yet",
            remedy="Train the run first, with --resume",
        )
    return loaded


def weights(checkpoint: Checkpoint) -> dict[str, torch.Tensor]:
    """The weights to use of a checkpoint: the moving average where there is one."""
    return dict(checkpoint.tensors.get("ema", checkpoint.tensors["model"]))

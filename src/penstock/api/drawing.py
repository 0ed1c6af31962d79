"""Image grids of a dataset and of what a training is fed; apart, because it needs PyTorch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.api.samples import Sheet
from penstock.assembly import chosen_shuffle, notes, open_experiment, resolve_settings, settings_in
from penstock.config.toml import over
from penstock.report.sheets import encode, records_sheet, samples_sheet
from penstock.settings import Follow

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.datasets import Dataset


def records(dataset: Dataset, split: str, count: int, seed: int) -> Sheet:
    """Packed records with their labels."""
    return Sheet(encode(records_sheet(dataset, split, count, seed)))


def samples(dataset: str, split: str, count: int, seed: int, recipe: str | Path, settings: Mapping[str, Any]) -> Sheet:
    """The first samples that training on a split would be fed."""
    given, _ = over(settings_in(Path(recipe)) if recipe else {}, settings)
    asked = {"data.path": dataset, "data.train": split, "follow.on": False, **({"seed": seed} if seed else {})}
    chosen = chosen_shuffle(resolve_settings({**given, **asked}).recipe)
    parts = open_experiment(replace(chosen, follow=Follow()))
    pixels, origins = samples_sheet(parts.task, parts.training_feed(), range(count))
    return Sheet(encode(pixels), tuple(origins), tuple(notes(parts)))

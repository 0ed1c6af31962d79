"""What `show --augmented` draws; apart, because it needs torch."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.recipe import Data, Follow, apply, chosen_shuffle, default_recipe, load, notes, open_dataset, open_parts
from penstock.report.sheets import encode, samples_sheet

if TYPE_CHECKING:
    from pathlib import Path


def augmented_sheet(dataset: str, split: str, count: int, seed: int, recipe: Path | None, settings: list[str]) -> bytes:
    """The first samples that training on a split would be fed, as a PNG."""
    place = Data(path=dataset, train=split)
    begin = load(recipe) if recipe else default_recipe(open_dataset(place).description.task)
    chosen = apply(begin, settings)
    data = replace(chosen.data, path=dataset, train=split)
    chosen = chosen_shuffle(replace(chosen, data=data, follow=Follow(), seed=seed or chosen.seed))
    parts = open_parts(chosen)
    print(*notes(parts), sep="\n", end="\n" * bool(notes(parts)))
    pixels, _ = samples_sheet(parts.task, parts.training_feed(), range(count))
    return encode(pixels)

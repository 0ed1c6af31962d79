"""What `show --augmented` draws; apart, because it needs torch."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.assembly import chosen_shuffle, notes, open_parts, resolve_settings, settings_in
from penstock.config import parsed
from penstock.report.sheets import encode, samples_sheet
from penstock.settings import Follow

if TYPE_CHECKING:
    from pathlib import Path


def augmented_sheet(
    dataset: str, split: str, count: int, seed: int, recipe: Path | None, settings: tuple[str, ...]
) -> bytes:
    """The first samples that training on a split would be fed, as a PNG."""
    given = {**(settings_in(recipe) if recipe else {}), **parsed(settings)}
    asked = {"data.path": dataset, "data.train": split, "follow.on": False, **({"seed": seed} if seed else {})}
    chosen = chosen_shuffle(resolve_settings({**given, **asked}).recipe)
    chosen = replace(chosen, follow=Follow())
    parts = open_parts(chosen)
    for note in notes(parts):
        print(note)
    pixels, _ = samples_sheet(parts.task, parts.training_feed(), range(count))
    return encode(pixels)

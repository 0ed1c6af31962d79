"""Images and their alpha mattes: `images/` beside `alphas/`, gray PNGs whose 0 to 255 is alpha."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from penstock.datasets import listing
from penstock.datasets.layouts.masks import ALPHAS, IMAGES, outside, paired
from penstock.kinds.items import Labels

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.datasets.layout import Layout

_CLASSES: Final = ("background", "foreground")


def recognise(folder: Path) -> Layout | None:
    """Both folders, with or without splits in them, or in split folders."""
    images, alphas = listing.subfolder(folder, IMAGES), listing.subfolder(folder, ALPHAS)
    pairs: dict[str, tuple[Path | None, Path | None]]
    if images and alphas:
        inside, beside = listing.splits(images), listing.splits(alphas)
        pairs = {split: (path, beside.get(split)) for split, path in inside.items()} or {"train": (images, alphas)}
        notes = outside(folder, images, inside) if inside else []
    else:
        splits = listing.splits(folder)
        pairs = {s: (listing.subfolder(p, IMAGES), listing.subfolder(p, ALPHAS)) for s, p in splits.items()}
        if not any(image and alpha for image, alpha in pairs.values()):
            return None
        notes = outside(folder, folder, splits)
    reason = "images with alpha mattes of the same names, whose values are alpha"
    return replace(
        paired(folder, pairs, "image and alpha folders", (reason,), Labels(_CLASSES), notes),
        task="matting",
    )

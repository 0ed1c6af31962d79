"""Images and their alpha mattes: `images/` beside `alphas/`, gray PNGs whose 0 to 255 is alpha."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

from penstock.datasets import listing
from penstock.datasets.layout import Layout
from penstock.datasets.layouts.mask_problems import outside
from penstock.datasets.layouts.masks import ALPHAS, IMAGES, paired
from penstock.datasets.layouts.roles import Pair, divided
from penstock.kinds.items import Labels

_CLASSES: Final = ("background", "foreground")


def recognise(folder: Path) -> Layout | None:
    """Both folders, with or without splits in them, or in split folders."""
    images, alphas = listing.subfolder(folder, IMAGES), listing.subfolder(folder, ALPHAS)
    if images and alphas:
        pairs, inside = [*divided(images, alphas)], listing.splits(images)
        notes = outside(folder, images, inside) if inside else []
    else:
        splits = listing.splits(folder)
        both = {
            split: (listing.subfolder(path, IMAGES), listing.subfolder(path, ALPHAS)) for split, path in splits.items()
        }
        pairs = [Pair(split, image, alpha) for split, (image, alpha) in both.items() if image]
        if not any(pair.masks for pair in pairs):
            return None
        notes = outside(folder, folder, splits)
    reason = "images with alpha mattes of the same names, whose values are alpha"
    return replace(paired(folder, pairs, "image and alpha folders", (reason,), Labels(_CLASSES), notes), task="matting")

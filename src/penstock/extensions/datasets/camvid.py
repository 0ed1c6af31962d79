"""CamVid as SegNet's authors give it: `train/`, `val/`, `test/` beside `trainannot/`, `valannot/`, `testannot/`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

from penstock.datasets import listing
from penstock.datasets.layout import Layout
from penstock.datasets.layouts import legend, masks, published
from penstock.kinds.items import Labels

CLASSES: Final = (
    "sky", "building", "pole", "road", "pavement", "tree", "sign", "fence", "car", "pedestrian", "bicyclist",
)  # fmt: skip
VOID: Final = 11
_IMAGES: Final = 367  # of train


def recognise(folder: Path) -> Layout | None:
    """Folders of images with folders of ids beside them whose names end in `annot`."""
    splits = {split: (path, _annotations(path)) for split, path in listing.splits(folder).items()}
    pairs, left = masks.labelled(folder, splits)
    if not pairs:
        return None
    reason = f"{', '.join(pair.images.name for pair in pairs)} with folders beside them that end in annot"
    found = masks.paired(folder, pairs, "CamVid", (reason,), Labels(CLASSES, VOID), left)
    own = masks.labels_of(folder)
    if not own.classes:
        return replace(found, problems=(*found.problems, *published.doubt(folder, "CamVid", found.items, _IMAGES)))
    return replace(found, labels=legend.in_colormap(own, next((item.label for item in found.items), None)))


def _annotations(path: Path) -> Path:
    return path.with_name(f"{path.name}annot")

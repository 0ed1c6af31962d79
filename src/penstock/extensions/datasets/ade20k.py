"""ADE20K's scene parsing benchmark (Zhou et al. 2017): 150 classes, whose ids begin with 1; 0 is not labelled."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from penstock.datasets import listing
from penstock.datasets.layout import Layout
from penstock.datasets.layouts import masks
from penstock.kinds.items import Labels

_SPLITS: Final = {"train": "training", "val": "validation"}
_NAMES: Final = "objectInfo150.txt"
_CLASSES: Final = 150


def recognise(folder: Path) -> Layout | None:
    """`images/` and `annotations/`, each with `training/` and `validation/`, beside `objectInfo150.txt`."""
    root = folder / "ADEChallengeData2016" if (folder / "ADEChallengeData2016").is_dir() else folder
    splits = {
        split: (root / "images" / name, root / "annotations" / name)
        for split, name in _SPLITS.items()
        if (root / "images" / name).is_dir()
    }
    pairs, left = masks.labelled(folder, splits)
    if not pairs or not (root / _NAMES).is_file():
        return None
    mapping = {0: 255, **{i: i - 1 for i in range(1, _CLASSES + 1)}}
    found = ", ".join(pair.split for pair in pairs)
    reasons = (f"images/ and annotations/ in {found}", f"the names in {_NAMES}; id 0 is not labelled")
    return masks.paired(folder, pairs, "ADE20K", reasons, Labels(_names(root / _NAMES), 255, mapping), left)


def _names(path: Path) -> tuple[str, ...]:
    """The first name of every class: the last column of a table whose first row says what the columns are."""
    rows = [line.split("\t") for line in listing.text_of(path).splitlines()[1:] if line.strip()]
    first = [row[-1].split(",")[0].strip() for row in rows]
    return tuple(name if first.count(name) == 1 else f"{name} {number}" for number, name in enumerate(first, 1))

"""Which column of a table says the split of an image, by what is in it: names of splits, or yes and no."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from penstock.datasets import listing

Row = Mapping[str, str]

SPLIT: Final = "split"
_FLAG: Final = re.compile(
    r"(?:is|in)[-_ ]?(train|training|val|valid|validation|test|testing)(?:[-_ ](?:img|image|set))?"
    r"|(training|validation|testing)",
    re.IGNORECASE,
)
"""Not `train` alone, which may be a class, nor `valid`."""
_YES: Final = frozenset({"1", "1.0", "true", "yes", "t", "y"})
_NO: Final = frozenset({"0", "0.0", "false", "no", "f", "n"})
_OTHER: Final = {"train": "val", "val": "train", "test": "train"}
"""Where the images are that are not in the split that a column is named for."""
_SEVERAL: Final = 2
_PARTITION: Final = "partition"
_NUMBERS: Final = {"0": "train", "1": "val", "2": "test"}
"""Splits in a column that is called `partition`, as in CelebA (Liu et al. 2015)."""


def with_splits(rows: dict[int, Row], header: Sequence[str], chosen: str) -> tuple[dict[int, Row], str]:
    """Rows with a column of splits in our names for them.

    Returns:
        The rows, and the column that says it; "" where none does, and the rows are as they were.
    """
    for column in [name for name in header if name.lower() == chosen.lower()] if chosen else header:
        cells = {row.get(column.lower(), "") for row in rows.values()} - {""}
        if meant := _meant(column, cells):
            return {
                line: {**row, SPLIT: meant.get(row.get(column.lower(), ""), "")} for line, row in rows.items()
            }, column
    return rows, ""


def _meant(column: str, cells: set[str]) -> dict[str, str]:
    """The split that each cell of a column means; none where the column is of something else."""
    if (flag := _FLAG.fullmatch(column)) and {cell.lower() for cell in cells} <= _YES | _NO:
        split = listing.split_of(flag[1] or flag[2])
        return {cell: split if cell.lower() in _YES else _OTHER[split] for cell in cells}
    if column.lower() == _PARTITION and cells <= _NUMBERS.keys():
        return _NUMBERS
    if len(cells) > len(listing.SPLITS) + _SEVERAL:
        return {}
    named = {cell: split for cell in cells if "." not in cell and (split := listing.role_of(cell)[1])}
    return named if len(named) == len(cells) and len(set(named.values())) >= _SEVERAL else {}


def read_partition(path: Path) -> tuple[dict[int, Row], list[str]]:
    """The rows of a text file of lines `IMAGE NUMBER`, as of CelebA's list_eval_partition.txt, or `IMAGE SPLIT`."""
    column = _PARTITION if _PARTITION in path.stem.lower() else SPLIT
    lines = (line.split() for line in listing.text_of(path).splitlines())
    rows: dict[int, Row] = {
        n: {"image": words[0], column: words[1]} for n, words in enumerate(lines, 1) if len(words) == _SEVERAL
    }
    return rows, ["image", column]

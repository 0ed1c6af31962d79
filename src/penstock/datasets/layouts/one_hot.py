"""Tables with a column of 0 and 1 for each class, as ISIC's and Kaggle's are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

Row = Mapping[str, str]

LABEL: Final = "label"
_ZERO: Final = frozenset({"0", "0.0", "False", "false"})
_ONE: Final = frozenset({"1", "1.0", "True", "true"})
_MIN: Final = 2


@dataclass(frozen=True)
class OneHot:
    """The rows of a one-hot table.

    Attributes:
        rows: those with a single 1, by line, with a column `label` that names its class.
        wrong: the classes of the other rows, by line.
        classes: of all columns, whether or not an image is of them.
    """

    rows: dict[int, Row]
    wrong: dict[int, tuple[str, ...]]
    classes: tuple[str, ...]


def one_hot(rows: Mapping[int, Row], names: Mapping[str, str], columns: Sequence[str]) -> OneHot | None:
    """A table with a column for each class; None for a table with other cells.

    Args:
        rows: by line.
        names: the columns as they are written, by their names in `rows`.
        columns: those that may be classes, by their names in `rows`.
    """
    classes = [name for name in columns if name]
    cells = {row.get(name, "") for row in rows.values() for name in classes}
    if len(classes) < _MIN or not rows or not cells <= _ZERO | _ONE:
        return None
    found = {line: tuple(names[name] for name in classes if row[name] in _ONE) for line, row in rows.items()}
    return OneHot(
        {line: {**rows[line], LABEL: ones[0]} for line, ones in found.items() if len(ones) == 1},
        {line: ones for line, ones in found.items() if len(ones) != 1},
        tuple(names[name] for name in classes),
    )

"""Dice of whole volumes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def dice(found: NDArray[np.uint8], true: NDArray[np.uint8], classes: int) -> list[float | None]:
    """The Dice coefficient of every class but 0, the background: 2 |A and B| / (|A| + |B|); None where neither has it.

    Args:
        found: ids.
        true: ids of the same shape.
        classes: their number, background included.
    """
    scores: list[float | None] = []
    for label in range(1, classes):
        mine, theirs = found == label, true == label
        total = int(mine.sum()) + int(theirs.sum())
        scores.append(2 * int(np.logical_and(mine, theirs).sum()) / total if total else None)
    return scores

"""A batch as an image grid: what the network is given."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import numpy as np
from numpy.typing import NDArray

from penstock.feed import Batch
from penstock.images import drawing
from penstock.tasks import Task

_TILE: Final = 320  # pixels of the longer side of a drawn sample
_DRAWN: Final = 16  # samples


def batch_sheet(task: Task, batch: Batch, suspects: Collection[str] = ()) -> NDArray[np.uint8]:
    """Up to 16 samples of a rank's slice, with their labels and origins: uint8 RGB (height, width, 3).

    Args:
        task: draws them.
        batch: its padding is left out.
        suspects: origins of samples that come first, marked as not finite.
    """
    seen = task.drawing.seen(task.mask_padding(batch.tensors, batch.weight))
    rows = [row for row, weight in enumerate(batch.weight.tolist()) if weight]
    rows.sort(key=lambda row: batch.origins[row] not in suspects)
    tiles = []
    for row in rows[:_DRAWN]:
        arrays = {name: tensor[row].numpy() for name, tensor in seen.items()}
        tile = drawing.fit(task.drawing.draw(arrays), _TILE)
        origin = batch.origins[row]
        mark = "NOT FINITE: " if origin in suspects else ""
        for line in (*task.drawing.words(arrays), mark + origin):
            tile = drawing.caption(tile, line)
        tiles.append(tile)
    return drawing.sheet(tiles)

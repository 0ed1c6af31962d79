from __future__ import annotations

from support.training import recipe

from penstock.assembly import open_run
from penstock.hooks.drawn import batch_sheet
from penstock.training import train


def test_padding_is_not_drawn(packed, tmp_path):
    folder, _ = train(recipe(packed.folder, steps=1), tmp_path)
    parts = open_run(folder.path)
    batch = next(iter(parts.training_feed().batches()))
    whole = batch_sheet(parts.task, batch)
    batch.weight[1:] = 0

    assert batch_sheet(parts.task, batch).shape[0] < whole.shape[0]

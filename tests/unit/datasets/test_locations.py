from __future__ import annotations

from support.training import recipe

from penstock.config import apply


def test_shards_are_shuffled_globally_where_the_shuffle_is_left_open(packed):
    from penstock.assembly import chosen_shuffle

    data = chosen_shuffle(apply(recipe(packed.folder), ["data.block=0", "data.shuffle_window=7"])).data

    assert (data.block, data.shuffle_window) == (1, 1)

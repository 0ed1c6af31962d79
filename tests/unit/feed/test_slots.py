from __future__ import annotations

import itertools

import numpy as np
import pytest
from support.feeds import feed, take
from support.training import recipe

from penstock.assembly import open_experiment


def test_padding_holds_nothing_of_older_batches():
    last = take(feed(9, 4, shuffle=None, prefetch=1).walk(), 9)[-1]

    assert last[3] == ("b#4", "", "", "")
    assert last[0]["text"][8:] == bytes(24)


def test_memory_is_used_again_once_a_batch_is_dropped():
    """Those ahead, the one at hand, and the one that is asked for meanwhile."""
    pointers = [b.tensors["text"].data_ptr() for b in itertools.islice(feed(prefetch=3).batches(), 40)]

    assert len(set(pointers)) <= 5


@pytest.mark.parametrize("keep", [lambda t: t, lambda t: t[1:], lambda t: t.numpy(), lambda t: memoryview(t.numpy())])
def test_a_batch_owns_its_memory_until_it_and_all_views_of_it_are_gone(keep):
    """All of many batches are kept, by themselves or by a view; each still holds its own samples at the end."""
    source = feed(prefetch=2, threads=2)
    kept = [(keep(b.tensors["text"]), b.weight, b.cursor.position) for b in itertools.islice(source.batches(), 12)]
    for view, weight, position in kept:
        fresh = [source[place].arrays["text"] for place in range(position - source.batch, position)]
        whole = np.stack(fresh)

        assert bytes(np.asarray(view)) == bytes(whole[-len(view) :])
        assert weight.tolist() == [1.0] * len(fresh)
    assert len(list(itertools.islice(source.batches(), 9))) == 9


def test_a_batch_is_its_owners_for_as_long_as_it_is_kept(packed):
    feed = open_experiment(recipe(packed.folder)).training_feed()
    batches = feed.batches()
    kept = [next(batches) for _ in range(12)]
    batches.close()

    for k, batch in enumerate(kept):
        for row in range(4):
            assert np.array_equal(batch.tensors["image"][row].numpy(), feed[4 * k + row].arrays["image"])

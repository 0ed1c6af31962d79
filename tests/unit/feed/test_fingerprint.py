from __future__ import annotations

import hashlib

import pytest
import torch
from support.feeds import feed

from penstock.feed import Batch, Feed, changed, fingerprint
from penstock.values import BatchSlice, Cursor


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_a_sample_is_recognised_by_a_feed_of_any_number_of_ranks(ranks):
    for start in (0, 9, 27):
        batch = next(feed(batch=9, batch_slice=BatchSlice(0, ranks)).batches(Cursor(start)))
        found = fingerprint(batch)
        assert (found["position"], found["origin"]) == (start, batch.origins[0])
        assert found["tensors"] == {
            name: hashlib.sha256(tensor[0].numpy().tobytes()).hexdigest()[:16] for name, tensor in batch.tensors.items()
        }
        assert changed(feed(batch=4), found) == []
        other = next(feed(batch=9, batch_slice=BatchSlice(0, ranks)).batches(Cursor(start + 9)))
        assert changed(feed(batch=9), {**fingerprint(other), "position": start}) == sorted(found["tensors"])


def test_every_tensor_counts():
    found = fingerprint(next(feed().batches()))
    for name in found["tensors"]:
        assert changed(feed(), {**found, "tensors": {**found["tensors"], name: "0"}}) == [name]


class Emptied(Feed):
    """A feed whose records are gone: its samples are zeros."""

    def _read(self, address):
        return None


def test_a_record_that_is_gone_is_no_other_record():
    found = fingerprint(next(feed().batches()))
    whole = feed()
    gone = Emptied(whole.plan, whole.source, whole.prepare, batch=whole.batch)

    assert gone[found["position"]].weight == 0
    assert changed(gone, found) == []


def test_nothing_is_no_sample():
    none = Batch({"x": torch.zeros(0, 2)}, torch.zeros(0), Cursor(), ())
    hole = Batch({"x": torch.zeros(2, 2)}, torch.tensor([0.0, 1.0]), Cursor(), ("", "a"))
    assert (fingerprint(none), fingerprint(hole)) == (None, None)

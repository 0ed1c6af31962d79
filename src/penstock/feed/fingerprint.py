"""Fingerprint of the first sample of a batch, to check that data, code and decoders still give the same sample."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from penstock.feed.batch import Batch
from penstock.feed.feed import Feed


def fingerprint(batch: Batch) -> dict[str, Any] | None:
    """Position, origin and a hash for each tensor of the first sample, for JSON; None without a record."""
    if not len(batch) or not batch.weight[0]:
        return None
    arrays = {name: tensor[0].numpy() for name, tensor in batch.tensors.items()}
    hashes = {name: _hash(array) for name, array in sorted(arrays.items())}
    return {"position": batch.first, "origin": batch.origins[0], "tensors": hashes}


def changed(feed: Feed, before: Mapping[str, Any]) -> list[str]:
    """The names of tensors that are not what they were when a fingerprint was taken; none where the record is gone, as
    where a topic has deleted it.

    Raises:
        PenstockError: the record cannot be read any more.
    """
    sample = feed[before["position"]]
    if not sample.weight:
        return []
    now = {name: _hash(array) for name, array in sample.arrays.items() if name in before["tensors"]}
    return [name for name, value in before["tensors"].items() if now.get(name) != value]


def _hash(array: np.ndarray[Any, Any]) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16]

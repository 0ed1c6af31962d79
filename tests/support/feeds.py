"""Feeds over records in memory."""

from __future__ import annotations

import itertools

import numpy as np

from penstock.feed import Feed, Field
from penstock.order import Plan, Shuffle
from penstock.sources import MemorySource
from penstock.values import BatchSlice


class Text:
    """A prepare without images: the payload's bytes, and one random number."""

    fields = {"text": Field((8,), "uint8"), "draw": Field((), "float64")}  # noqa: RUF012 - a constant

    def __call__(self, record, generator, out):
        if record.payload == b"bad":
            message = "no good"
            raise ZeroDivisionError(message)
        out["text"][:] = np.frombuffer(record.payload.ljust(8)[:8], np.uint8)
        out["draw"][...] = generator.uniform() if generator else -1.0


def memory(n):
    half = n // 2
    return MemorySource({"a": [b"a%d" % i for i in range(half)], "b": [b"b%d" % i for i in range(n - half)]})


def feed(n=23, batch=5, *, batch_slice=BatchSlice(), threads=2, prefetch=2, shuffle=Shuffle(3, 2), seed=1, source=None):  # noqa: B008
    source = source or memory(n)
    plan = Plan(source.snapshot(), seed, shuffle)
    return Feed(plan, source, Text(), batch=batch, batch_slice=batch_slice, threads=threads, prefetch=prefetch)


def frozen(batch):
    """All that a batch holds, as values that outlive it."""
    tensors = {name: tensor.numpy().tobytes() for name, tensor in batch.tensors.items()}
    return tensors, batch.weight.numpy().tobytes(), batch.cursor, batch.origins


def take(iterator, count):
    return [frozen(batch) for batch in itertools.islice(iterator, count)]

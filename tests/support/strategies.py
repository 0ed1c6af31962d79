"""All Hypothesis strategies."""

from __future__ import annotations

from hypothesis import strategies as st

from penstock.images.geometry import Affine
from penstock.order import Plan, Shuffle
from penstock.values import BatchSlice, Partition, Snapshot

payloads = st.binary(max_size=300)
seeds = st.integers(-(2**63), 2**63)
positions = st.integers(0, 2**50)


@st.composite
def snapshots(draw, most=200):
    """A few partitions, some empty, some that begin late, with at least one record in all."""
    sizes = draw(st.lists(st.integers(0, most), min_size=1, max_size=5).filter(sum))
    starts = draw(st.lists(st.integers(0, 50), min_size=len(sizes), max_size=len(sizes)))
    parts = [Partition(f"part-{i}", a, a + n, str(n)) for i, (a, n) in enumerate(zip(starts, sizes, strict=True))]
    return Snapshot("drawn", tuple(parts))


shuffles = st.builds(Shuffle, st.integers(1, 40), st.integers(1, 9))


@st.composite
def plans(draw):
    return Plan(draw(snapshots()), draw(seeds), draw(st.none() | shuffles))


@st.composite
def batch_slices(draw, most=8):
    of = draw(st.integers(1, most))
    return BatchSlice(draw(st.integers(0, of - 1)), of)


numbers = st.floats(-100, 100).map(lambda value: round(value, 3))
affines = st.builds(Affine, numbers, numbers, numbers, numbers, numbers, numbers)
sizes = st.tuples(st.integers(1, 60), st.integers(1, 60))
fields = st.dictionaries(
    st.text(max_size=12),
    st.binary(max_size=30)
    | st.integers(-(2**63), 2**63 - 1)
    | st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=4)
    | st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=4),
    max_size=6,
)

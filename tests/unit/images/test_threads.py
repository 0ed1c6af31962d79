from __future__ import annotations

import cv2
import pytest

from penstock.feed import Feed, Field
from penstock.images import single_threaded
from penstock.order import Plan
from penstock.sources import MemorySource


@pytest.fixture(autouse=True)
def three_threads():
    before = cv2.getNumThreads()
    cv2.setNumThreads(3)
    yield
    cv2.setNumThreads(before)


def test_opencv_has_its_threads_back_after_the_last_pool():
    with single_threaded():
        with pytest.raises(KeyError), single_threaded():
            raise KeyError
        assert cv2.getNumThreads() == 1
    assert cv2.getNumThreads() == 3


class Threads:
    """Samples that say how many threads OpenCV has."""

    def __init__(self):
        self.fields = {"count": Field((), "int64")}

    def __call__(self, record, generator, out):
        out["count"][...] = cv2.getNumThreads()


def test_opencv_computes_in_the_threads_of_a_feed():
    source = MemorySource({"p": [b""] * 6})
    batches = Feed(Plan(source.snapshot()), source, Threads(), batch=2).batches()

    assert next(batches).tensors["count"].tolist() == [1, 1]
    batches.close()
    assert cv2.getNumThreads() == 3

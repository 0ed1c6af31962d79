"""Samples that are gathered from decoded records, beside the same samples made one by one."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from dataclasses import dataclass, field, replace

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.feeds import take

from penstock.errors import LabelError
from penstock.feed import Feed
from penstock.feed.decoded import Decoded
from penstock.images.pixels import PixelFormat
from penstock.kinds.fields import ClassificationRecord, encode_classification
from penstock.order import Plan, Shuffle
from penstock.settings import Augment, Regularize
from penstock.settings.views import PadCrop, ScaleCrop
from penstock.sources import Fault, MemorySource
from penstock.tasks import PrepareClassification
from penstock.values import BatchSlice, Cursor, Partition, Record, Snapshot

COUNT, BATCH = 23, 10
_CROPS = st.sampled_from([(8, 9, 2), (9, 8, 3), (12, 12, 4), (6, 6, 0), (5, 7, 2)])
_AUGMENTS = st.builds(
    lambda crop, flip, turns: Augment(crop[:2], PadCrop(margin=crop[2]), flip=flip, alternating_flip=turns),
    _CROPS,
    st.sampled_from([0.0, 0.3, 1.0]),
    st.booleans(),
)
_REGULARIZES = st.sampled_from(
    [
        Regularize(),
        Regularize(brightness=63, contrast=(0.2, 1.8)),
        Regularize(mixup=0.4, cutmix=1.0, random_erasing=0.5),
    ]
)
_FORMATS = st.sampled_from([PixelFormat(3, 8), PixelFormat(1, 8), PixelFormat(3, 16), PixelFormat(4, 8)])


def encoded(number, size=(9, 8), pixels=PixelFormat(3, 8)):  # noqa: B008 - frozen
    """A record of an image of noise."""
    rng = np.random.default_rng(number)
    image = rng.integers(0, 1 << pixels.bits, (*size, pixels.channels), pixels.dtype)
    png = cv2.imencode(".png", image)[1].tobytes()
    return encode_classification(ClassificationRecord(png, number % 7, f"{number}.png", "png", *size))


@dataclass(frozen=True)
class OneByOne:
    """The same samples, by a prepare that gathers none."""

    prepare: PrepareClassification
    fields: dict = field(init=False)

    def __post_init__(self):
        object.__setattr__(self, "fields", self.prepare.fields)

    def __call__(self, record, generator, out):
        self.prepare(record, generator, out)


class Same:
    """One record at every offset."""

    def read(self, partition, start, stop):
        return iter([Record(f"{partition}#{start}", encoded(1))])


class Counting(MemorySource):
    """How often each record is read."""

    def __init__(self, partitions):
        super().__init__(partitions)
        self.reads = Counter()

    def read(self, partition, start, stop):
        self.reads[partition, start] += 1
        return super().read(partition, start, stop)


def prepare(augment=None, **changes):
    given = {
        "classes": 7,
        "fill": (9, 8, 7),
        "augment": augment or Augment((8, 8), PadCrop(margin=2)),
        "train": True,
    }
    return PrepareClassification(**{**given, **changes})


def feed(prepare, records=None, shuffle=Shuffle(), threads=2, **changes):  # noqa: B008 - frozen
    records = records or [encoded(number) for number in range(COUNT)]
    source = Counting({"a": records[:11], "b": records[11:]})
    return Feed(Plan(source.snapshot(), 3, shuffle), source, prepare, batch=BATCH, threads=threads, **changes)


@given(_AUGMENTS, _REGULARIZES, _FORMATS, st.booleans(), st.booleans(), st.booleans())
def test_the_samples_are_those_that_are_made_one_by_one(augment, regularize, pixels, train, random, mirrored):
    fill = None if mirrored else tuple(range(1, pixels.channels + 1))
    made = prepare(augment, train=train, regularize=regularize, pixel_format=pixels, fill=fill)
    records = [encoded(number, pixels=pixels) for number in range(COUNT)]

    assert made.gathers
    one_by_one = take(feed(OneByOne(made), records, augment=random).batches(), 5)
    assert take(feed(made, records, augment=random).batches(), 5) == one_by_one


@pytest.mark.parametrize("shuffle", [None, Shuffle(4, 2)])
@pytest.mark.parametrize("ranks", [1, 3])
def test_in_any_order_on_any_rank_and_after_any_restore(shuffle, ranks):
    made = prepare()
    for rank in range(ranks):
        part = BatchSlice(rank, ranks)
        whole = take(feed(OneByOne(made), shuffle=shuffle, batch_slice=part).batches(), 7)
        for k in range(7):
            again = feed(made, shuffle=shuffle, batch_slice=part).batches(Cursor(k * BATCH, whole[0][2].plan))
            assert take(again, 7 - k) == whole[k:]
        one_by_one = take(feed(OneByOne(made), shuffle=None, batch_slice=part).walk(), 9)
        assert take(feed(made, shuffle=None, batch_slice=part).walk(), 9) == one_by_one


def test_records_are_read_once():
    fed = feed(prepare(), threads=1)  # several may read a record at the same time
    take(fed.batches(), 12)
    take(fed.batches(Cursor(50, fed.plan.digest)), 12)

    assert fed.source.reads == {(name, offset): 1 for name, size in (("a", 11), ("b", 12)) for offset in range(size)}


def test_images_of_other_sizes_are_made_one_by_one():
    records = [encoded(number, (9, 8) if number % 5 else (10, 12)) for number in range(COUNT)]
    made = prepare()

    assert take(feed(made, records).batches(), 7) == take(feed(OneByOne(made), records).batches(), 7)


def test_where_no_two_are_of_one_size_few_are_tried():
    records = [encoded(number, (9 + number, 8)) for number in range(COUNT)]
    made = prepare()
    fed = feed(made, records)
    out = {name: np.empty((COUNT, *each.shape), each.dtype) for name, each in made.fields.items()}
    tried = []

    def read(address):
        tried.append(address)
        return next(fed.source.read(address.partition, address.offset, address.offset + 1))

    Decoded(made, fed.plan, read).gather(range(COUNT), out, augment=True)

    assert len(tried) == 10  # the first, and nine of other sizes: one more than may be
    assert take(fed.batches(), 7) == take(feed(OneByOne(made), records).batches(), 7)


def test_images_that_are_too_small_for_the_crop_are_made_one_by_one():
    made = prepare(Augment((14, 14), PadCrop(margin=2)))

    assert take(feed(made).batches(), 4) == take(feed(OneByOne(made)).batches(), 4)


def test_a_split_that_takes_too_much_memory_is_not_kept(monkeypatch):
    made = prepare()
    monkeypatch.setattr("penstock.feed.decoded.MAX_BYTES", COUNT * (13 * 12 * 3 + 8) - 1)
    fed = feed(made, threads=1)

    assert take(fed.batches(), 7) == take(feed(OneByOne(made)).batches(), 7)
    assert min(fed.source.reads.values()) > 1


def test_a_billion_records_need_no_table():
    snapshot = Snapshot("many", (Partition("a", 0, 10**9, "x"),))
    fed = Feed(Plan(snapshot, 3, Shuffle()), Same(), prepare(), batch=BATCH, threads=1)
    tracemalloc.start()
    batch = next(fed.batches())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert batch.weight.sum() == BATCH
    assert peak < 10 << 20


def test_what_is_wrong_with_a_record_is_said_where_its_batch_is_asked_for():
    records = [encoded(number) for number in range(COUNT)]
    records[19] = encode_classification(ClassificationRecord(b"", 8, "x", "png", 9, 8))
    fed = feed(prepare(), records, shuffle=None)
    batches = fed.batches()
    before = take(batches, 1)

    assert before == take(feed(OneByOne(prepare()), records, shuffle=None).batches(), 1)
    with pytest.raises(LabelError) as caught:
        next(batches)
    assert str(caught.value) == (
        "b#8: expected a class from 0 to 6, found 8. Check the classes in dataset.json, or pack the data again."
    )


def test_a_record_that_cannot_be_read_fails_as_without():
    records = [encoded(number) for number in range(COUNT)]
    records[2] = Fault(OSError(5, "Input/output error"))

    with pytest.raises(OSError, match="Input/output error") as caught:
        next(feed(prepare(), records, shuffle=None, threads=1).batches())
    assert caught.value.__notes__[0] == "while preparing a#2 (position 2)"


@pytest.mark.parametrize(
    "changes",
    [{"view": ScaleCrop()}, {"rotate": 5.0}, {"blur": 1.0}, {"noise": 2.0}, {"elastic": 1.0}, {"perspective": 0.1}],
)
def test_what_changes_pixels_is_not_gathered(changes):
    made = prepare(replace(Augment((8, 8), PadCrop(margin=2)), **changes))

    assert not made.gathers
    assert replace(made, train=False).gathers == ("view" not in changes)

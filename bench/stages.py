"""Microseconds that a sample spends in each stage of the feed, on one thread; and what one and two threads feed.

    python bench/stages.py [WORK]      the scenes of bench/feed.py, made where they are not there

Some of its workloads: (a) random resized crop to 224, image only; (b) DeepLab's random scale, crop to 513 and flip, image
and mask.
"""

from __future__ import annotations

import statistics
import sys
import time
from dataclasses import dataclass, field, replace
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import common
import feed as beside_peers
import numpy as np
import photos
from peers.samples import CLASSES, FILL, IGNORED, PREPARE

from penstock import seeds
from penstock.feed import Feed
from penstock.images import codecs, geometry, probe, single_threaded
from penstock.images.warp import warp_image, warp_mask
from penstock.kinds.labels import LabelSet
from penstock.order import Plan, Shuffle
from penstock.kinds.fields import decode_segmentation
from penstock.sources import FilesSource
from penstock.settings import Augment

SAMPLES, BATCHES, REPEATS = common.sized((400, 20, 5), (2, 1, 1))
BATCH = 16
WORKLOADS = ("a", "a, seekable", "b", "a, huge, seekable", "b, huge, seekable")
SCRATCH = codecs.Scratch()
STAGES = ("order", "read", "parse", "probe", "draw", "decode", "warp", "mask decode", "mask check", "mask warp")


@dataclass(frozen=True)
class Account:
    """The stages of samples one after the other, as `Feed` and `PrepareSegmentation` do them."""

    source: FilesSource
    plan: Plan
    augment: Augment
    masks: bool
    laps: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in STAGES})

    def sample(self, position: int) -> None:
        times = [time.perf_counter()]
        for _ in self._stages(position):
            times.append(time.perf_counter())
        for name, (begun, ended) in zip(STAGES, pairwise(times), strict=False):
            self.laps[name].append((ended - begun) * 1e6)

    def _stages(self, position: int) -> Any:
        address = self.plan.at(position)
        yield
        (record,) = self.source.read(address.partition, address.offset, address.offset + 1)
        yield
        fields = decode_segmentation(record)
        yield
        info = probe(fields.image, record.origin)
        yield
        view = self.augment.draw(info.size, seeds.generator(self.plan.seed, "augment", position, lambda: 0)).affine
        yield
        crop, step = self.augment.crop, geometry.reduction(view.shrink)
        region = view.region(crop)
        pixels = codecs.decode_image(fields.image, "", info=info, reduction=step, region=region, scratch=SCRATCH)
        yield
        warp_image(pixels, view.then(geometry.Affine(xx=1 / step, yy=1 / step)), FILL, np.empty((*crop, 3), np.uint8))
        yield
        if self.masks:
            ids = codecs.decode_mask(fields.mask, "", palette=True)
            yield
            LabelSet(CLASSES, IGNORED).check(ids, "")
            yield
            warp_mask(ids, view, IGNORED, np.empty(crop, np.uint8))
            yield


def rate(feed: Feed, threads: int) -> float:
    """Images per second, after a batch that is not counted."""
    batches = replace(feed, threads=threads).batches()
    next(batches)
    began = time.perf_counter()
    for _ in islice(batches, BATCHES):
        pass
    return BATCHES * BATCH / (time.perf_counter() - began)


def measured(work: Path, key: str) -> dict[str, Any]:
    workload = beside_peers.WORKLOADS[key]
    source, prepare = (
        FilesSource(*sorted(photos.made(work, workload.photos).glob("*.tfrecord"))),
        PREPARE[workload.task],
    )
    plan = Plan(source.snapshot(), 1, Shuffle())
    account = Account(source, plan, prepare.augment, masks=workload.task == "b")
    for position in range(SAMPLES):
        account.sample(position)
    feed = Feed(plan, source, prepare, batch=BATCH)
    rates = [(rate(feed, 1), rate(feed, 2)) for _ in range(REPEATS)]
    return {
        "what": workload.what,
        "microseconds": {name: statistics.median(laps) for name, laps in account.laps.items() if laps},
        "images_per_second": {
            f"{n + 1} thread{'s' * n}": common.summary([each[n] for each in rates]) for n in range(2)
        },
        "two_are_times_one": common.summary([two / one for one, two in rates]),
    }


def main() -> None:
    work = Path(sys.argv[1] if len(sys.argv) > 1 else "/tmp/penstock-bench-feed")
    with single_threaded():
        scenarios = {key: measured(work, key) for key in WORKLOADS}
    versions = common.versions("penstock", "opencv-python-headless", "simplejpeg", "deflate", "protobuf")
    common.write("stages", "python bench/stages.py", {"versions": versions, "samples": SAMPLES, "scenarios": scenarios})


if __name__ == "__main__":
    main()

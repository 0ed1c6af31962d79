"""Images of 32 x 32 a second, padded by 4 pixels, cropped and flipped: gathered from decoded records, and one by one.

python bench/small.py      images of noise as PNG in memory, the training split of CIFAR-10 in number
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import common
import cv2
import numpy as np

from penstock.feed import Feed, Field
from penstock.order import Plan, Shuffle
from penstock.kinds.fields import ClassificationRecord, encode_classification
from penstock.sources import MemorySource
from penstock.settings import Augment
from penstock.tasks import PrepareClassification
from penstock.settings.views import PadCrop

RECORDS, SAMPLES, REPEATS = common.sized((50_000, 200_000, 5), (40, 800, 1))
BATCHES = common.sized((128, 512), (16,))
PREPARE = PrepareClassification(10, None, Augment((32, 32), PadCrop(margin=4), border="reflect"), train=True)


@dataclass(frozen=True)
class OneByOne:
    """The same samples, of which none is gathered."""

    fields: Mapping[str, Field]

    def __call__(self, record: Any, generator: Any, out: Any) -> None:
        PREPARE(record, generator, out)


def records() -> MemorySource:
    rng = np.random.default_rng(1)
    images = (cv2.imencode(".png", rng.integers(0, 256, (32, 32, 3), np.uint8))[1].tobytes() for _ in range(RECORDS))
    made = (ClassificationRecord(data, n % 10, f"{n}.png", "png", 32, 32) for n, data in enumerate(images))
    return MemorySource({"train": [encode_classification(each) for each in made]})


def rate(feed: Feed, samples: int, unmeasured: int) -> float:
    """Images per second, after some that are not measured."""
    batches = feed.batches()
    for _ in islice(batches, unmeasured // feed.batch + 1):
        pass
    began, count = time.perf_counter(), samples // feed.batch
    for _ in islice(batches, count):
        pass
    return count * feed.batch / (time.perf_counter() - began)


def main() -> None:
    source = records()
    plan = Plan(source.snapshot(), 1, Shuffle())
    rows: dict[str, list[tuple[float, float]]] = {}
    for _ in range(REPEATS):
        for batch in BATCHES:
            for threads in (1, 2):
                gathered = Feed(plan, source, PREPARE, batch=batch, threads=threads)
                apart = replace(gathered, prepare=OneByOne(PREPARE.fields))
                both = rate(gathered, SAMPLES, RECORDS), rate(apart, SAMPLES // 20, 0)  # the first epoch decodes
                name = f"batches of {batch}, {threads} thread{'s' * (threads > 1)}"
                rows.setdefault(name, []).append(both)
    content = {
        name: {
            "gathered": common.summary([each[0] for each in found]),
            "one by one": common.summary([each[1] for each in found]),
            "ratio": common.summary([each[0] / each[1] for each in found]),
        }
        for name, found in rows.items()
    }
    versions = common.versions("penstock", "numpy")
    common.write("small", "python bench/small.py", {"versions": versions, "records": RECORDS, "rows": content})


if __name__ == "__main__":
    main()

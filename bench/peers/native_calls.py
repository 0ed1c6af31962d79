"""The ceiling: the native calls that Penstock's feed makes for each image, with the same arguments, by two threads that do
nothing else: no reading, no order, no batches.
"""

import contextlib
import glob
import threading
from concurrent.futures import ThreadPoolExecutor

import cv2
import deflate
import numpy as np
import simplejpeg
import timing
from samples import PREPARE

from penstock.feed import Feed
from penstock.order import Plan, Shuffle
from penstock.seeds import generator
from penstock.sources import FilesSource

NATIVE = (
    (simplejpeg, "decode_jpeg"),
    (deflate, "zlib_decompress"),
    *((cv2, name) for name in ("resize", "warpAffine", "flip", "transpose", "copyMakeBorder", "rectangle")),
)
cv2.setNumThreads(0)
data, task, count = timing.arguments()
calls = []
LOCAL = threading.local()


def recorded(function):
    def record(*arguments, **named):
        calls[-1].append((function, arguments, named))
        return function(*arguments, **named)

    return record


def replay(samples):
    memory = vars(LOCAL).setdefault("memory", np.empty(largest, np.uint8))
    for sample in samples:
        for function, arguments, named in sample:
            own = {"buffer": memory[: named["buffer"].size]} if "buffer" in named else {}
            with contextlib.suppress(ValueError):  # of bytes below the rows that are wanted
                function(*arguments, **named | own)
    return samples


source, prepare = FilesSource(*sorted(glob.glob(f"{data}/*.tfrecord"))), PREPARE[task]
feed = Feed(Plan(source.snapshot(), 1, Shuffle()), source, prepare, batch=timing.BATCH)
originals = [getattr(module, name) for module, name in NATIVE]
for (module, name), original in zip(NATIVE, originals, strict=True):
    setattr(module, name, recorded(original))
for position in range(min(count, 256)):
    address = feed.plan.at(position)
    (record,) = source.read(address.partition, address.offset, address.offset + 1)
    calls.append([])
    out = {name: np.empty(field.shape, field.dtype) for name, field in prepare.fields.items()}
    prepare(record, generator(1, "augment", position, lambda: 0), out)
largest = max(named["buffer"].size for sample in calls for _, _, named in sample if "buffer" in named)
with ThreadPoolExecutor(2) as pool:
    chunks = [calls[i : i + 8] for i in range(0, len(calls), 8)]
    timing.measure(lambda: pool.map(replay, chunks), count)

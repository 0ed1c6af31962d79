"""SPDL's pipeline of threads over the same images as files, with OpenCV, which lets go of the interpreter's lock."""

import glob
import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import opencv
import timing
from spdl.pipeline import PipelineBuilder

THREADS = 4
data, task, count = timing.arguments()
images = sorted(glob.glob(f"{data}/files/*.jpg"))


def load(path):
    with open(path, "rb") as image, open(path[:-3] + "png", "rb") as mask:
        return opencv.TASKS[task]((image.read(), mask.read()), random.random)


def collate(items):
    if isinstance(items[0], dict):
        return {name: np.stack([item[name] for item in items]) for name in items[0]}
    return np.stack(items)


def batches():
    order = random.sample(images, len(images))
    builder = PipelineBuilder().add_source(order).pipe(load, concurrency=THREADS).aggregate(timing.BATCH)
    pipeline = builder.pipe(collate).add_sink(4).build(num_threads=THREADS)
    with pipeline.auto_stop():
        yield from map(opencv.images_of, pipeline.get_iterator())


timing.measure(batches, count)

"""The ceiling: two threads that decode the same JPEGs from memory (and the masks in "b"), and do nothing else."""

import glob
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cv2
import numpy as np
import simplejpeg
import timing

cv2.setNumThreads(0)
data, scenario, count = timing.arguments()
paths = [Path(p) for p in sorted(glob.glob(f"{data}/files/*.jpg"))]
items = [(p.read_bytes(), p.with_suffix(".png").read_bytes()) for p in paths]


def decode(chunk):
    for image, mask in chunk:
        simplejpeg.decode_jpeg(image)
        if scenario == "b":
            cv2.imdecode(np.frombuffer(mask, np.uint8), cv2.IMREAD_UNCHANGED)
    return chunk


with ThreadPoolExecutor(2) as pool:
    chunks = [items[i : i + 8] for i in range(0, len(items), 8)]
    timing.measure(lambda: pool.map(decode, chunks), count)

"""A camera that never stops: frame after frame into a topic, at a rate that rises and falls; goes on after a kill.

camera_program.py SERVERS TOPIC DATASET REPLICAS
"""

from __future__ import annotations

import itertools
import math
import signal
import sys
import time
from pathlib import Path

from penstock.datasets import Creation, FolderDataset
from penstock.extensions.kafka import About, Publisher, TopicAddress

PARTITIONS = 3
REMEMBERED = 2000


def main():
    servers, topic, folder, replicas = sys.argv[1:]
    stop = []
    signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
    dataset = FolderDataset.open(Path(folder))
    split = dataset.split("train")
    payloads = [r.payload for shard in split.shards for r in dataset.source("train").read(shard.name, 0, shard.records)]
    about = About("segmentation", dataset.description.classes, 255, split.height, split.width)
    with Publisher(TopicAddress(servers, topic), about, creation=Creation(PARTITIONS, int(replicas))) as publisher:
        sent = publisher.recent(REMEMBERED)
        newest = max((int(name) for name in sent), default=-1)
        for frame in itertools.count(max(0, newest - REMEMBERED)):
            if stop:
                break
            if str(frame) in sent:
                continue
            publisher.send(str(frame), payloads[frame % len(payloads)])
            if frame > newest:
                time.sleep(1 / (15 + 13 * math.sin(2 * math.pi * time.time() / 180)))


main()

"""Penstock's feed."""

import glob

import timing
from samples import PREPARE

from penstock.feed import Feed
from penstock.order import Plan, Shuffle
from penstock.sources import FilesSource

data, scenario, count = timing.arguments()
source = FilesSource(*sorted(glob.glob(f"{data}/*.tfrecord")))
feed = Feed(Plan(source.snapshot(), 1, Shuffle()), source, PREPARE[scenario], batch=timing.BATCH)
timing.measure(feed.batches, count)

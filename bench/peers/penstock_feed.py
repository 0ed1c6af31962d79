"""Penstock's feed."""

import glob

import timing

from penstock.feed import Feed, Field
from penstock.images import fetch_image, probe
from penstock.order import Plan, Shuffle
from penstock.records.schema import decode_segmentation
from penstock.sources import FilesSource
from penstock.tasks import Augment, PrepareSegmentation


class ResizedCrop:
    """Random resized crop to 224 and flip, of the image alone."""

    fields = {"image": Field((224, 224, 3), "uint8")}
    augment = Augment((224, 224), method="resized-crop")

    def __call__(self, record, generator, out):
        data = decode_segmentation(record).image
        info = probe(data, record.origin)
        view = self.augment.view(info.size, generator)
        fetch_image(data, record.origin, info, view.affine, (0, 0, 0), out["image"])


data, scenario, count = timing.arguments()
source = FilesSource(*sorted(glob.glob(f"{data}/*.tfrecord")))
prepare = ResizedCrop() if scenario == "a" else PrepareSegmentation(6, 255, (124, 116, 104), Augment((513, 513)))
feed = Feed(Plan(source.snapshot(), 1, Shuffle()), source, prepare, batch=timing.BATCH)
timing.measure(feed.batches, count)

"""What Penstock makes of a record in each scenario of bench/feed.py."""

from penstock.feed import Field
from penstock.images import fetch_image, probe
from penstock.kinds.fields import decode_segmentation
from penstock.settings import Augment
from penstock.tasks import PrepareSegmentation
from penstock.settings.views import ResizedCrop

CLASSES, IGNORED, FILL = 6, 255, (124, 116, 104)


class ResizedCrop:
    """Random resized crop to 224 and flip, of the image alone."""

    fields = {"image": Field((224, 224, 3), "uint8")}
    augment = Augment((224, 224), ResizedCrop())

    def __call__(self, record, generator, out):
        data = decode_segmentation(record).image
        info = probe(data, record.origin)
        view = self.augment.draw(info.size, generator)
        fetch_image(data, record.origin, info, view.affine, (0, 0, 0), out["image"])


PREPARE = {"a": ResizedCrop(), "b": PrepareSegmentation(CLASSES, IGNORED, FILL, Augment((513, 513)))}

"""Data sets as their authors publish them.

cifar.py          CIFAR-10 and CIFAR-100 in their binary format
mnist.py          MNIST and its like in IDX files
cityscapes.py     Cityscapes, label ids to train ids
ade20k.py         ADE20K's scene parsing benchmark
camvid.py         CamVid as SegNet's authors give it
pets.py           Oxford-IIIT Pet
penn_fudan.py     Penn-Fudan
"""

from functools import partial
from typing import Final

from penstock.datasets.layouts.catalogue import KnownLayout

_published = partial(KnownLayout, rank="published")

LAYOUTS: Final = {
    "cifar10": _published(f"{__name__}.cifar:recognise_ten", "data_batch_1.bin  test_batch.bin  batches.meta.txt"),
    "cifar100": _published(f"{__name__}.cifar:recognise_hundred", "train.bin  test.bin  fine_label_names.txt"),
    "cifar100-coarse": KnownLayout(
        f"{__name__}.cifar:recognise_coarse", "train.bin  test.bin  coarse_label_names.txt", rank="last"
    ),
    "mnist": _published(f"{__name__}.mnist:recognise", "train-images-idx3-ubyte.gz  train-labels-idx1-ubyte.gz"),
    "cityscapes": _published(
        f"{__name__}.cityscapes:recognise",
        "leftImg8bit/train/CITY/a_leftImg8bit.png  gtFine/train/CITY/a_gtFine_labelIds.png",
    ),
    "ade20k": _published(
        f"{__name__}.ade20k:recognise", "images/training/a.jpg  annotations/training/a.png  objectInfo150.txt"
    ),
    "camvid": _published(f"{__name__}.camvid:recognise", "train/a.png  trainannot/a.png  val/b.png  valannot/b.png"),
    "oxford-pets": _published(
        f"{__name__}.pets:recognise",
        "images/a_1.jpg  annotations/trainval.txt  annotations/trimaps/a_1.png  annotations/xmls/a_1.xml",
    ),
    "penn-fudan": _published(f"{__name__}.penn_fudan:recognise", "PNGImages/a.png  PedMasks/a_mask.png"),
}
"""The layouts that it brings, by name."""

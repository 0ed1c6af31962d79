"""Data sets as their authors publish them.

cifar.py          CIFAR-10 and CIFAR-100 in their binary format
mnist.py          MNIST and its like in IDX files
cityscapes.py     Cityscapes, label ids to train ids
ade20k.py         ADE20K's scene parsing benchmark
camvid.py         CamVid as SegNet's authors give it
pets.py           Oxford-IIIT Pet
penn_fudan.py     Penn-Fudan
"""

from typing import Final

from penstock.datasets.layouts.catalogue import KnownLayout

LAYOUTS: Final = {
    "cifar10": KnownLayout(
        "penstock.extensions.datasets.cifar:recognise_ten",
        "data_batch_1.bin  test_batch.bin  batches.meta.txt",
        rank="published",
    ),
    "cifar100": KnownLayout(
        "penstock.extensions.datasets.cifar:recognise_hundred",
        "train.bin  test.bin  fine_label_names.txt",
        rank="published",
    ),
    "cifar100-coarse": KnownLayout(
        "penstock.extensions.datasets.cifar:recognise_coarse",
        "train.bin  test.bin  coarse_label_names.txt",
        rank="last",
    ),
    "mnist": KnownLayout(
        "penstock.extensions.datasets.mnist:recognise",
        "train-images-idx3-ubyte.gz  train-labels-idx1-ubyte.gz",
        rank="published",
    ),
    "cityscapes": KnownLayout(
        "penstock.extensions.datasets.cityscapes:recognise",
        "leftImg8bit/train/CITY/a_leftImg8bit.png  gtFine/train/CITY/a_gtFine_labelIds.png",
        rank="published",
    ),
    "ade20k": KnownLayout(
        "penstock.extensions.datasets.ade20k:recognise",
        "images/training/a.jpg  annotations/training/a.png  objectInfo150.txt",
        rank="published",
    ),
    "camvid": KnownLayout(
        "penstock.extensions.datasets.camvid:recognise",
        "train/a.png  trainannot/a.png  val/b.png  valannot/b.png",
        rank="published",
    ),
    "oxford-pets": KnownLayout(
        "penstock.extensions.datasets.pets:recognise",
        "images/a_1.jpg  annotations/trainval.txt  annotations/trimaps/a_1.png  annotations/xmls/a_1.xml",
        rank="published",
    ),
    "penn-fudan": KnownLayout(
        "penstock.extensions.datasets.penn_fudan:recognise",
        "PNGImages/a.png  PedMasks/a_mask.png",
        rank="published",
    ),
}
"""The layouts that it brings, by name."""

"""From a folder of raw data to records: what lies there, whether it is sound, and the packing of it.

layouts/          which layout a folder has, and why we think so: one module each
checks.py         one item at a time: sizes, ids, damage; and all together: leaks, empty classes
findings.py       what inspect found of every file, kept for pack
inspection.py     all of that, in parallel, as one report
shrinking.py      items whose images are made smaller
reencoding.py     items whose images are written anew as JPEG, with restart markers or of another quality
occurrences.py    which classes every record has
pixel_formats.py  channels and bits of the images, and the mean of their values
packing.py        a sound inspection to shards
description.py    dataset.json
bounds.py         ranges of the numbers in it
verification.py   reading every record back
locations.py      what a URI leads to: a folder, or a stream that an extension brings
unpacking.py      shards or streams to a folder of images and labels
download.py       published archives
scenes.py         made-up images with exact masks, of any size and number
class_lists.py    names of classes in a file beside the data
class_names.py    names of classes that are probably one class, or several
describing.py     what inspect and pack say of a folder of raw images, in lines
duplicates.py     images in two splits that are nearly the same
renumbering.py    records with the class ids of another dataset
layout.py         what lies in a folder
listing.py        files and folders by the names that people give them
scaling.py        items whose images have values that 16 bits cannot hold, such as floats and Hounsfield units
validation.py     which images are set aside to evaluate on
"""

from typing import TYPE_CHECKING

from penstock.lazy import names_of

if TYPE_CHECKING:
    from penstock.datasets.description import FolderDataset
    from penstock.datasets.inspection import Inspection, inspect
    from penstock.datasets.layout import Layout
    from penstock.datasets.layouts import LayoutOptions
    from penstock.datasets.locations import Creation, Dataset, Published, Stream, locate, stream_at
    from penstock.datasets.packing import PackOptions, pack
    from penstock.datasets.unpacking import Unpacked, unpack
    from penstock.datasets.verification import verify

__getattr__ = names_of(
    __name__,
    {
        "penstock.datasets.description": ("FolderDataset",),
        "penstock.datasets.inspection": ("Inspection", "inspect"),
        "penstock.datasets.layout": ("Layout",),
        "penstock.datasets.layouts": ("LayoutOptions",),
        "penstock.datasets.locations": ("Creation", "Dataset", "Published", "Stream", "locate", "stream_at"),
        "penstock.datasets.packing": ("PackOptions", "pack"),
        "penstock.datasets.unpacking": ("Unpacked", "unpack"),
        "penstock.datasets.verification": ("verify",),
    },
)

__all__ = [
    "Creation",
    "Dataset",
    "FolderDataset",
    "Inspection",
    "Layout",
    "LayoutOptions",
    "PackOptions",
    "Published",
    "Stream",
    "Unpacked",
    "inspect",
    "locate",
    "pack",
    "stream_at",
    "unpack",
    "verify",
]

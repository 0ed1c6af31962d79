"""Every layout by its name: those of the core, and those that extensions bring."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, cast, get_args

from penstock.datasets.layout import Layout
from penstock.errors import DatasetError
from penstock.extending import brought, loaded

Rank = Literal["published", "annotated", "arranged", "last"]


@dataclass(frozen=True)
class KnownLayout:
    """A layout that has a name.

    Attributes:
        place: a function of a folder, which gives its `Layout`, or None where the folder has another one. This and the
            following functions are `package.module:NAME`, and imported when a folder is looked at.
        tree: its files, as an example.
        rank: when a folder is asked for it: first what its authors have published, which is never taken for another
            layout; then what annotation tools write; then what people arrange; and last what fits many folders, which
            is not named where another one fits.
        keys: what its JSON file holds at the top, as a message says it; "" for files of another format.
        with_fields: a function of a folder and of fields or columns by what they hold, if the user may name them.
        unread: a function of a folder, which gives the error for files of its format that do not say what they hold.
    """

    place: str
    tree: str
    rank: Rank = "annotated"
    keys: str = ""
    with_fields: str = ""
    unread: str = ""

    def recognise(self, folder: Path) -> Layout | None:
        """The layout, or None where the folder has another one."""
        return cast("Layout | None", loaded(self.place)(folder))

    def recognise_fields(self, folder: Path, fields: Mapping[str, str]) -> Layout | None:
        """The layout of files whose fields or columns the user names by what they hold; None where there are none."""
        return cast("Layout | None", loaded(self.with_fields)(folder, fields)) if self.with_fields else None

    def refusal(self, folder: Path) -> DatasetError | None:
        """The error for files of its format that do not say what they hold; None where there are none."""
        return cast("DatasetError | None", loaded(self.unread)(folder)) if self.unread else None


_HOME: Final = "penstock.datasets.layouts"
_COCO: Final = "annotations/instances_train2017.json  train2017/a.jpg, or train/_annotations.coco.json  train/a.jpg"
_published, _arranged = (functools.partial(KnownLayout, rank=rank) for rank in ("published", "arranged"))
_CORE: Final = {
    "voc": _published(
        f"{_HOME}.voc:recognise_masks", "JPEGImages/a.jpg  SegmentationClass/a.png  ImageSets/Segmentation/train.txt"
    ),
    "voc-boxes": _published(
        f"{_HOME}.voc:recognise_boxes", "JPEGImages/a.jpg  Annotations/a.xml  ImageSets/Main/train.txt"
    ),
    "labelimg": KnownLayout(
        f"{_HOME}.labelimg:recognise", "images/a.jpg  annotations/a.xml, or train/a.jpg  train/a.xml"
    ),
    "coco": KnownLayout(f"{_HOME}.coco:recognise_boxes", _COCO, keys="images, annotations, categories"),
    "coco-classes": KnownLayout(f"{_HOME}.coco:recognise_classes", "annotations/labels_train.json  images/train/a.jpg"),
    "coco-masks": KnownLayout(f"{_HOME}.coco:recognise_masks", _COCO),
    "coco-instances": KnownLayout(f"{_HOME}.coco:recognise_instances", _COCO),
    "yolo": _arranged(f"{_HOME}.yolo:recognise", "images/train/a.jpg  labels/train/a.txt  data.yaml"),
    "run-lengths": _arranged(
        f"{_HOME}.run_lengths:recognise", "train.csv (ImageId,ClassId,EncodedPixels)  train_images/a.jpg"
    ),
    "run-lengths-instances": _arranged(
        f"{_HOME}.run_lengths:recognise_instances", "train.csv (ImageId,EncodedPixels)  train_images/a.jpg"
    ),
    "csv": _arranged(
        f"{_HOME}.table:recognise",
        "labels.csv (file,label,split)  images/a.jpg",
        with_fields=f"{_HOME}.table:recognise",
    ),
    "mattes": _arranged(f"{_HOME}.mattes:recognise", "images/train/a.jpg  alphas/train/a.png"),
    "numbered-masks": _arranged(
        f"{_HOME}.numbered:recognise", "images/a.tif  masks/a.tif, or a.tif  a_masks.tif, with a number for each object"
    ),
    "masks": _arranged(
        f"{_HOME}.masks:recognise",
        "images/train/a.jpg  masks/train/a.png  images/val/b.jpg  masks/val/b.png  classes.txt",
    ),
    "named-masks": _arranged(
        f"{_HOME}.named_masks:recognise", "train/a.jpg  train_masks/a_mask.png, or a.jpg  a_mask.png"
    ),
    "folders": KnownLayout(
        f"{_HOME}.folders:recognise",
        "train/cat/a.jpg  train/dog/b.jpg  val/cat/c.jpg, or cat/a.jpg  dog/b.jpg",
        rank="last",
    ),
}


@functools.cache
def layouts() -> dict[str, KnownLayout]:
    """All layouts by name, by their ranks."""
    known: dict[str, KnownLayout] = _CORE | brought("LAYOUTS")
    ranks = get_args(Rank)
    return dict(sorted(known.items(), key=lambda each: ranks.index(each[1].rank)))

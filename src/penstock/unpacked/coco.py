"""COCO JSON: https://cocodataset.org/#format-data. Predictions are written so too, with a score each."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.images import codecs
from penstock.images.geometry import Size
from penstock.unpacked.base import FolderWriter, LabelledImage, shortest


class CocoDocument:
    """Images and their objects. Ids of categories are class ids plus one, as in COCO, whose first is 1."""

    def __init__(self, classes: Sequence[str]) -> None:
        self.categories = [{"id": number, "name": name} for number, name in enumerate(classes, 1)]
        self.images: list[dict[str, Any]] = []
        self.annotations: list[dict[str, Any]] = []

    def add_image(self, file_name: str, size: Size) -> None:
        """The image to which the objects that follow belong.

        Args:
            file_name: its path, as readers look for it.
            size: of the upright image, (height, width).
        """
        number = len(self.images) + 1
        self.images.append({"id": number, "file_name": file_name, "height": size[0], "width": size[1]})

    def add_object(
        self, label: int, edges: tuple[float, float, float, float], mask: NDArray[np.bool_] | None = None, **more: float
    ) -> None:
        """An object of the image added last.

        Args:
            label: its class id.
            edges: left, top, right and bottom, in pixels of the upright image.
            mask: its pixels, bool (height, width), kept as run lengths; None where only its box is known.
            more: further keys: iscrowd, score.
        """
        left, top, right, bottom = edges
        width, height = round(right - left, 6), round(bottom - top, 6)
        found: dict[str, Any] = {
            "id": len(self.annotations) + 1,
            "image_id": len(self.images),
            "category_id": label + 1,
            "bbox": [left, top, width, height],
            "area": round(width * height, 3) if mask is None else int(mask.sum()),
            "iscrowd": 0,
            "segmentation": [] if mask is None else {"size": list(mask.shape), "counts": run_lengths(mask)},
            **more,
        }
        self.annotations.append(found)

    def encoded(self) -> str:
        """The JSON."""
        document = {"images": self.images, "annotations": self.annotations, "categories": self.categories}
        return json.dumps(document)  # in ASCII, as names of files need not be Unicode


def run_lengths(mask: NDArray[np.bool_]) -> list[int]:
    """COCO's run lengths of a bool mask (height, width): by column, background and object in turn."""
    flat = mask.ravel(order="F")
    edges = np.flatnonzero(flat[1:] != flat[:-1]) + 1
    lengths: list[int] = np.diff([0, *edges.tolist(), flat.size]).tolist()
    return [0, *lengths] if flat[0] else lengths


class CocoFolder(FolderWriter):
    """`images/SPLIT/NAME` and `annotations/instances_SPLIT.json`."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._documents: dict[str, CocoDocument] = {}

    def add(self, image: LabelledImage) -> None:
        """The image as it was packed, and its objects."""
        name = f"{self.name(image)}{image.suffix}"
        self.write(f"images/{image.split}/{name}", image.data)
        document = self._documents.setdefault(image.split, CocoDocument(self.classes))
        document.add_image(name, image.size)
        height, width = image.size
        for each in image.label:
            edges = (
                shortest(each.left, width), shortest(each.top, height),
                shortest(each.right, width), shortest(each.bottom, height),
            )  # fmt: skip
            mask = codecs.decode_mask(each.mask, image.name) > 0 if each.mask else None
            document.add_object(each.label, edges, mask, iscrowd=int(each.crowd))
            self.lost["objects marked as difficult"] += each.difficult

    def close(self) -> None:
        """A file of annotations for each split."""
        for split, document in self._documents.items():
            self.write(f"annotations/instances_{split}.json", document.encoded())

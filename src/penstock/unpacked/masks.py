"""`images/SPLIT/NAME` and `masks/SPLIT/NAME.png` with `classes.txt`, as `penstock inspect` reads them."""

from __future__ import annotations

from typing import ClassVar

from penstock.images import codecs
from penstock.unpacked.base import FolderWriter, LabelledImage


class MaskFolders(FolderWriter):
    """Class ids as gray PNGs.

    Attributes:
        beside: the folder of what lies beside the images.
        listed: whether classes.txt names the classes.
    """

    beside: ClassVar[str] = "masks"
    listed: ClassVar[bool] = True

    def add(self, image: LabelledImage) -> None:
        """The image as it was packed, and its mask, upright."""
        name = f"{image.split}/{self.name(image)}"
        self.write(f"images/{name}{image.suffix}", image.data)
        self.write(f"{self.beside}/{name}.png", codecs.encode_mask(image.label))

    def close(self) -> None:
        """classes.txt: a line for each id."""
        if self.listed:
            self.write_classes()


class MatteFolders(MaskFolders):
    """Alpha mattes as gray PNGs."""

    beside: ClassVar[str] = "alphas"
    listed: ClassVar[bool] = False

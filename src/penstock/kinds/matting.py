"""Matting: an image and an alpha matte, the foreground's part of every pixel in 255ths."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from penstock.images import ImageInfo, drawing
from penstock.kinds.base import Described
from penstock.kinds.items import InspectedItem, Labels, Problem
from penstock.kinds.masks import IDS, MaskKind, mask_name
from penstock.unpacked import MatteFolders
from penstock.values import Pixels

_WHITE: Final = 255


class MattingKind(MaskKind):
    """Every pixel of an image has a value from 0, background, to 255, foreground."""

    name = "matting"
    legend = False
    writers: ClassVar = {"masks": MatteFolders}

    def check_header(self, name: str, info: ImageInfo) -> Problem | None:
        """A matte has 8 bits."""
        if info.bits == 8:  # noqa: PLR2004 - a byte
            return None
        message = f"{name}: expected an alpha matte of 8 bits, found {info.bits} bits. Save it as an 8-bit gray PNG."
        return Problem("matte of another depth", name, message)

    def check_together(
        self, items: Sequence[InspectedItem], labels: Labels, folder: Path, *, stated: bool
    ) -> Iterator[Problem]:
        """Mattes with no value above 1 in 255: those of 0 and 1 are masks, those of nothing but 0 may be right."""
        for each in items:
            highest = max((value for value, _ in each.pixels), default=_WHITE)
            if highest > 1:
                continue
            name = mask_name(each, folder)
            found, remedy = (
                ("0 and 1", "Multiply it by 255")
                if highest
                else ("only 0", "This is right if the image shows no foreground")
            )
            message = f"{name}: expected alpha values from 0 to 255, found {found}. {remedy}."
            kind = "matte of 0 and 1" if highest else "matte without foreground"
            yield Problem(kind, name, message, fatal=highest == 1)

    def check_ids(self, ids: Pixels, described: Described, where: str) -> None:
        """Every byte is an alpha value."""

    def count(self, items: Sequence[InspectedItem], classes: int) -> list[int]:
        """Whole pixels of background and of foreground, every pixel counted by its alpha."""
        total = np.zeros(IDS, np.int64)
        for each in items:
            for value, count in each.pixels:
                total[value] += count
        return [int(count) for count in self.pixels(total)]

    def pixels(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """Background and foreground: int64 (2,)."""
        front = round(int(values @ np.arange(IDS)) / _WHITE)
        return np.array([int(values.sum()) - front, front])

    def describe(self, items: Sequence[InspectedItem], labels: Labels) -> list[str]:
        """Pixels of background and foreground."""
        return [f"{line}, by their alpha values" for line in super().describe(items, labels)]

    def lay(self, image: Pixels, mask: Pixels, described: Described) -> Pixels:
        """Mattes as gray."""
        return drawing.gray(mask)

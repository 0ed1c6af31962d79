"""Ranges of the numbers of a description, as one may come from elsewhere; checked where it is decoded."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from penstock.images.tiff import MAX_PLANES

Count = Annotated[int, Meta(ge=0, lt=1 << 62)]
Side = Annotated[int, Meta(ge=0, lt=1 << 31)]
"""Of an image or a volume, in pixels or slices."""
LabelId = Annotated[int, Meta(ge=0, le=255)]
Channels = Annotated[int, Meta(ge=0, le=MAX_PLANES)]
Bits = Annotated[int, Meta(ge=8, le=16, multiple_of=8)]

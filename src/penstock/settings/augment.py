"""The random view and colours of a training sample."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Final, Literal

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from penstock.bounds import Count, Fraction, ascending
from penstock.images import crops, degrade, distort, geometry
from penstock.images.color import Jitter
from penstock.images.distort import Distortion
from penstock.images.geometry import Size, View
from penstock.seeds import Generator, Generators
from penstock.settings.views import AnyCrop, PadCrop, ScaleCrop
from penstock.values import Pixels

QUARTERS: Final = 4
"""Images in a mosaic."""
_MIDDLE: Final = (0.25, 0.75)
"""Where the four parts of a mosaic meet, as fractions of the sides."""


@dataclass(frozen=True)
class Augment:
    """What training does to an image. Draws are made in a fixed order, so a seed means the same for ever.

    Attributes:
        crop: Size of the training crop, (height, width) in pixels.
        view: What of an image fills the crop.
        resize_range: Resize images before the random scale: the shorter side to the first number, but the longer side
            to at most the second. Detectors resize in evaluation and prediction too; masks are evaluated and predicted
            at the size of the image.
        border: Padding around the image for classifiers: "fill" with a pixel that normalises to 0, or "reflect".
        flip: Probability of a horizontal flip. For volumes: of a flip along each axis.
        alternating_flip: In place of `flip`: in the first epoch flip a random half of the images, and in each later
            epoch those that were not flipped in the epoch before (Jordan 2024, arXiv:2404.00498). Not for volumes.
        rotate: Largest rotation in degrees, in either direction.
        jitter: Colour jitter.
        mosaic: Probability of a mosaic: four random views, of the image and of three others of the batch, at half the
            scale, fill the quarters of a sample around a random point.
        perspective: Largest perspective distortion: how far the corners of a sample move inwards, as a fraction of half
            of its sides. What lies outside is filled.
        elastic: Largest elastic distortion in pixels: points of a sample that are 32 pixels apart move along each axis
            by up to this, at most 16, and what lies between them moves smoothly.
        blur: Largest standard deviation of a Gaussian blur, in pixels; each image draws its own from 0 to this.
        noise: Largest standard deviation of normal noise, on the scale of 0 to 255; each image draws its own.
        min_visibility: Smallest fraction of the area of a box that must be inside the crop. Other boxes are dropped, as
            are boxes whose clipped width or height is below one pixel.
        slices: Depth of a training patch of a volume, in slices.
    """

    crop: tuple[Count, Count] = (512, 512)
    view: AnyCrop = field(default_factory=ScaleCrop)
    resize_range: Annotated[tuple[int, int], ascending(100_000)] | None = None
    border: Literal["fill", "reflect"] = "fill"
    flip: Fraction = 0.5
    alternating_flip: bool = False
    rotate: Annotated[float, Meta(ge=0, le=180)] = 0.0
    jitter: Jitter = field(default_factory=Jitter)
    mosaic: Fraction = 0.0
    perspective: Fraction = 0.0
    elastic: Annotated[float, Meta(ge=0, le=16)] = 0.0
    blur: Annotated[float, Meta(ge=0, le=100)] = 0.0
    noise: Annotated[float, Meta(ge=0, le=255)] = 0.0
    min_visibility: Fraction = 0.25
    slices: Count = 32

    def draw(self, source: Size, generator: Generator) -> View:
        """Draw what of an upright image of size `source` fills the crop."""
        view = self.view.draw(source, self.crop, self.fitted(source)[0] / source[0], generator)
        if generator.turn % 2 if self.alternating_flip else self.flip and generator.chance(self.flip):
            view = geometry.flip(view)
        if self.rotate:
            view = geometry.rotate(view, generator.uniform(-self.rotate, self.rotate))
        return view

    def partners(self, generator: Generator) -> int:
        """How many other records a sample is made of: three for a mosaic, of which a crop of a pixel has no room."""
        if min(self.crop) < 2:  # noqa: PLR2004 - parts along a side
            return 0
        return QUARTERS - 1 if self.mosaic and generator.chance(self.mosaic) else 0

    def quarters(self, generator: Generator) -> list[tuple[slice, slice]]:
        """Draw how the crop is divided into the four parts of a mosaic: slices of rows and columns."""
        y, x = (max(1, min(side - 1, round(side * generator.uniform(*_MIDDLE)))) for side in self.crop)
        rows, columns = (slice(0, y), slice(y, self.crop[0])), (slice(0, x), slice(x, self.crop[1]))
        return [(row, column) for row in rows for column in columns]

    def within(self, size: Size) -> Augment:
        """What fills a part of a mosaic, (height, width): the same at half the scale."""
        return replace(self, crop=size, view=self.view.halved())

    def distortion(self, generator: Generator, size: Size) -> Distortion | None:
        """Draw how a sample of a (height, width) is distorted; None where it is not."""
        return distort.draw(generator, size, self.perspective, self.elastic)

    def degrade(self, pixels: Pixels, generator: Generator) -> None:
        """Blur a sample, uint8 (height, width, channels), and add noise to it, in place."""
        if self.blur:
            degrade.blur(pixels, generator.uniform(0, self.blur))
        if self.noise:
            degrade.add_noise(pixels, generator.uniform(0, self.noise), generator.bits())

    def fitted(self, source: Size) -> Size:
        """The size of an image once it is brought to `resize_range`."""
        return geometry.fit_range(source, *self.resize_range) if self.resize_range else source

    def middle(self, source: Size) -> View:
        """What a classifier is shown of an upright image of size `source` when it is evaluated."""
        return self.view.middle(source, self.crop)

    @property
    def margin(self) -> int:
        """The padding around images whose pixels are shown as they are."""
        return self.view.margin if isinstance(self.view, PadCrop) else 0

    @property
    def crops_only(self) -> bool:
        """Whether a sample is pixels of the image as they are, moved and perhaps mirrored."""
        warped = self.rotate or self.perspective or self.elastic or self.mosaic
        return isinstance(self.view, PadCrop) and not (warped or self.blur or self.noise or self.jitter != Jitter())

    def covers(self, source: Size) -> bool:
        """Whether `crops` can show images of a size."""
        inside = all(crop <= side + 2 * self.margin for crop, side in zip(self.crop, source, strict=True))
        return inside and 2 * self.margin < min(self.crop) and self.margin < min(source)

    def crops(self, padded: NDArray[Any], chosen: NDArray[np.int64], generators: Generators | None) -> NDArray[Any]:
        """What `draw` shows of some upright images of one size, where `crops_only`; or `middle`, without `generators`.

        Args:
            padded: (images, height, width, channels), with their margins.
            chosen: which of them, (n,).
            generators: of the samples.

        Returns:
            (n, height, width, channels).
        """
        half = np.full(len(chosen), 0.5)
        at = (generators.uniform(), generators.uniform()) if generators else (half, half)
        shown = crops.crops(padded, chosen, self.crop, at)
        if generators and (self.alternating_flip or self.flip):
            flipped = generators.turns % 2 == 1 if self.alternating_flip else generators.chance(self.flip)
            crops.flip(shown, flipped)
        return shown

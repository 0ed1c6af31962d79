"""The random view and colours of a training sample."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from penstock.images import geometry
from penstock.images.color import Jitter

if TYPE_CHECKING:
    from penstock.images.geometry import Size, View
    from penstock.seeds import Generator


@dataclass(frozen=True)
class Augment:
    """What training does to a picture. Draws are made in a fixed order, so a seed means the same for ever.

    Attributes:
        crop: the size of what the network sees, (height, width) in pixels.
        method: "scale-crop" is DeepLab's (random scale, pad, crop); "resized-crop" is Inception's (a window of random
            area and aspect ratio); "pad-crop" moves pictures about (He et al. 2016: a margin, then a crop anywhere).
        scale: bounds of DeepLab's random scale, in output pixels per source pixel.
        scale_step: 0 draws uniformly between the bounds, else from steps of this size.
        resize_range: shorter and longer side to fit pictures to before the random scale; None leaves them. Detectors
            fit pictures to it in evaluation and prediction too; masks are scored and predicted at a picture's own size.
        margin: pixels around the picture that the crop of "pad-crop" may reach into.
        shown: what classifiers are evaluated on: the middle of the picture, this share of its shorter side; with
            "pad-crop" the crop's size instead.
        border: what classifiers are shown around the picture: "fill" is a pixel that normalises to 0, "reflect" what is
            inside, mirrored.
        area, aspect: bounds of the window of "resized-crop": share of the picture, width divided by height.
        flip: probability of mirroring left to right.
        flip_by_turns: whether a picture is mirrored in every second epoch instead, half of all pictures in the first
            (Jordan 2024, arXiv:2404.00498): any two epochs in a row show both. For pictures alone, not volumes.
        rotate: largest angle in degrees, either way.
        jitter: how far colours may move.
        kept: boxes stay where at least this share of their area is inside the crop, and both sides are at least a pixel
            of it; what is left of them is learnt, all others are dropped.
        slices: of a patch of volumes.
    """

    crop: tuple[int, int] = (512, 512)
    method: Literal["scale-crop", "resized-crop", "pad-crop"] = "scale-crop"
    scale: tuple[float, float] = (0.5, 2.0)
    scale_step: float = 0.25
    resize_range: tuple[int, int] | None = None
    margin: int = 0
    shown: float = 0.875
    border: Literal["fill", "reflect"] = "fill"
    area: tuple[float, float] = (0.08, 1.0)
    aspect: tuple[float, float] = (3 / 4, 4 / 3)
    flip: float = 0.5
    flip_by_turns: bool = False
    rotate: float = 0.0
    jitter: Jitter = field(default_factory=Jitter)
    kept: float = 0.25
    slices: int = 32

    def view(self, source: Size, generator: Generator) -> View:
        """Draw what of an upright picture of size `source` fills the crop."""
        if self.method == "resized-crop":
            view = geometry.resized_crop(source, self.crop, generator, self.area, self.aspect)
        elif self.method == "pad-crop":
            view = geometry.pad_and_crop(source, self.crop, self.margin, (generator.uniform(), generator.uniform()))
        else:
            scale = geometry.random_scale(generator, *self.scale, self.scale_step)
            scale *= self.fitted(source)[0] / source[0]
            at = generator.uniform(), generator.uniform()
            view = geometry.scale_and_crop(source, self.crop, scale, at)
        if generator.turn % 2 if self.flip_by_turns else self.flip and generator.chance(self.flip):
            view = geometry.flip(view)
        if self.rotate:
            view = geometry.rotate(view, generator.uniform(-self.rotate, self.rotate))
        return view

    def fitted(self, source: Size) -> Size:
        """The size of a picture once it is brought to `resize_range`."""
        return geometry.fit_range(source, *self.resize_range) if self.resize_range else source

    def middle(self, source: Size) -> View:
        """What a classifier is shown of an upright picture of size `source` when it is evaluated."""
        if self.method == "pad-crop":
            return geometry.pad_and_crop(source, self.crop, self.margin, (0.5, 0.5))
        return geometry.middle(source, self.crop, self.shown)

    @property
    def middle_said(self) -> str:
        """What `middle` shows, in words."""
        height, width = self.crop
        if self.method == "pad-crop":
            return f"the middle {height} x {width} pixels of a picture"
        return f"{self.shown:g} of the largest window of {height} : {width} in the middle of a picture, scaled"

"""What of an image a sample shows: one random crop of several, as a value."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Annotated, Literal, Self

from msgspec import Meta

from penstock.bounds import ascending
from penstock.images import geometry
from penstock.images.geometry import Size, View
from penstock.seeds import Generator


@dataclass(frozen=True, kw_only=True)
class RandomCrop(ABC):
    """Random crop.

    Attributes:
        name: Random crop: "scale-crop" is DeepLab's (random scale, pad, crop); "resized-crop" is Inception's (a window
            of random area and aspect ratio, resized); "pad-crop" pads by a margin and crops anywhere (He et al. 2016).
    """

    name: str

    @abstractmethod
    def draw(self, source: Size, crop: Size, fitted: float, generator: Generator) -> View:
        """Draw what of an upright image of size `source`, brought to `fitted` times that, fills a crop."""

    @abstractmethod
    def middle(self, source: Size, crop: Size) -> View:
        """What a classifier is shown of an upright image of size `source` when it is evaluated."""

    @abstractmethod
    def describe_middle(self, crop: Size) -> str:
        """What `middle` shows, in words."""

    def halved(self) -> Self:
        """The same at half the scale."""
        return self


@dataclass(frozen=True, kw_only=True)
class ResizingCrop(RandomCrop):
    """A crop whose pixels are not those of the image.

    Attributes:
        crop_pct: Evaluation of classifiers: fraction of the shorter side of the image that the center crop covers.
    """

    crop_pct: Annotated[float, Meta(gt=0, le=1)] = 0.875

    def middle(self, source: Size, crop: Size) -> View:
        """The middle of the image, resized."""
        return geometry.middle(source, crop, self.crop_pct)

    def describe_middle(self, crop: Size) -> str:
        """What `middle` shows, in words."""
        shown = f"the middle {100 * self.crop_pct:g} % of the largest centred {crop[0]}:{crop[1]} rectangle of an image"
        return f"{shown}, resized to {crop[0]} x {crop[1]}"


@dataclass(frozen=True, kw_only=True)
class ScaleCrop(ResizingCrop):
    """DeepLab's: random scale, pad, crop.

    Attributes:
        scale: Bounds of the random scale, in output pixels per source pixel.
        scale_step: Step between the random scales; 0 draws uniformly between the bounds.
    """

    name: Literal["scale-crop"] = "scale-crop"
    scale: Annotated[tuple[float, float], ascending(100)] = (0.5, 2.0)
    scale_step: Annotated[float, Meta(ge=0, le=100)] = 0.25

    def draw(self, source: Size, crop: Size, fitted: float, generator: Generator) -> View:
        """Draw a scale, and where the crop lies."""
        scale = fitted * geometry.random_scale(generator, *self.scale, self.scale_step)
        return geometry.scale_and_crop(source, crop, scale, (generator.uniform(), generator.uniform()))

    def halved(self) -> Self:
        """The same at half the scale."""
        return replace(self, scale=(self.scale[0] / 2, self.scale[1] / 2), scale_step=self.scale_step / 2)


@dataclass(frozen=True, kw_only=True)
class ResizedCrop(ResizingCrop):
    """Inception's, as torchvision's RandomResizedCrop: a window of random area and aspect ratio, resized.

    Attributes:
        scale: Bounds of the area, as a fraction of the image's.
        ratio: Bounds of width / height.
    """

    name: Literal["resized-crop"] = "resized-crop"
    scale: Annotated[tuple[float, float], ascending(1)] = (0.08, 1.0)
    ratio: Annotated[tuple[float, float], ascending(100)] = (3 / 4, 4 / 3)

    def draw(self, source: Size, crop: Size, fitted: float, generator: Generator) -> View:
        """Draw the window."""
        return geometry.resized_crop(source, crop, generator, self.scale, self.ratio)


@dataclass(frozen=True, kw_only=True)
class PadCrop(RandomCrop):
    """Pad by a margin and crop anywhere (He et al. 2016); classifiers are evaluated on the middle, unscaled.

    Attributes:
        margin: Padding in pixels.
    """

    name: Literal["pad-crop"] = "pad-crop"
    margin: Annotated[int, Meta(ge=0, le=10_000)] = 0

    def draw(self, source: Size, crop: Size, fitted: float, generator: Generator) -> View:
        """Draw where the crop lies."""
        return geometry.pad_and_crop(source, crop, self.margin, (generator.uniform(), generator.uniform()))

    def middle(self, source: Size, crop: Size) -> View:
        """The middle of the image, in its own pixels."""
        return geometry.pad_and_crop(source, crop, self.margin, (0.5, 0.5))

    def describe_middle(self, crop: Size) -> str:
        """What `middle` shows, in words."""
        return f"the middle {crop[0]} x {crop[1]} pixels of an image"


AnyCrop = ScaleCrop | ResizedCrop | PadCrop

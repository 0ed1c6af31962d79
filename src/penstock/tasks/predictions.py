"""What a model says of one image: arrays in memory, drawings, and the files that hold them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from penstock.files import write_atomically
from penstock.images import codecs, drawing
from penstock.settings.predicting import SHOWN
from penstock.unpacked import CocoDocument
from penstock.values import Pixels

NAMED: Final = 5
"""Classes of each image in a table."""

_LEGIBLE: Final = 480  # pixels of a side that words have room on; smaller images are drawn enlarged


def _scale(image: Pixels) -> int:
    """How many times larger an image is drawn, so that words can be read on it."""
    return max(1, round(_LEGIBLE / max(int(side) for side in image.shape[:2])))


def _legible(image: Pixels) -> Pixels:
    return drawing.enlarge(image, _scale(image))


def _sentence(prediction: object, image: Pixels, words: list[str], rest: str = "") -> str:
    """A prediction in a line, as `print` shows it: its arrays would fill the screen."""
    height, width = image.shape[:2]
    more = f", and {len(words) - NAMED} more" if len(words) > NAMED else ""
    named = f"{', '.join(words[:NAMED]) or 'nothing'}{more}{'; ' if rest else ''}{rest}"
    return f"<{type(prediction).__name__} of {height} x {width} pixels: {named}>"


@dataclass(frozen=True)
class Style:
    """How predictions are written and drawn.

    Attributes:
        original: the id to write for every class id; empty writes class ids.
        palette: the colours of classes: "auto" for those of the data's own legend, or else distinct ones; "distinct",
            "voc", "cityscapes" or "ade20k".
        color: whether masks are written in colour too.
        score: score above which a box is drawn.
    """

    original: tuple[int, ...] = ()
    palette: str = "auto"
    color: bool = False
    score: float = SHOWN

    def written(self, ids: Pixels) -> Pixels:
        """Class ids as they are written."""
        table = np.arange(256, dtype=np.uint8)
        table[: len(self.original)] = self.original
        return table[ids]


class Prediction(ABC):
    """What a model says of one image; a notebook shows it."""

    @abstractmethod
    def draw(self, style: Style = ...) -> Pixels:
        """The image with what is said of it: uint8 RGB (height, width, 3)."""

    def files(self, style: Style = Style()) -> Mapping[str, bytes]:
        """PNG files, by what their names have behind the image's name."""
        return {}

    def rows(self) -> list[list[str]]:
        """Rows of a table, without the image's own name."""
        return []

    def drawn(self, style: Style = Style()) -> int:
        """How many objects are drawn."""
        return 0

    def add_to(self, document: CocoDocument, file_name: str, style: Style) -> None:
        """Add an image and the objects that are drawn of it; asked of tasks with `writes_objects` alone."""
        raise NotImplementedError

    def save(self, folder: str | Path, name: str, style: Style = Style()) -> list[Path]:
        """Write its files, or the drawing where it has none, and give their paths."""
        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        written = self.files(style) or {"": codecs.encode_png(self.draw(style))}
        for suffix, data in written.items():
            write_atomically(target / f"{name}{suffix}.png", data)
        return [target / f"{name}{suffix}.png" for suffix in written]

    def _repr_png_(self) -> bytes:
        return codecs.encode_png(self.draw())


@dataclass(frozen=True)
class MaskPrediction(Prediction):
    """A class for every pixel.

    Attributes:
        image: uint8 RGB (height, width, 3).
        mask: class ids, uint8 (height, width).
        classes: the classes' names; their index is their id.
        ignore: the id that does not count, for colours.
        colors: of the classes, (red, green, blue), in the data's own legend; empty takes distinct ones.
    """

    image: Pixels
    mask: Pixels
    classes: tuple[str, ...]
    ignore: int
    colors: tuple[tuple[int, int, int], ...] = ()

    def __repr__(self) -> str:
        counts = np.bincount(self.mask.ravel(), minlength=len(self.classes))
        order = [int(i) for i in counts.argsort()[::-1] if counts[i]]
        return _sentence(self, self.image, [f"{self.classes[i]} {counts[i] / self.mask.size:.1%}" for i in order])

    def draw(self, style: Style = Style()) -> Pixels:
        """The mask in colours over the image, which keeps its own where the class is named background."""
        colors = drawing.palette_of(style.palette, self.ignore, self.colors)
        return drawing.overlay(self.image, self.mask, colors, background=drawing.background_of(self.classes))

    def files(self, style: Style = Style()) -> Mapping[str, bytes]:
        """The mask, the mask over the image and, where it is asked for, the mask in colour."""
        colors = drawing.palette_of(style.palette, self.ignore, self.colors)
        files = {"": codecs.encode_mask(style.written(self.mask)), "-overlay": codecs.encode_png(self.draw(style))}
        if style.color:
            files["-color"] = codecs.encode_png(drawing.colorize(self.mask, colors))
        return files


@dataclass(frozen=True)
class MattePrediction(Prediction):
    """An alpha value for every pixel.

    Attributes:
        image: uint8 RGB (height, width, 3).
        alpha: 0 for background to 255 for foreground, uint8 (height, width).
    """

    image: Pixels
    alpha: Pixels

    def __repr__(self) -> str:
        return _sentence(self, self.image, [f"{self.alpha.mean() / 255:.1%} foreground"])

    def draw(self, style: Style = Style()) -> Pixels:
        """The foreground over green."""
        return drawing.composed(self.image, self.alpha)

    def files(self, style: Style = Style()) -> Mapping[str, bytes]:
        """The matte, and the foreground over green."""
        return {"": codecs.encode_mask(self.alpha), "-overlay": codecs.encode_png(self.draw(style))}


@dataclass(frozen=True)
class ClassPrediction(Prediction):
    """A probability for every class.

    Attributes:
        image: uint8 RGB (height, width, 3).
        probabilities: float32 (classes,).
        classes: the classes' names; their index is their id.
    """

    image: Pixels
    probabilities: NDArray[np.float32]
    classes: tuple[str, ...]

    def __repr__(self) -> str:
        return _sentence(self, self.image, [f"{self.classes[i]} {self.probabilities[i]:.1%}" for i in self.best])

    @property
    def best(self) -> NDArray[np.int64]:
        """The ids of the most probable classes, the most probable first: int64 (up to 5,)."""
        order: NDArray[np.int64] = self.probabilities.argsort()[::-1][:NAMED]
        return order

    def draw(self, style: Style = Style()) -> Pixels:
        """The image, enlarged where it is small, above its most probable class."""
        label = int(self.best[0])
        return drawing.caption(_legible(self.image), f"{self.classes[label]} ({self.probabilities[label]:.0%})")

    def rows(self) -> list[list[str]]:
        """One row: the most probable classes with their probabilities."""
        return [[cell for i in self.best for cell in (self.classes[i], f"{self.probabilities[i]:.6f}")]]


@dataclass(frozen=True)
class BoxPrediction(Prediction):
    """Boxes with their classes and scores, the highest score first.

    Attributes:
        image: uint8 RGB (height, width, 3).
        boxes: x1, y1, x2, y2 in pixels of the image, float32 (n, 4).
        scores: float32 (n,).
        labels: class ids, int64 (n,).
        classes: the classes' names; their index is their id.
    """

    image: Pixels
    boxes: NDArray[np.float32]
    scores: NDArray[np.float32]
    labels: NDArray[np.int64]
    classes: tuple[str, ...]

    def __repr__(self) -> str:
        """Those that are drawn, and how many score too low for it: detectors give every candidate."""
        high = self.scores > SHOWN
        pairs = zip(self.labels[high].tolist(), self.scores[high].tolist(), strict=True)
        words = [f"{self.classes[label]} {score:.1%}" for label, score in pairs]
        low = len(self.scores) - len(words)
        return _sentence(self, self.image, words, f"{low:,} of {SHOWN:.0%} or less" if low else "")

    def draw(self, style: Style = Style()) -> Pixels:
        """The image, enlarged where it is small, with the boxes that score high enough."""
        sure = self.scores > style.score
        names = [self.classes[label] for label in self.labels[sure].tolist()]
        words = [f"{name} {score:.0%}" for name, score in zip(names, self.scores[sure], strict=True)]
        scale = _scale(self.image)
        return drawing.boxes(_legible(self.image), scale * self.boxes[sure], self.labels[sure], words)

    def files(self, style: Style = Style()) -> Mapping[str, bytes]:
        """The drawing."""
        return {"-boxes": codecs.encode_png(self.draw(style))}

    def rows(self) -> list[list[str]]:
        """A row for every box: class, score and edges."""
        names = [self.classes[label] for label in self.labels.tolist()]
        return [
            [name, f"{score:.6f}", *(f"{edge:.2f}" for edge in box)]
            for name, score, box in zip(names, self.scores.tolist(), self.boxes.tolist(), strict=True)
        ]

    def drawn(self, style: Style = Style()) -> int:
        """The boxes that score high enough."""
        return int((self.scores > style.score).sum())

    def add_to(self, document: CocoDocument, file_name: str, style: Style) -> None:
        """Add the image and the boxes that score high enough, with their scores."""
        document.add_image(file_name, (self.image.shape[0], self.image.shape[1]))
        for i in np.flatnonzero(self.scores > style.score).tolist():
            left, top, right, bottom = (round(edge, 2) for edge in self.boxes[i].tolist())
            score = round(float(self.scores[i]), 6)
            document.add_object(int(self.labels[i]), (left, top, right, bottom), self._mask(i), score=score)

    def _mask(self, number: int) -> NDArray[np.bool_] | None:
        return None


@dataclass(frozen=True, repr=False)  # its own would be that of its arrays
class InstancePrediction(BoxPrediction):
    """Objects with their pixels, classes and scores, the highest score first.

    Attributes:
        masks: the pixels of each object, bool (n, height, width).
    """

    masks: NDArray[np.bool_]

    def _mask(self, number: int) -> NDArray[np.bool_]:
        mask: NDArray[np.bool_] = self.masks[number]
        return mask

    def draw(self, style: Style = Style()) -> Pixels:
        """The image, enlarged where it is small, with the objects that score high enough; better ones lie on top."""
        sure = np.flatnonzero(self.scores > style.score)[::-1]
        scale = _scale(self.image)
        masks = [drawing.enlarge(self.masks[i], scale) for i in sure]
        words = [f"{self.classes[self.labels[i]]} {self.scores[i]:.0%}" for i in sure]
        labels = self.labels[sure].tolist()
        return drawing.instances(_legible(self.image), masks, labels, words, classes=len(self.classes))

    def numbers(self, style: Style = Style()) -> Pixels:
        """Numbers of objects for each pixel, uint8 (height, width), from 1 by score; 0 where scores are too low."""
        numbers = np.zeros(self.image.shape[:2], np.uint8)
        for i in np.flatnonzero(self.scores > style.score)[::-1]:
            numbers[self.masks[i]] = i + 1
        return numbers

    def files(self, style: Style = Style()) -> Mapping[str, bytes]:
        """The numbers of the objects, and the drawing."""
        return {"": codecs.encode_mask(self.numbers(style)), "-instances": codecs.encode_png(self.draw(style))}

    def rows(self) -> list[list[str]]:
        """A row for every object: class, score, the edges of its box, and its number."""
        return [[*row, str(number)] for number, row in enumerate(super().rows(), 1)]

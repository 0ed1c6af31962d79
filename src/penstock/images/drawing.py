"""Images for people: coloured masks, overlays, captions, image grids. All take and give uint8 RGB."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from itertools import accumulate
from typing import Final, NamedTuple, TypeVar

import cv2
import numpy as np
from numpy.typing import NDArray

from penstock.images import geometry, palettes
from penstock.values import Pixels

Color = tuple[int, int, int]

T = TypeVar("T", bound=np.generic)

_FONT: Final = cv2.FONT_HERSHEY_SIMPLEX
_WHITE: Final = (255, 255, 255)
_DISTINCT: Final = (  # slate for class 0, which mostly is the background
    (60, 70, 80), (230, 25, 75), (60, 180, 75), (255, 225, 25), (67, 99, 216),
    (245, 130, 49), (145, 30, 180), (66, 212, 244), (240, 50, 230), (191, 239, 69),
    (250, 190, 212), (70, 153, 144), (220, 190, 255), (154, 99, 36), (255, 250, 200),
    (128, 0, 0), (170, 255, 195), (128, 128, 0), (255, 216, 177), (0, 0, 117),
)  # fmt: skip
_BRIGHT: Final = 140  # luma above which black is read better than white
OBJECTS: Final = -1
"""The ignored id of what are objects, as `palette` takes it."""
_GREEN: Final = (0, 177, 64)
_RED: Final = (255, 40, 40)
_BAR: Final = 18
_GAP: Final = 6
_LETTER: Final = 7  # pixels at most
_MIN_LETTERS: Final = 4  # of a line, however narrow the image is
_LINES: Final = 3
_FEW_OBJECTS: Final = 20  # in an image, of which all have their word


def palette_of(name: str, ignore: int, own: Sequence[Color] = ()) -> Pixels:
    """256 colours (256, 3): "distinct", those of "voc", "cityscapes" or "ade20k", or with "auto" the data's own."""
    if name in {"auto", "distinct"}:
        return palette(ignore, own if name == "auto" else ())
    if name == "voc":
        return _spread(np.arange(256))
    published = palettes.ADE20K if name == "ade20k" else palettes.CITYSCAPES
    colors = np.zeros((256, 3), np.uint8)
    colors[: len(published)] = published
    return colors


def palette(ignore: int = 255, own: Sequence[Color] = ()) -> Pixels:
    """256 colours to look at, shape (256, 3): twenty that are told apart at a glance, then Pascal VOC's (bits of the
    id spread over the channels).

    Args:
        ignore: the ignored id, which is white; below 0 for objects, of which none is background: the first is red.
        own: colours for the first ids instead, red, green and blue from 0 to 255.
    """
    colors = _spread(np.arange(256))
    distinct = _DISTINCT if ignore >= 0 else _DISTINCT[1:]
    colors[: len(distinct)] = distinct
    if ignore >= 0:
        colors[ignore] = 255
    if own:
        colors[: len(own)] = own
    return colors


def gray(values: Pixels) -> Pixels:
    """Values 0 to 255, shape (height, width), from black to white."""
    return np.repeat(values[..., np.newaxis], 3, axis=2)


def composed(image: Pixels, alpha: Pixels) -> Pixels:
    """An image laid over green by its alpha, 0 to 255 of shape (height, width)."""
    opacity = alpha[..., np.newaxis].astype(np.float32) / 255
    laid: Pixels = (image * opacity + np.array(_GREEN, np.float32) * (1 - opacity)).round().astype(np.uint8)
    return laid


def _spread(ids: NDArray[np.int64]) -> Pixels:
    """PASCAL VOC devkit, VOClabelcolormap.m."""
    colors = np.zeros((len(ids), 3), np.uint8)
    for bit in range(8):
        for channel in range(3):
            colors[:, channel] |= ((ids >> channel & 1) << (7 - bit)).astype(np.uint8)
        ids = ids >> 3
    return colors


def colorize(ids: Pixels, colors: Pixels) -> Pixels:
    """A mask of ids, shape (height, width), in colour."""
    return colors[ids]


def background_of(names: Sequence[str]) -> int | None:
    """The id of the class that is named background, in capitals or not; None if no class is."""
    lower = [name.lower() for name in names]
    return lower.index("background") if "background" in lower else None


def overlay(
    image: Pixels, ids: Pixels, colors: Pixels, opacity: float = 0.5, *, background: int | None = None
) -> Pixels:
    """A mask laid over its image, with an edge in the full colour of its class around every region.

    The image is made gray first: a class then has one hue everywhere, the one in the legend. Only pixels of the id
    `background` stay as they are.
    """
    gray = cv2.cvtColor(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), cv2.COLOR_GRAY2RGB)
    mixed = cv2.addWeighted(gray, 1 - opacity, colorize(ids, colors), opacity, 0)
    edges, across, down = np.zeros(ids.shape, bool), ids[:, 1:] != ids[:, :-1], ids[1:] != ids[:-1]
    edges[:, 1:] |= across
    edges[:, :-1] |= across
    edges[1:] |= down
    edges[:-1] |= down
    mixed[edges] = colorize(ids[edges], colors)
    if background is not None:
        mixed[ids == background] = image[ids == background]
    return np.asarray(mixed, np.uint8)


def errors(image: Pixels, wrong: NDArray[np.bool_]) -> Pixels:
    """An image in dark gray, with its wrong pixels in red."""
    dark = gray(np.asarray(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY) // 2, np.uint8))
    dark[wrong] = _RED
    return dark


def boxes(image: Pixels, edges: NDArray[np.float32], labels: NDArray[np.int64], words: Sequence[str] = ()) -> Pixels:
    """An image with boxes on it in the colours of their classes, each with a word above it, or inside at the top.

    Args:
        image: what they are drawn on.
        edges: (n, 4), as x1, y1, x2, y2, in pixels.
        labels: their class ids, (n,).
        words: one for each, or none.
    """
    drawn, colors = image.copy(), palette(OBJECTS)
    places = edges.round().astype(int).tolist()
    inks = [[int(value) for value in colors[label % len(colors)]] for label in labels.tolist()]
    for box, color in zip(places, inks, strict=True):
        cv2.rectangle(drawn, box[:2], box[2:], color, 2)
    taken: list[_Rectangle] = []
    for word, box, color in zip(words, places, inks, strict=False):
        taken.append(_tag(drawn, word, box[0], box[1], color, taken))
    return drawn


def instances(
    image: Pixels, masks: Sequence[NDArray[np.bool_]], labels: Sequence[int], words: Sequence[str] = (), *, classes: int
) -> Pixels:
    """An image with objects in the colours of their classes, or each in its own colour if there is one class alone.
    Each has a white outline and a word at its top left corner. Of many objects, those that are narrower than their word
    have none.

    Args:
        image: what they are drawn on.
        masks: which pixels of the image are each object's, (height, width); later ones lie on top.
        labels: their class ids.
        words: one for each, or none.
        classes: how many classes there are.
    """
    drawn, colors = image.copy(), palette(OBJECTS)
    hues = range(len(masks)) if classes == 1 else labels
    for mask, hue in zip(masks, hues, strict=True):
        color = colors[hue % len(colors)]
        drawn[mask] = ((drawn[mask].astype(np.uint16) + color) // 2).astype(np.uint8)
        outlines, _ = cv2.findContours(mask.astype(np.uint8), cv2.RETR_LIST, cv2.CHAIN_APPROX_NONE)
        cv2.drawContours(drawn, outlines, -1, _WHITE, 1)
    taken: list[_Rectangle] = []
    for mask, hue, word in zip(masks, hues, words, strict=False):
        if mask.any():
            left, top, right, _ = geometry.edges_of(mask)
            if len(masks) > _FEW_OBJECTS and cv2.getTextSize(word, _FONT, 0.4, 1)[0][0] > right - left:
                continue
            taken.append(_tag(drawn, word, int(left), int(top), colors[hue % len(colors)].tolist(), taken))
    return drawn


class _Rectangle(NamedTuple):
    """Where a word is written, in pixels."""

    left: int
    top: int
    right: int
    bottom: int

    def meets(self, other: _Rectangle) -> bool:
        beside = self.right < other.left or other.right < self.left
        return not beside and self.top <= other.bottom and other.top <= self.bottom


def _tag(
    image: Pixels, text: str, left: int, bottom: int, color: Sequence[int], taken: Sequence[_Rectangle]
) -> _Rectangle:
    """A word on a ground of a colour, moved to where it is all to be seen and hides no other word, and its place."""
    (width, height), base = cv2.getTextSize(text, _FONT, 0.4, 1)
    x = max(0, min(left - 1, image.shape[1] - width - 4))
    y = max(height + base + 2, bottom)
    place = _Rectangle(x, y - height - base - 2, x + width + 3, y)
    lower = place
    while any(lower.meets(other) for other in taken) and lower.bottom < image.shape[0]:
        down = max(other.bottom for other in taken if lower.meets(other)) + 1 - lower.top
        lower = _Rectangle(lower.left, lower.top + down, lower.right, lower.bottom + down)
    place = lower if lower.bottom < image.shape[0] else place  # where there is no room, words may overlap
    cv2.rectangle(image, place[:2], place[2:], color, cv2.FILLED)
    bright = float(np.dot(color, (0.299, 0.587, 0.114))) > _BRIGHT
    cv2.putText(image, text, (x + 2, place.bottom - base), _FONT, 0.4, (0, 0, 0) if bright else _WHITE, 1, cv2.LINE_AA)
    return place


def enlarge(image: NDArray[T], scale: int) -> NDArray[T]:
    """The image, or a mask, with every pixel a square of `scale` x `scale`."""
    return np.ascontiguousarray(image.repeat(scale, axis=0).repeat(scale, axis=1))


def caption(image: Pixels, text: str) -> Pixels:
    """The image with a bar of text below it, in up to three lines; its end is cut off where these do not suffice."""
    letters = max(_MIN_LETTERS, image.shape[1] // _LETTER)
    lines = textwrap.wrap(text, letters, max_lines=_LINES, placeholder="...") or [""]
    bar = np.full((_BAR * len(lines), image.shape[1], 3), 32, np.uint8)
    for number, line in enumerate(lines, 1):
        cv2.putText(bar, line, (4, _BAR * number - 5), _FONT, 0.4, _WHITE, 1, cv2.LINE_AA)
    return np.vstack([image, bar])


def fit(image: Pixels, longest: int) -> Pixels:
    """The image with its longer side at most `longest` pixels; a small one is enlarged by a whole factor."""
    scale = longest / max(image.shape[:2])
    if scale >= 1:
        return enlarge(image, int(scale))
    size = max(1, round(image.shape[1] * scale)), max(1, round(image.shape[0] * scale))
    return np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA), np.uint8)


def sheet(tiles: Sequence[Pixels], columns: int = 0) -> Pixels:
    """An image grid on a light ground: each row is as high, and each column as wide, as its largest tile."""
    columns = min(len(tiles), columns or max(1, round(math.sqrt(len(tiles)))))
    rows = [tiles[start : start + columns] for start in range(0, len(tiles), columns)]
    heights = [max(tile.shape[0] for tile in row) + _GAP for row in rows]
    widths = [max(tile.shape[1] for tile in tiles[column::columns]) + _GAP for column in range(columns)]
    ground = np.full((sum(heights) + _GAP, sum(widths) + _GAP, 3), 240, np.uint8)
    for y, row in zip(accumulate(heights, initial=_GAP), rows, strict=False):
        for x, tile in zip(accumulate(widths, initial=_GAP), row, strict=False):
            ground[y : y + tile.shape[0], x : x + tile.shape[1]] = tile
    return ground


def legend(names: Sequence[str], colors: Pixels, width: int) -> Pixels:
    """The classes' colours and names, in as many rows as `width` pixels need."""
    cell = 12 + 8 * max((len(name) for name in names), default=1) + 16
    columns = max(1, width // cell)
    rows = -(-len(names) // columns)
    ground = np.full((rows * _BAR + _GAP, width, 3), 240, np.uint8)
    for number, name in enumerate(names):
        y, x = number // columns * _BAR + _GAP, number % columns * cell + _GAP
        ground[y : y + 12, x : x + 12] = colors[number % len(colors)]
        cv2.putText(ground, name, (x + 16, y + 10), _FONT, 0.4, (0, 0, 0), 1, cv2.LINE_AA)
    return ground

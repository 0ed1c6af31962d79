"""Image grids, as uint8 RGB arrays (height, width, 3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import torch
from torch import nn

from penstock import devices
from penstock.datasets import Dataset
from penstock.datasets.description import Description
from penstock.feed import Feed
from penstock.images import codecs, drawing
from penstock.kinds.fields import decode_name
from penstock.order import Plan, Shuffle
from penstock.tasks import Task
from penstock.values import Pixels, Record

_TILE: Final = 320
_HIGHEST: Final = 480  # pixels of a tile that shows one prediction
_LOOKED_AT: Final = 200


def records_sheet(dataset: Dataset, split: str, count: int, seed: int = 0) -> Pixels:
    """Records of a split as they were packed, upright, masks laid over them, with their names and origins."""
    source, described = dataset.source(split), dataset.description
    kind = described.kind
    plan = Plan(source.snapshot(), seed, Shuffle())
    tiles: list[Pixels] = []
    for position in range(len(plan)):
        if len(tiles) == count:
            break
        partition, offset = plan.at(position)
        tiles += [kind.draw(record, described) for record in source.read(partition, offset, offset + 1)]
    return _sheet(tiles, kind.legend_of(described), kind.ignored_color(described), described.colors)


def samples_sheet(task: Task, feed: Feed, positions: Sequence[int]) -> tuple[Pixels, list[str]]:
    """Exactly what the network is fed at some positions, drawn from the feed's own samples; and their records."""
    tiles, records = [], []
    samples = [feed[position] for position in positions]
    tensors = {name: torch.from_numpy(np.stack([s.arrays[name] for s in samples])) for name in samples[0].arrays}
    found = [_read(feed, position) for position in positions]
    there = torch.tensor([float(record is not None) for record in found])
    seen = task.drawing.seen(task.mask_padding(tensors, there))
    for row, (position, sample, record) in enumerate(zip(positions, samples, found, strict=True)):
        named = f"{decode_name(record)} ({record.origin})" if record else f"no record ({sample.origin})"
        arrays = {name: t[row].numpy() for name, t in seen.items()}
        drawn = drawing.fit(task.drawing.draw(arrays), 2 * _TILE)
        tiles.append(_captioned(drawn, (*task.drawing.words(arrays), f"{position}: {named}")))
        records.append(named)
    shown = task.drawing
    return _sheet(tiles, shown.legend, shown.ignore, shown.colors), records


def telling_positions(described: Description, feed: Feed, count: int) -> list[int]:
    """Sorted positions, among up to 200 evenly spread ones, that show as many classes as `count` images can."""
    spread = _evenly(len(feed.plan), _LOOKED_AT)
    found = {position: _read(feed, position) for position in spread}
    counts = {at: described.kind.measure(record, described) for at, record in found.items() if record}
    classes = {at: set(each.per_class) for at, each in counts.items()}
    spread = list(classes)
    chosen: list[int] = []
    shown: set[int] = set()
    while len(chosen) < count and len(chosen) < len(spread):
        best = max((p for p in spread if p not in chosen), key=lambda p: len(classes[p] - shown))
        if classes[best] <= shown:
            break
        chosen.append(best)
        shown |= classes[best]
    others = [position for position in spread if position not in chosen]
    chosen += [others[i] for i in _evenly(len(others), count - len(chosen))]
    return sorted(chosen)


def _evenly(total: int, count: int) -> list[int]:
    """At most `count` numbers below `total`, evenly spread."""
    count = min(count, total)
    return [i * total // count for i in range(count)]


def _read(feed: Feed, position: int) -> Record | None:
    """The record at a position; None where an offset of a topic holds none."""
    partition, offset = feed.plan.at(position)
    return next(iter(feed.source.read(partition, offset, offset + 1)), None)


@torch.inference_mode()
def predictions_sheet(
    task: Task, model: nn.Module, feed: Feed, positions: Sequence[int], device: torch.device, precision: str,
    notes: Sequence[str] = (),
) -> Pixels:  # fmt: skip
    """Image, labels and prediction in a row for each position of an evaluation feed, with its note below."""
    tiles = []
    more = dict(zip(positions, notes, strict=bool(notes)))
    for position in positions:
        sample, record = feed[position], _read(feed, position)
        if record is None:
            continue
        batch = {
            name: torch.as_tensor(np.asarray(array)).unsqueeze(0).to(device) for name, array in sample.arrays.items()
        }
        with devices.autocast(device, precision):
            outputs = model(task.inputs(batch))[0]
        drawn = task.drawing.draw(sample.arrays, outputs, record)
        drawn = drawing.fit(drawn, min(4 * _TILE, _HIGHEST * max(drawn.shape[:2]) // drawn.shape[0]))
        panels = f": {task.drawing.panels}" if task.drawing.panels else ""
        words = (*task.drawing.words(sample.arrays, outputs), f"{decode_name(record)} ({record.origin}){panels}")
        words = (*words, more[position]) if more else words
        tiles.append(_captioned(drawn, words))
    shown = task.drawing
    return _sheet(tiles, shown.legend, shown.ignore, shown.colors, columns=1 if shown.legend else 0)


def _captioned(image: Pixels, lines: Sequence[str]) -> Pixels:
    for line in lines:
        image = drawing.caption(image, line)
    return image


def _sheet(
    tiles: list[Pixels], legend: Sequence[str], ignore: int, own: Sequence[tuple[int, int, int]], columns: int = 0
) -> Pixels:
    """Tiles below the colours of the classes, where drawings have some, and of what is ignored."""
    body = drawing.sheet(tiles, columns)
    if not legend:
        return body
    colors, names = drawing.palette(ignore, own), list(legend)
    if ignore >= len(legend):
        colors[len(legend)] = colors[ignore]
        names.append("(ignored)")
    return np.vstack([drawing.legend(names, colors, body.shape[1]), body])


def encode(pixels: Pixels) -> bytes:
    """A sheet as PNG."""
    return codecs.encode_png(pixels)

"""Contact sheets, as uint8 RGB arrays (height, width, 3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from penstock import devices
from penstock.images import codecs, drawing
from penstock.images.labels import decode_ids
from penstock.images.warp import warp_mask
from penstock.order import Plan, Shuffle
from penstock.predict import read_upright
from penstock.records.schema import decode_classification, decode_segmentation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from torch import nn

    from penstock.datasets import Dataset
    from penstock.feed import Feed
    from penstock.tasks import Segmentation
    from penstock.values import Record

    Pixels = NDArray[np.uint8]

_TILE = 320


def records_sheet(dataset: Dataset, split: str, count: int, seed: int = 0) -> Pixels:
    """Records of a split as they were packed, upright, masks laid over them, with their names and origins.

    Args:
        dataset: a packed one.
        split: one of its splits.
        count: pictures at most.
        seed: chooses them; no record comes twice.
    """
    source = dataset.source(split)
    plan = Plan(source.snapshot(), seed, Shuffle())
    tiles = []
    for position in range(min(count, len(plan))):
        partition, offset = plan.at(position)
        (record,) = source.read(partition, offset, offset + 1)
        tiles.append(_tile(dataset, record))
    return _sheet(tiles, dataset.description.classes, dataset.description.ignore_label)


def _tile(dataset: Dataset, record: Record) -> Pixels:
    if dataset.description.task == "classification":
        picture = decode_classification(record)
        image = drawing.fit(read_upright(picture.image, record.origin), _TILE)
        return drawing.caption(image, f"{picture.text or picture.label}: {picture.name}")
    fields = decode_segmentation(record)
    image = read_upright(fields.image, record.origin)
    ids, upright = decode_ids(fields.mask, f"{record.origin} (mask)", image.shape[:2])
    turned = np.empty(image.shape[:2], np.uint8)
    warp_mask(ids, upright, dataset.description.ignore_label, turned)
    laid = drawing.overlay(image, turned, drawing.palette(dataset.description.ignore_label))
    pair = np.hstack([drawing.fit(image, _TILE), drawing.fit(laid, _TILE)])
    return drawing.caption(pair, f"{fields.name}  {record.origin}")


def samples_sheet(task: Segmentation, feed: Feed, positions: Sequence[int]) -> tuple[Pixels, list[str]]:
    """Exactly what the network is fed at some positions, drawn from the feed's own samples; and their origins."""
    tiles, origins = [], []
    for position in positions:
        sample = feed[position]
        tiles.append(drawing.caption(drawing.fit(task.draw(sample.arrays), 2 * _TILE), f"{position}: {sample.origin}"))
        origins.append(sample.origin)
    return _sheet(tiles, task.classes, task.ignore), origins


@torch.inference_mode()
def answers_sheet(
    task: Segmentation, model: nn.Module, feed: Feed, positions: Sequence[int], device: torch.device, precision: str
) -> Pixels:
    """Picture, labels and prediction side by side, at some positions of an evaluation feed."""
    tiles = []
    for position in positions:
        sample = feed[position]
        batch = {"image": torch.from_numpy(sample.arrays["image"]).unsqueeze(0).to(device)}
        with devices.autocast(device, precision):
            outputs = model(task.inputs(batch))
        drawn = drawing.fit(task.draw(sample.arrays, outputs[0].float()), 3 * _TILE)
        tiles.append(drawing.caption(drawn, f"{sample.origin}: picture, labels, prediction"))
    return _sheet(tiles, task.classes, task.ignore, columns=1)


def _sheet(tiles: list[Pixels], classes: Sequence[str], ignore: int, columns: int = 0) -> Pixels:
    body = drawing.sheet(tiles, columns)
    return np.vstack([drawing.legend(classes, drawing.palette(ignore), body.shape[1]), body])


def encode(pixels: Pixels) -> bytes:
    """A sheet as PNG."""
    return codecs.encode_png(pixels)

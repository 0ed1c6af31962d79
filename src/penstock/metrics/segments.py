"""Scores that look at the segments of an image and not at single pixels: boundary IoU, panoptic quality, covering."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own convention

from penstock.metrics.means import mean_of_present
from penstock.metrics.tables import percent

_WIDTH: Final = 0.02  # of a boundary, as a fraction of the diagonal (Cheng et al. 2021)
_MATCH: Final = 0.5  # overlap above which two segments are the same; no other pair can then overlap as much
_UNIT: Final = 1 << 32  # overlaps are counted in these parts, so that sums are exact
_AREA: Final = 1 << 16  # and those weighed by pixels in these


class Segments:
    """Counts what boundary IoU (Cheng et al. 2021), panoptic quality (Kirillov et al. 2019) and parsing covering (Yang
    et al. 2019) need.

    Masks tell classes, not objects, so that all pixels of a class in an image are one segment, as of what panoptic
    quality calls stuff.

    Attributes:
        counts: int64 (classes, 8), on the CPU: boundary pixels in both and in either; segments found, found wrongly and
            missed; the sum of overlaps of those found in 2**-32; pixels; the sum of pixels by overlaps in 2**-16.
    """

    def __init__(self, classes: int, ignore: int) -> None:
        self.ignore = ignore
        self.counts = torch.zeros((classes, 8), dtype=torch.int64)

    def update(self, predicted: torch.Tensor, target: torch.Tensor, sizes: torch.Tensor | None = None) -> None:
        """Count some images.

        Args:
            predicted: class ids of shape (samples, height, width).
            target: class ids of the same shape; where they are ignored, nothing counts.
            sizes: int64 (samples, 2): of what (height, width) each image fills its top left corner; None for all.
        """
        predicted = torch.where(target == self.ignore, self.ignore, predicted.to(target.dtype))
        whole = [tuple(target.shape[1:])] * len(target) if sizes is None else sizes.tolist()
        for found, true, size in zip(predicted, target, whole, strict=True):
            width = max(1, round(_WIDTH * math.hypot(*size)))
            for label in torch.bincount(torch.cat([found, true]).flatten().long()).nonzero().flatten().tolist():
                if label != self.ignore:
                    self.counts[label] += _compare(found == label, true == label, width)

    def scores(self) -> SegmentScores:
        """The scores of what has been counted."""
        return SegmentScores(tuple(tuple(row) for row in self.counts.tolist()))


def _compare(found: torch.Tensor, true: torch.Tensor, width: int) -> torch.Tensor:
    """The counts of one class in one image."""
    edges = [_boundary(mask, width) for mask in (found, true)]
    both, either = int((edges[0] & edges[1]).sum()), int((edges[0] | edges[1]).sum())
    overlap = int((found & true).sum()) / max(1, int((found | true).sum()))
    match = overlap > _MATCH
    wrong, missed = int(bool(found.any()) and not match), int(bool(true.any()) and not match)
    area = int(true.sum())
    segments = [both, either, int(match), wrong, missed, round(overlap * _UNIT) if match else 0]
    return torch.tensor([*segments, area, round(area * overlap * _AREA)])


def _boundary(mask: torch.Tensor, width: int) -> torch.Tensor:
    """The pixels of a mask within `width` pixels of its outside; beyond the edge of the image counts as outside."""
    outside = F.pad((~mask).float()[None, None], [width] * 4, value=1.0)
    near = F.max_pool2d(outside, 2 * width + 1, stride=1)[0, 0] > 0
    return mask & near


@dataclass(frozen=True)
class SegmentScores:
    """Boundary IoU, panoptic quality and covering, per class and on the mean; None of a class that nowhere occurs.

    Attributes:
        rows: the counts of every class.
    """

    rows: tuple[tuple[int, ...], ...]

    @property
    def boundary_iou(self) -> list[float | None]:
        """Boundary IoU of every class."""
        return [both / either if either else None for both, either, *_ in self.rows]

    @property
    def panoptic_quality(self) -> list[float | None]:
        """Panoptic quality of every class: sum of overlaps / (matched + half of the false and the missed segments)."""
        return [
            overlaps / _UNIT / (found + (wrong + missed) / 2) if found + wrong + missed else None
            for _, _, found, wrong, missed, overlaps, *_ in self.rows
        ]

    @property
    def covering(self) -> list[float | None]:
        """Of every class: the mean overlap of its segments, weighed by their pixels."""
        return [covered / _AREA / area if area else None for *_, area, covered in self.rows]

    def lines(self, names: Sequence[str], width: int) -> list[str]:
        """The rows of a table, for classes' names of up to a width."""
        columns = self.boundary_iou, self.panoptic_quality, self.covering
        rows = [*zip(*columns, strict=True), [mean_of_present(column) for column in columns]]
        cells = ["  ".join(percent(value) for value in row) for row in rows]
        named = zip([*names, "mean"], cells, strict=True)
        head = f"{'class':<{width}}  {'bound.':>7}  {'panopt.':>7}  {'cover.':>7}"
        return ["", head, *(f"{name:<{width}}  {row}" for name, row in named)]

    def as_json(self, names: Sequence[str]) -> dict[str, Any]:
        """Everything, for a file."""
        rows = zip(names, self.boundary_iou, self.panoptic_quality, self.covering, strict=True)
        return {
            "boundary_iou": mean_of_present(self.boundary_iou),
            "panoptic_quality": mean_of_present(self.panoptic_quality),
            "covering": mean_of_present(self.covering),
            "segments": [
                {"name": name, "boundary_iou": edge, "panoptic_quality": whole, "covering": covered}
                for name, edge, whole, covered in rows
            ],
        }

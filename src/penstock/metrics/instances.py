"""Scores of instances: mean average precision of their masks, and of the boxes around them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.metrics.boxes import DetectionScores


@dataclass(frozen=True)
class InstanceScores:
    """Average precision (Lin et al. 2014), in [0, 1].

    Attributes:
        masks: of pixels.
        boxes: of the boxes around them.
    """

    masks: DetectionScores
    boxes: DetectionScores

    def summary(self) -> dict[str, float]:
        """The scores in one line."""
        return {**self.masks.summary(), "box_map": self.boxes.summary()["map"]}

    def as_json(self) -> dict[str, Any]:
        """Everything, for a file: the scores of masks, and under `boxes` those of boxes."""
        return {**self.masks.as_json(), **self.summary(), "boxes": self.boxes.as_json()}

    def table(self) -> str:
        """A row for each class."""
        return self.masks.table(self.boxes.summary()["map"])

"""Mean average precision of boxes and of masks, as COCO counts it, by faster-coco-eval."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.errors import not_installed
from penstock.metrics.means import mean_of_present
from penstock.metrics.tables import percent, width_of


class ScoredBox(NamedTuple):
    """A box that was found, or that should be.

    Attributes:
        image: the origin of its record.
        label: its class id.
        box: left, top, width, height, in pixels of the image.
        score: of one that was found; of a true one, 1 if it is a crowd, which does not count, else 0.
        mask: its pixels as COCO's compressed run lengths; "" where they are not known.
        size: (height, width) of the mask.
    """

    image: str
    label: int
    box: tuple[float, float, float, float]
    score: float
    mask: str = ""
    size: tuple[int, int] = (0, 0)


def check_extra() -> None:
    """Check that the package that scores boxes is installed.

    Raises:
        RecipeError: faster-coco-eval is not installed.
    """
    if importlib.util.find_spec("faster_coco_eval") is None:
        remedy = "Install penstock[detect], or train without evaluation: --set data.validation=''"
        raise not_installed("Evaluating a detector", "faster-coco-eval", remedy)


@dataclass
class Boxes:
    """What was found in some images, and what should be.

    Attributes:
        images: their origins.
        true, found: the boxes.
    """

    images: list[str] = field(default_factory=list)
    true: list[ScoredBox] = field(default_factory=list)
    found: list[ScoredBox] = field(default_factory=list)

    def gather(self, gather: Callable[[Sequence[str]], list[str]]) -> None:
        """Put together what all ranks have; `gather` gives the texts of all of them."""
        own = json.dumps([self.images, self.true, self.found])
        everybody = [json.loads(text) for text in gather([own])]
        self.images = [image for each in everybody for image in each[0]]
        self.true, self.found = ([ScoredBox(*row) for each in everybody for row in each[kind]] for kind in (1, 2))

    def scores(self, names: Sequence[str], *, masks: bool = False) -> DetectionScores:
        """The scores of what was found; the same on any number of ranks, whatever the order of the images.

        Raises:
            RecipeError: faster-coco-eval is not installed.
        """
        check_extra()
        from faster_coco_eval import COCO, COCOeval_faster  # noqa: PLC0415 - an extra

        numbers = {image: number for number, image in enumerate(sorted(self.images), 1)}
        counts = [sum(each.label == label and not each.score for each in self.true) for label in range(len(names))]
        sizes = {each.image: each.size for each in (*self.true, *self.found)}
        truth = COCO(_truth(numbers, sorted(self.true), len(names), sizes))
        results = [_row(numbers, each) | {"score": each.score} for each in sorted(self.found)]
        if not results or not any(counts):
            nothing = tuple(0.0 if count else None for count in counts)
            return DetectionScores(tuple(names), tuple(counts), nothing, nothing, 0.0, len(results), ((),) * len(names))
        evaluation = COCOeval_faster(
            truth, truth.loadRes(results), "segm" if masks else "bbox", print_function=lambda *_: None
        )
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
        precision = evaluation.eval["precision"][..., 0, -1]  # thresholds, recalls, classes: all areas, 100 boxes
        recall = float(evaluation.stats_as_dict["AR_third"])
        every, half = (_per_class(precision[index], counts) for index in (slice(None), slice(0, 1)))
        curves = tuple(
            tuple(precision[0, :, label].clip(min=0).tolist()) if count else () for label, count in enumerate(counts)
        )
        return DetectionScores(tuple(names), tuple(counts), every, half, max(0.0, recall), len(results), curves)


def _truth(
    numbers: dict[str, int], true: list[ScoredBox], classes: int, sizes: dict[str, tuple[int, int]]
) -> dict[str, Any]:
    annotations = [
        _row(numbers, each) | {"id": number, "iscrowd": int(each.score), "area": each.box[2] * each.box[3]}
        for number, each in enumerate(true, 1)
    ]
    return {
        "info": {},
        "images": [
            {"id": number, "height": sizes.get(image, (0, 0))[0], "width": sizes.get(image, (0, 0))[1]}
            for image, number in numbers.items()
        ],
        "categories": [{"id": label} for label in range(classes)],
        "annotations": annotations,
    }


def _row(numbers: dict[str, int], each: ScoredBox) -> dict[str, Any]:
    row: dict[str, Any] = {"image_id": numbers[each.image], "category_id": each.label, "bbox": list(each.box)}
    if each.mask:
        row["segmentation"] = {"size": list(each.size), "counts": each.mask}
    return row


def run_lengths(pixels: NDArray[np.bool_]) -> str:
    """COCO's compressed run lengths of a mask, bool (height, width).

    Raises:
        RecipeError: faster-coco-eval is not installed.
    """
    check_extra()
    from faster_coco_eval import mask  # noqa: PLC0415 - an extra

    counts: bytes = mask.encode(np.asfortranarray(pixels, np.uint8))["counts"]
    return counts.decode()


def _per_class(precision: Any, counts: Sequence[int]) -> tuple[float | None, ...]:
    """The mean precision of every class over thresholds and recalls; None where it has no box."""
    return tuple(
        float(np.mean(precision[:, :, label].clip(min=0))) if count else None for label, count in enumerate(counts)
    )


@dataclass(frozen=True)
class DetectionScores:
    """Average precision (Lin et al. 2014), in [0, 1].

    Attributes:
        names: the classes.
        true: boxes of every class that should be found.
        every: of every class, the mean over overlaps from 0.5 to 0.95; None without a box.
        half: the same at an overlap of 0.5.
        recall: the mean fraction of boxes that are among the 100 best of their image, over the same overlaps.
        found: how many boxes were found.
        curves: of every class, the precision at recalls of 0, 0.01, ... 1 and an overlap of 0.5; empty without a box.
    """

    names: tuple[str, ...]
    true: tuple[int, ...]
    every: tuple[float | None, ...]
    half: tuple[float | None, ...]
    recall: float
    found: int
    curves: tuple[tuple[float, ...], ...]

    @property
    def absent(self) -> list[str]:
        """The classes without a box."""
        return [name for name, count in zip(self.names, self.true, strict=True) if not count]

    def summary(self) -> dict[str, float]:
        """The scores in one line."""
        return {"map": mean_of_present(self.every), "map50": mean_of_present(self.half)}

    def as_json(self) -> dict[str, Any]:
        """Everything, for a file."""
        rows = zip(self.names, self.every, self.half, self.true, self.curves, strict=True)
        return {
            **self.summary(),
            "recall": self.recall,
            "found": self.found,
            "absent": self.absent,
            "classes": [
                {"name": n, "ap": e, "ap50": h, "boxes": t, "precision_at_recall": [round(p, 4) for p in curve]}
                for n, e, h, t, curve in rows
            ],
        }

    def table(self, box_map: float | None = None) -> str:
        """A row for each class; and the mean average precision of the boxes, where the scores are those of masks."""
        width, means = width_of(self.names), self.summary()
        lines = [f"{'class':<{width}}  {'AP':>7}  {'AP50':>7}  {'boxes':>10}"]
        lines += [
            f"{name:<{width}}  {percent(every)}  {percent(half)}  {boxes:>10,}"
            for name, every, half, boxes in zip(self.names, self.every, self.half, self.true, strict=True)
        ]
        lines.append(f"{'mAP':<{width}}  {percent(means['map'])}  {percent(means['map50'])}  {self.found:>10,} found")
        lines.append(f"{'recall':<{width}}  {percent(self.recall)}")
        lines += [] if box_map is None else [f"{'mAP of boxes':<{width}}  {percent(box_map)}"]
        lines += [f"without a box, and not in the mean: {', '.join(self.absent)}"] if self.absent else []
        return "\n".join(lines)

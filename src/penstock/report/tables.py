"""Scores as text."""

from __future__ import annotations

from typing import Any


def class_table(scores: dict[str, Any]) -> str:
    """One row per class, from what `SegmentationScores.as_json` gives; a dash where a class has no score."""
    width = max(12, *(len(row["name"]) for row in scores["classes"]))
    total = sum(row["pixels"] for row in scores["classes"]) or 1
    lines = [f"{'class':<{width}}  {'IoU':>7}  {'recall':>7}  {'pixels':>14}  {'share':>6}"]
    lines += [
        f"{row['name']:<{width}}  {_percent(row['iou'])}  {_percent(row['recall'])}  {row['pixels']:>14,}  "
        f"{row['pixels'] / total:>6.1%}"
        for row in scores["classes"]
    ]
    lines.append(f"{'mean IoU':<{width}}  {_percent(scores['mean_iou'])}")
    lines.append(f"{'pixel acc.':<{width}}  {_percent(scores['pixel_accuracy'])}")
    if scores["absent"]:
        lines.append(f"neither labelled nor predicted, and not in the mean: {', '.join(scores['absent'])}")
    return "\n".join(lines)


def _percent(value: float | None) -> str:
    return f"{'-':>7}" if value is None else f"{value:>7.2%}"

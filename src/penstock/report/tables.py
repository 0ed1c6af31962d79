"""Scores as text."""

from __future__ import annotations

from typing import Any


def class_table(scores: dict[str, Any]) -> str:
    """One row per class, from what the `as_json` of a task's scores gives; a dash where a class has no score."""
    kinds = {"mean_iou": _of_pixels, "map": _of_boxes, "sad": _of_mattes, "top1": _of_images}
    table = next((table for key, table in kinds.items() if key in scores), None)
    return table(scores) if table else _of_numbers(scores)


def _of_numbers(scores: dict[str, Any]) -> str:
    """The scores of a task of somebody's own, one a line."""
    numbers = {name: value for name, value in scores.items() if isinstance(value, float) and name != "loss"}
    width = max(12, *map(len, numbers))
    return "\n".join(f"{name:<{width}}  {value:>12.6g}" for name, value in numbers.items())


def _of_mattes(scores: dict[str, Any]) -> str:
    lines = [f"{'mean absolute error':<22}  {scores['mae']:.5f}", f"{'mean squared error':<22}  {scores['mse']:.6f}"]
    lines.append(f"{'sum of differences':<22}  {scores['sad']:,.3f} thousand pixels of {scores['pixels'] / 1000:,.0f}")
    return "\n".join([*lines, f"{'IoU above a half':<22} {_percent(scores['iou'])}"])


def _of_boxes(scores: dict[str, Any]) -> str:
    width = max(12, *(len(row["name"]) for row in scores["classes"]))
    lines = [f"{'class':<{width}}  {'AP':>7}  {'AP50':>7}  {'boxes':>10}"]
    lines += [
        f"{row['name']:<{width}}  {_percent(row['ap'])}  {_percent(row['ap50'])}  {row['boxes']:>10,}"
        for row in scores["classes"]
    ]
    lines.append(
        f"{'mAP':<{width}}  {_percent(scores['map'])}  {_percent(scores['map50'])}  {scores['found']:>10,} found"
    )
    lines.append(f"{'recall':<{width}}  {_percent(scores['recall'])}")
    if "box_map" in scores:
        lines.append(f"{'mAP of boxes':<{width}}  {_percent(scores['box_map'])}")
    if scores["absent"]:
        lines.append(f"without a box, and not in the mean: {', '.join(scores['absent'])}")
    return "\n".join(lines)


def _of_images(scores: dict[str, Any]) -> str:
    width = max(12, *(len(row["name"]) for row in scores["classes"]))
    lines = [f"{'class':<{width}}  {'accuracy':>8}  {'precision':>9}  {'images':>10}"]
    lines += [
        f"{row['name']:<{width}}  {_percent(row['accuracy'], 8)}  {_percent(row['precision'], 9)}  {row['images']:>10,}"
        for row in scores["classes"]
    ]
    lines.append(f"{'top 1':<{width}}  {_percent(scores['top1'], 8)}")
    lines += [] if "top5" not in scores else [f"{'top 5':<{width}}  {_percent(scores['top5'], 8)}"]
    lines.append(f"{'calibration':<{width}}  {_percent(scores['calibration_error'], 8)} off (expected error, 15 bins)")
    if scores["absent"]:
        lines.append(f"without an image: {', '.join(scores['absent'])}")
    return "\n".join(lines)


def _of_pixels(scores: dict[str, Any]) -> str:
    width = max(12, *(len(row["name"]) for row in scores["classes"]))
    total = sum(row["pixels"] for row in scores["classes"]) or 1
    lines = [f"{'class':<{width}}  {'IoU':>7}  {'recall':>7}  {'pixels':>14}  {'fraction':>8}"]
    lines += [
        f"{row['name']:<{width}}  {_percent(row['iou'])}  {_percent(row['recall'])}  {row['pixels']:>14,}  "
        f"{row['pixels'] / total:>8.1%}"
        for row in scores["classes"]
    ]
    lines.append(f"{'mean IoU':<{width}}  {_percent(scores['mean_iou'])}")
    lines.append(f"{'pixel acc.':<{width}}  {_percent(scores['pixel_accuracy'])}")
    if "dice" in scores:
        lines += _of_cases(scores, width)
    if "segments" in scores:
        lines += _of_segments(scores, width)
    if scores["absent"]:
        lines.append(f"neither labelled nor predicted, and not in the mean: {', '.join(scores['absent'])}")
    return "\n".join(lines)


def _of_cases(scores: dict[str, Any], width: int) -> list[str]:
    lines = ["", f"{'class':<{width}}  {'Dice':>7}  {'lowest':>7}  {'cases':>14}"]
    for number, row in enumerate(scores["dice"]):
        there = sum(values[number] is not None for values in scores["cases"].values())
        lines.append(f"{row['name']:<{width}}  {_percent(row['dice'])}  {_percent(row['lowest'])}  {there:>14,}")
    return [*lines, f"{'mean Dice':<{width}}  {_percent(scores['mean_dice'])}"]


def _of_segments(scores: dict[str, Any], width: int) -> list[str]:
    lines = ["", f"{'class':<{width}}  {'bound.':>7}  {'panopt.':>7}  {'cover.':>7}"]
    names = ("boundary_iou", "panoptic_quality", "covering")
    rows = [*scores["segments"], {**scores, "name": "mean"}]
    return lines + [f"{row['name']:<{width}}  {'  '.join(_percent(row[name]) for name in names)}" for row in rows]


def _percent(value: float | None, width: int = 7) -> str:
    return f"{'-':>{width}}" if value is None else f"{value:>{width}.2%}"

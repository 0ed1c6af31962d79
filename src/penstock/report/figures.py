"""Scores of an evaluation as HTML: bars of classes, the confusion matrix, precision over recall."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from penstock.images import drawing

FOLDED: Final = 20
"""Classes up to which a list is unfolded."""

STYLE: Final = """
.bars { display: grid; grid-template-columns: minmax(5em, max-content) 1fr 4.5em; gap: 2px 8px; align-items: center }
.bars i { display: block; height: .8em; background: #2a7a8c; min-width: 1px; border-radius: 2px }
.bars b { font-weight: 400; text-align: right; font-variant-numeric: tabular-nums }
.wide { overflow-x: auto } .matrix { border-collapse: collapse; font-size: 12px }
.matrix td { width: 2.6em; min-width: 2.6em; height: 2em; text-align: center }
.matrix th { font-weight: 400; text-align: right; padding: 0 6px; white-space: nowrap }
.matrix thead th { writing-mode: vertical-rl; transform: rotate(180deg); text-align: left; padding: 6px 0 }
.curve { width: 100%; max-width: 560px } .key { display: flex; flex-wrap: wrap; gap: 2px 14px; font-size: 13px }
.key i { display: inline-block; width: 1em; height: .3em; margin-right: 5px; vertical-align: middle }
"""
"""The style sheet of these figures."""

_MAX_CELLS: Final = 100  # classes of a matrix that can still be looked at
_LISTED: Final = 10
_MIN: Final = 0.0005  # of a class; less is shown as 0.0 %
_SIDE: Final = 300  # of the plot, in pixels
_SCORES: Final = (("iou", "IoU"), ("ap", "average precision"), ("accuracy", "accuracy"))


class _Confused(NamedTuple):
    fraction: float
    true: str
    predicted: str


def figures(scores: dict[str, Any]) -> str:
    """All figures that an evaluation's scores give."""
    return class_bars(scores) + confusion(scores) + precision_recall(scores)


def class_bars(scores: dict[str, Any]) -> str:
    """A bar for the score of each class; "" where classes have none."""
    rows = scores.get("classes") or []
    key, title = next(((key, title) for key, title in _SCORES if rows and key in rows[0]), ("", ""))
    if not key:
        return ""
    bars = "".join(_bar(str(row["name"]), row[key]) for row in rows)
    title = f"Bars of {len(rows):,} classes: {title}"
    return folded(title, f'<div class="bars">{bars}</div>', is_open=len(rows) <= FOLDED)


def _bar(name: str, value: float | None) -> str:
    width, shown = (0.0, "-") if value is None else (100 * min(1.0, max(0.0, value)), f"{value:.1%}")
    return f'<span>{html.escape(name)}</span><span><i style="width:{width:.1f}%"></i></span><b>{shown}</b>'


def confusion(scores: dict[str, Any]) -> str:
    """The confusion matrix, each row divided by its sum, and which classes are confused most; "" without a matrix."""
    matrix = scores.get("confusion")
    if not matrix:
        return ""
    names = [str(row["name"]) for row in scores["classes"]]
    fractions = [[count / (sum(row) or 1) for count in row] for row in matrix]
    listed = _confused(names, fractions)
    if len(names) > _MAX_CELLS:
        return listed
    head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
    body = "".join(_row(name, names, row) for name, row in zip(names, fractions, strict=True))
    table = f'<div class="wide"><table class="matrix"><thead><tr><th></th>{head}</tr></thead>{body}</table></div>'
    about = "<p>Rows are true classes and columns predicted ones, in per cent of the row.</p>"
    return folded("Confusion matrix", about + table, is_open=len(names) <= FOLDED) + listed


def _row(name: str, names: Sequence[str], fractions: Sequence[float]) -> str:
    cells = "".join(
        f'<td title="{html.escape(f"{name} predicted as {other}: {value:.2%}")}" '
        f'style="background:rgba(42,122,140,{value:.3f})">{_rounded(value)}</td>'
        for other, value in zip(names, fractions, strict=True)
    )
    return f"<tr><th>{html.escape(name)}</th>{cells}</tr>"


def _rounded(value: float) -> str:
    """Per cent; nothing below a half."""
    return f"{100 * value:.0f}" if value >= 0.005 else ""  # noqa: PLR2004 - what rounds to 0


def _confused(names: Sequence[str], fractions: Sequence[Sequence[float]]) -> str:
    pairs = [
        _Confused(value, names[true], names[predicted])
        for true, row in enumerate(fractions)
        for predicted, value in enumerate(row)
        if true != predicted and value >= _MIN
    ]
    pairs.sort(key=lambda each: -each.fraction)
    if not pairs:
        return ""
    lines = "".join(
        f"<li>{html.escape(each.true)} predicted as {html.escape(each.predicted)}: {each.fraction:.1%}</li>"
        for each in pairs[:_LISTED]
    )
    return f"<p>Most frequent confusions, in per cent of the true class:</p><ol>{lines}</ol>"


def precision_recall(scores: dict[str, Any]) -> str:
    """Precision over recall of every class at an overlap of 0.5, as a plot; "" where there are no boxes."""
    rows = scores.get("classes") or []
    curves = [(str(row["name"]), row["precision_at_recall"]) for row in rows if row.get("precision_at_recall")]
    if not curves:
        return ""
    colors = [f"rgb({r},{g},{b})" for r, g, b in drawing.palette(drawing.OBJECTS)[: len(curves)].tolist()]
    lines = "".join(
        f'<polyline fill="none" stroke="{color}" stroke-width="1.5" points="{_points(values)}"/>'
        for color, (_, values) in zip(colors, curves, strict=False)
    )
    key = "".join(
        f'<span><i style="background:{color}"></i>{html.escape(name)}</span>'
        for color, (name, _) in zip(colors, curves, strict=False)
    )
    title = "Precision over recall at an overlap of 0.5"
    plot = f'<svg class="curve" viewBox="-46 -8 {_SIDE + 56} {_SIDE + 42}" role="img" aria-label="{title}">'
    return folded(title, f'{plot}{_axes()}{lines}</svg><div class="key">{key}</div>', is_open=True)


def _points(values: Sequence[float]) -> str:
    last = max(1, len(values) - 1)
    return " ".join(f"{i / last * _SIDE:.1f},{(1 - value) * _SIDE:.1f}" for i, value in enumerate(values))


def _axes() -> str:
    text = 'fill="currentColor" font-size="11"'
    ticks = ""
    for fraction in (0.0, 0.25, 0.5, 0.75, 1.0):
        at = fraction * _SIDE
        ticks += f'<path d="M0 {at}H{_SIDE}M{at} 0V{_SIDE}" stroke="currentColor" opacity=".15"/>'
        ticks += f'<text x="-6" y="{_SIDE - at + 4}" text-anchor="end" {text}>{fraction:g}</text>'
        ticks += f'<text x="{at}" y="{_SIDE + 15}" text-anchor="middle" {text}>{fraction:g}</text>'
    middle = _SIDE / 2
    ticks += f'<text x="{middle}" y="{_SIDE + 30}" text-anchor="middle" {text}>recall</text>'
    turned = f'transform="rotate(-90 -34 {middle})"'
    return ticks + f'<text x="-34" y="{middle}" text-anchor="middle" {turned} {text}>precision</text>'


def folded(title: str, body: str, *, is_open: bool = False) -> str:
    """A part of the page that is unfolded by a click, or folded where it is open."""
    opened = " open" if is_open else ""
    return f"<details{opened}><summary>{html.escape(title)}</summary>{body}</details>"

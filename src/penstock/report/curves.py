"""Curves over steps, as SVG that is read without a script. With curves.js, a pointer or the arrow keys show the values
at a step.
"""

from __future__ import annotations

import html
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

STYLE: Final = """
.curves { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 320px), 1fr)); gap: 1em }
figure.curve { margin: 0; min-width: 0 }
figure.curve figcaption { font-weight: 600 }
figure.curve svg { width: 100%; height: auto; touch-action: pan-y }
figure.curve svg:focus-visible { outline: 2px solid #2a7a8c }
figure.curve .key { display: flex; flex-wrap: wrap; gap: 0 1em; font-size: 13px }
figure.curve .key i { display: inline-block; width: 1em; height: 3px; vertical-align: middle; margin-right: .4em }
figure.curve output { display: block; min-height: 1.5em; font-size: 13px; font-variant-numeric: tabular-nums }
"""
SCRIPT: Final = Path(__file__).with_name("curves.js").read_text(encoding="utf-8")
"""What shows values; it needs nothing else."""

MAX_POINTS: Final = 500
"""Points of a curve: more would not be seen, and a page of many runs is to stay small."""

COLORS: Final = ("#2a7a8c", "#d1495b", "#edae49", "#66a182", "#7b5ea7", "#2e4057", "#8d6b94", "#b0883f")
_WIDTH, _HEIGHT = 400, 220  # of the drawn area, in units of the SVG
_TICKS: Final = 4
_HIGHEST: Final = 1e300
_MIN: Final = 1e-6  # times the values: what differs by less is the same


@dataclass(frozen=True)
class Curve:
    """Values over steps.

    Attributes:
        name: for the key.
        points: (step, value) in ascending steps; values that are not finite are left out.
        color: of CSS.
        is_faint: whether it is drawn thin behind the others, and left out of the key.
        is_dotted: whether its points are marked, as for values that come seldom.
    """

    name: str
    points: Sequence[tuple[float, float]]
    color: str = COLORS[0]
    is_faint: bool = False
    is_dotted: bool = False


def chart(title: str, curves: Sequence[Curve], *, top: float | None = None) -> str:
    """Curves in one plot; "" where there is no point at all.

    Args:
        title: above it.
        curves: drawn in their order, the last on top.
        top: the largest value of the axis, which then begins at 0; by default the axis follows from the values.
    """
    shown = [(curve, thinned(curve.points)) for curve in curves]
    shown = [(curve, points) for curve, points in shown if points]
    if not shown:
        return ""
    steps = [step for _, points in shown for step, _ in points]
    ticks = (
        _nice(0.0, top) if top is not None else _nice(*_extent([value for _, points in shown for _, value in points]))
    )
    scale = _Scale(max(steps), ticks[0], ticks[-1])
    lines = "".join(_line(curve, points, scale) for curve, points in shown)
    data = [{"name": curve.name, "points": _short(points)} for curve, points in shown if not curve.is_faint]
    described = {"last": scale.last, "width": _WIDTH, "curves": data}
    key = "".join(
        f'<span><i style="background:{curve.color}"></i>{html.escape(curve.name)}</span>'
        for curve, _ in shown
        if not curve.is_faint
    )
    head = html.escape(title)
    return (
        f'<figure class="curve" data-curves="{html.escape(json.dumps(described))}"><figcaption>{head}</figcaption>'
        f'<svg viewBox="-52 -10 {_WIDTH + 62} {_HEIGHT + 46}" role="img" tabindex="0" '
        f'aria-label="{head}. Left and right arrows show values.">{_axes(ticks, scale)}{lines}</svg>'
        f'<div class="key">{key}</div><output aria-live="polite"></output></figure>'
    )


def thinned(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """At most 500 finite points, evenly spread, with the first and the last one."""
    finite = [(step, value) for step, value in points if math.isfinite(value)]
    if len(finite) <= MAX_POINTS:
        return finite
    return [finite[round(number * (len(finite) - 1) / (MAX_POINTS - 1))] for number in range(MAX_POINTS)]


def _short(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Points with as many digits as somebody reads."""
    return [(step, float(f"{value:.6g}")) for step, value in points]


def smoothed(values: Sequence[float]) -> list[float]:
    """A running mean that forgets with 0.9, the first values weighed as if there had been nothing before them."""
    result, mean, weight = [], 0.0, 0.0
    for value in values:
        mean, weight = 0.9 * mean + 0.1 * value, 0.9 * weight + 0.1
        result.append(mean / weight)
    return result


@dataclass(frozen=True)
class _Scale:
    last: float
    low: float
    high: float

    def x(self, step: float) -> float:
        return _WIDTH * step / self.last if self.last else 0.0

    def y(self, value: float) -> float:
        inside = min(self.high, max(self.low, value))
        return _HEIGHT * (1 - (inside - self.low) / (self.high - self.low))


def _line(curve: Curve, points: Sequence[tuple[float, float]], scale: _Scale) -> str:
    places = [(scale.x(step), scale.y(value)) for step, value in points]
    width, opacity = (0.8, 0.4) if curve.is_faint else (1.8, 1.0)
    joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    line = (
        f'<polyline fill="none" stroke="{curve.color}" stroke-width="{width}" stroke-opacity="{opacity}" '
        f'points="{joined}"/>'
    )
    dots = places if curve.is_dotted or len(places) == 1 else []
    return line + "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{curve.color}"/>' for x, y in dots)


def _axes(ticks: Sequence[float], scale: _Scale) -> str:
    text, parts = 'fill="currentColor" font-size="11"', []
    for value in ticks:
        y = scale.y(value)
        parts.append(f'<path d="M0 {y:.1f}H{_WIDTH}" stroke="currentColor" opacity=".15"/>')
        parts.append(f'<text x="-6" y="{y + 4:.1f}" text-anchor="end" {text}>{value:g}</text>')
    for step in _nice(0.0, scale.last):
        if step <= scale.last:
            x = scale.x(step)
            parts.append(f'<path d="M{x:.1f} 0V{_HEIGHT}" stroke="currentColor" opacity=".15"/>')
            parts.append(f'<text x="{x:.1f}" y="{_HEIGHT + 15}" text-anchor="middle" {text}>{step:,g}</text>')
    parts.append(f'<text x="{_WIDTH / 2}" y="{_HEIGHT + 29}" text-anchor="middle" {text}>step</text>')
    return "".join(parts)


def _extent(values: Sequence[float]) -> tuple[float, float]:
    low, high = (min(_HIGHEST, max(-_HIGHEST, each(values))) for each in (min, max))
    if high - low > max(1 / _HIGHEST, _MIN * max(abs(low), abs(high))):
        return low, high
    room = abs(low) / 2 or 1.0  # all are the same
    return low - room, high + room


def _nice(low: float, high: float) -> list[float]:
    """A few round numbers from at most `low` to at least `high`."""
    if high <= low:
        return [low]
    rough = (high - low) / _TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    digits = 2 - math.floor(math.log10(step))  # a step has at most two
    return [round(number * step, digits) for number in range(first, last + 1)]


def values_over(lines: Sequence[dict[str, Any]], key: str) -> list[tuple[float, float]]:
    """(step, value) of the lines of a log that have a number under a key."""
    return [
        (float(line["step"]), float(line[key]))
        for line in lines
        if _is_number(line.get(key)) and _is_number(line.get("step")) and math.isfinite(line["step"])
    ]


def _is_number(value: Any) -> bool:
    """Whether a value can be a float: an integer of hundreds of digits cannot."""
    return isinstance(value, float) or (isinstance(value, int) and abs(value) < _HIGHEST)

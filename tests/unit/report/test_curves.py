"""Curves over steps: where points are drawn, and what a reader is shown of them in a real browser."""

from __future__ import annotations

import html
import itertools
import json
import re

import pytest
from support.browser import needs_browser, run_in

from penstock.report.curves import SCRIPT, Curve, chart, smoothed, thinned, values_over


def polylines(text):
    return [
        [tuple(map(float, point.split(","))) for point in points.split()]
        for points in re.findall(r'points="([^"]*)"', text)
    ]


def labels(text, anchor):
    return re.findall(rf'text-anchor="{anchor}"[^>]*>([^<]*)</text>', text)


def test_points_are_drawn_at_their_values():
    """The plot is 400 wide and 220 high; its axes reach from 0 to the last step and over round numbers."""
    drawn = chart("Loss", [Curve("a", [(10, 3.0), (20, 1.0), (40, 2.0)]), Curve("b", [(40, 1.5)], "red")])

    assert polylines(drawn) == [[(100, 0), (200, 220), (400, 110)], [(400, 165)]]
    assert labels(drawn, "end") == ["1", "1.5", "2", "2.5", "3"]
    assert labels(drawn, "middle") == ["0", "10", "20", "30", "40", "step"]
    assert drawn.count("<circle") == 1  # of a curve of one point
    assert re.findall(r"</i>(\w+)</span>", drawn) == ["a", "b"]


def test_an_axis_may_be_given_and_what_lies_beyond_it_is_cut():
    drawn = chart("Wait", [Curve("wait", [(0, 50.0), (5, 150.0)])], top=100.0)
    assert polylines(drawn) == [[(0, 110), (400, 0)]]
    assert labels(drawn, "end") == ["0", "25", "50", "75", "100"]


def test_faint_curves_are_in_no_key_and_show_no_values():
    drawn = chart("Loss", [Curve("raw", [(1, 2.0), (2, 1.0)], is_faint=True), Curve("mean", [(1, 2.0), (2, 1.5)])])
    (data,) = re.findall(r'data-curves="([^"]*)"', drawn)
    assert json.loads(html.unescape(data))["curves"] == [{"name": "mean", "points": [[1, 2.0], [2, 1.5]]}]
    assert "raw" not in drawn
    assert len(polylines(drawn)) == 2


@pytest.mark.parametrize("values", [[0.5, 0.5], [0.0, 0.0], [1e-9, 2e-9], [-3.0, 4000.0], [1e12, 3e12], [0.0, 2e-323]])
def test_any_values_have_an_axis(values):
    drawn = chart("x", [Curve("a", list(enumerate(values)))])
    ticks = [float(label) for label in labels(drawn, "end")]
    assert ticks == sorted({*ticks})
    assert 2 <= len(ticks) <= 8
    assert ticks[0] <= min(values)
    assert ticks[-1] >= max(values)


def test_without_points_there_is_nothing():
    assert chart("x", []) == chart("x", [Curve("a", []), Curve("b", [(1, float("nan")), (2, float("inf"))])]) == ""


def test_values_at_the_ends_of_what_numbers_can_be_are_drawn():
    drawn = chart("x", [Curve("a", [(1, 1.7e308), (2, -1.7e308)]), Curve("b", [(1, 5e-324), (2, 0.0)])])
    assert "nan" not in drawn
    assert "inf" not in drawn


def test_long_curves_keep_500_points_with_their_ends():
    points = [(step, float(step)) for step in range(12_345)]
    kept = thinned(points)
    assert (len(kept), kept[0], kept[-1]) == (500, points[0], points[-1])
    assert {b[0] - a[0] for a, b in itertools.pairwise(kept)} <= {24, 25}
    assert thinned(points[:500]) == points[:500]


def test_a_smoothed_value_is_a_mean_in_which_older_ones_count_less():
    values = [1.0, 4.0, 2.0]
    weights = [0.81, 0.9, 1.0]
    mean = sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights)
    assert smoothed(values)[-1] == pytest.approx(mean)
    assert smoothed(values)[0] == 1.0


def test_names_are_no_markup():
    drawn = chart("<b>", [Curve('"><script>', [(1, 1.0), (2, 2.0)])])
    assert "<script>" not in drawn
    assert "<b>" not in drawn


def test_lines_without_numbers_are_left_out():
    lines = [{"step": 1, "lr": 0.5}, {"step": 2}, {"step": 3, "lr": None}, {"step": 4, "lr": 1}, {"lr": 2.0}]
    assert values_over(lines, "lr") == [(1.0, 0.5), (4.0, 1.0)]


PAGE = "<!doctype html><html><body>CHART<script>" + SCRIPT + "</script></body></html>"
KEYS = """
const svg = document.querySelector("svg"), output = document.querySelector("output"), said = [output.textContent];
for (const key of KEYS) {
  svg.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  said.push(output.textContent);
}
return said.join("|");
"""


@needs_browser
def test_arrow_keys_show_values(tmp_path):
    curves = [Curve("a", [(10, 3.0), (20, 1.0), (40, 0.00012345678)]), Curve("b", [(40, 1.5)], "red")]
    keys = KEYS.replace("KEYS", json.dumps(["ArrowRight", "ArrowRight", "End", "ArrowRight", "Home", "x", "Escape"]))
    said, complaints = run_in(PAGE.replace("CHART", chart("Loss", curves)), keys, tmp_path)

    first = "step 10: a 3, b 1.5 (step 40)"
    last = "step 40: a 1.23e-4, b 1.5"
    assert said.split("|") == ["", first, "step 20: a 1, b 1.5 (step 40)", last, last, first, first, ""]
    assert complaints == []


@needs_browser
def test_a_pointer_shows_the_values_of_the_step_under_it(tmp_path):
    script = """
    const svg = document.querySelector("svg"), output = document.querySelector("output"), said = [];
    const matrix = svg.getScreenCTM();
    for (const x of [-50, 90, 160, 395]) {
      const point = new DOMPoint(x, 100).matrixTransform(matrix);
      svg.dispatchEvent(new PointerEvent("pointermove", { clientX: point.x, clientY: point.y, bubbles: true }));
      said.push(output.textContent + " at " + svg.querySelector("path:last-child").getAttribute("d"));
    }
    svg.dispatchEvent(new PointerEvent("pointerleave"));
    return [...said, output.textContent].join("|");
    """
    drawn = chart("Loss", [Curve("a", [(10, 3.0), (20, 1.0), (40, 2.0)])])
    said, complaints = run_in(PAGE.replace("CHART", drawn), script, tmp_path)

    assert said.split("|") == [
        "step 10: a 3 at M100 0V220", "step 10: a 3 at M100 0V220", "step 20: a 1 at M200 0V220",
        "step 40: a 2 at M400 0V220", "",
    ]  # fmt: skip
    assert complaints == []


@needs_browser
def test_complaints_of_a_page_are_heard(tmp_path):
    """Or the tests above would pass whatever a page does."""
    _, complaints = run_in("<html><body><script>nothing.there;</script></body></html>", "return 1;", tmp_path)
    assert len(complaints) == 1
    assert "nothing is not defined" in complaints[0]


def test_numbers_of_any_size_are_drawn(tmp_path):
    assert values_over(
        [{"step": 1, "loss": 10**400}, {"step": 10**400, "loss": 1}, {"step": 2, "loss": 3}], "loss"
    ) == [(2.0, 3.0)]
    assert "polyline" in chart("lr", [Curve("lr", [(1, 1e-14), (2, 2e-14)])])

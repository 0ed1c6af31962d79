"""Bars of classes, confusion matrices and precision over recall, as they stand in a report."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
import torch
from support.commands import call
from support.datasets import learn_squares

from penstock.metrics import Boxes, Confusion, PredictionCounts, ScoredBox
from penstock.report.figures import class_bars, confusion, figures, precision_recall
from penstock.training import train


class Text(HTMLParser):
    """The words of a page, by the element in which they stand, and which parts are unfolded."""

    def __init__(self, page):
        super().__init__()
        self.words, self.open, self.widths, self.cells = [], [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        if tag == "details":
            self.open.append("open" in attributes)
        if tag == "i" and "width" in attributes.get("style", ""):
            self.widths.append(attributes["style"])
        if tag == "td":
            self.cells.append(attributes["title"])

    def handle_data(self, data):
        self.words.append(data)


def masks():
    """80 pixels of sky, of which a quarter was taken for sea, and 20 of sea, all found."""
    counted = Confusion(3, 255)
    counted.matrix += torch.tensor([[60, 20, 0], [0, 20, 0], [0, 0, 0]])
    return counted.scores(("sky", "<sea>", "land")).as_json()


class TestBars:
    def test_each_class_has_one_as_long_as_its_score(self):
        page = Text(class_bars(masks()))
        assert page.words == ["Bars of 3 classes: IoU", "sky", "75.0%", "<sea>", "50.0%", "land", "-"]
        assert page.widths == ["width:75.0%", "width:50.0%", "width:0.0%"]
        assert page.open == [True]

    @pytest.mark.parametrize(("classes", "unfolded"), [(20, True), (21, False)])
    def test_long_lists_are_folded(self, classes, unfolded):
        rows = [{"name": f"c{number}", "accuracy": 0.5} for number in range(classes)]
        assert Text(class_bars({"classes": rows})).open == [unfolded]

    def test_a_task_without_scores_of_classes_has_none(self):
        assert figures({"mae": 0.1}) == ""
        assert figures({"classes": [{"name": "a", "error": 1.0}]}) == ""


class TestConfusion:
    def test_rows_are_divided_by_the_true_pixels(self):
        page = Text(confusion(masks()))
        assert page.cells == [
            "sky predicted as sky: 75.00%", "sky predicted as <sea>: 25.00%", "sky predicted as land: 0.00%",
            "<sea> predicted as sky: 0.00%", "<sea> predicted as <sea>: 100.00%", "<sea> predicted as land: 0.00%",
            "land predicted as sky: 0.00%", "land predicted as <sea>: 0.00%", "land predicted as land: 0.00%",
        ]  # fmt: skip
        assert page.words[-2:] == [
            "Most frequent confusions, in per cent of the true class:",
            "sky predicted as <sea>: 25.0%",
        ]
        assert "rgba(42,122,140,0.250)" in confusion(masks())

    def test_of_images(self):
        counts = PredictionCounts(2)
        counts.update(torch.tensor([[0.9, 0.1], [0.2, 0.8], [0.3, 0.7]]), torch.tensor([0, 0, 1]))
        page = Text(confusion(counts.scores(("cat", "dog")).as_json()))
        assert page.cells[:2] == ["cat predicted as cat: 50.00%", "cat predicted as dog: 50.00%"]

    def test_a_large_matrix_is_left_out_but_the_worst_confusions_are_named(self):
        size = 101
        matrix = [[9 if true == predicted else 0 for predicted in range(size)] for true in range(size)]
        matrix[3][7], matrix[5][1] = 1, 3
        found = confusion({"classes": [{"name": f"c{i}"} for i in range(size)], "confusion": matrix})
        assert Text(found).cells == []
        assert re.findall(r"<li>(.*?)</li>", found) == ["c5 predicted as c1: 25.0%", "c3 predicted as c7: 10.0%"]


class TestPrecision:
    def scores(self):
        """Two cats, of which one was found, and then something that is no cat."""
        boxes = Boxes(images=["p"])
        boxes.true += [ScoredBox("p", 0, (0, 0, 10, 10), 0), ScoredBox("p", 0, (50, 50, 10, 10), 0)]
        boxes.found += [ScoredBox("p", 0, (0, 0, 10, 10), 0.9), ScoredBox("p", 0, (80, 0, 10, 10), 0.8)]
        return boxes.scores(["cat", "dog"]).as_json()

    def test_it_is_one_up_to_the_recall_that_is_reached(self):
        cat, dog = (row["precision_at_recall"] for row in self.scores()["classes"])
        assert cat == [1.0] * 51 + [0.0] * 50  # recalls of 0, 0.01, ... 0.50 are reached without a mistake
        assert dog == []

    def test_it_is_drawn_from_left_to_right(self):
        page = precision_recall(self.scores())
        (points,) = re.findall(r'<polyline [^>]*points="([^"]*)"', page)
        places = [tuple(map(float, point.split(","))) for point in points.split()]
        assert places[0] == (0, 0)
        assert places[50] == (150, 0)
        assert places[51] == (153, 300)
        assert places[-1] == (300, 300)
        assert Text(page).words[-3:] == ["recall", "precision", "cat"]
        assert precision_recall(masks()) == ""


def test_a_report_shows_them_and_reads_on_a_phone(squares, tmp_path, capsys):
    folder, _ = train(learn_squares(squares, steps=1, evaluate_every=1), tmp_path)
    assert call("report", folder.path, capsys=capsys)[0] == 0
    page = (folder.path / "report.html").read_text()

    assert "Bars of 2 classes: average precision" in page
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in page
    assert "color-scheme: light dark" in page
    assert ".bars { display: grid" in page
    assert not re.search(r'(src|href)="http', page)

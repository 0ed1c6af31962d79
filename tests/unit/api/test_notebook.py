"""A training in a notebook, beside a stand-in of IPython's display."""

from __future__ import annotations

import re
import sys
from types import ModuleType

import pytest
from support.training import recipe

import penstock as ps


@pytest.fixture
def cell(monkeypatch):
    """The outputs of a cell: a list of pages for each."""
    outputs = []

    class Output:
        def __init__(self, page):
            self.pages = [page]

        def update(self, page):
            self.pages.append(page)

    def display(page, *, display_id):
        assert display_id is True
        outputs.append(Output(page))
        return outputs[-1]

    module = ModuleType("IPython.display")
    module.HTML, module.display = str, display
    monkeypatch.setitem(sys.modules, "ipykernel", ModuleType("ipykernel"))
    monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    return outputs


def test_a_notebook_shows_a_bar_the_last_line_and_curves(packed, tmp_path, cell, capfd):
    run = ps.train(recipe(packed.folder, steps=4, evaluate_every=2, log_every=1), runs=tmp_path)

    assert capfd.readouterr() == ("", "")
    (output,) = cell
    assert len(output.pages) > 4
    last = output.pages[-1]
    assert '<progress value="4" max="4"' in last
    assert f"<pre>{(run.path / 'log.txt').read_text().splitlines()[-1]}</pre>" in last
    assert re.findall("<figcaption>(.*?)</figcaption>", last) == ["loss", "mean_iou", "pixel_accuracy"]
    first, *_ = (page for page in output.pages if "<figure" in page)
    assert '<progress value="1" max="4"' in first

    ps.resume(run, settings={"train.steps": 6})
    assert '<progress value="6" max="6"' in cell[1].pages[-1]


def test_what_the_caller_watches_is_not_shown_again(packed, tmp_path, cell):
    seen = []
    ps.train(recipe(packed.folder, steps=2), runs=tmp_path, on_event=seen.append)
    ps.train(recipe(packed.folder, steps=2), runs=tmp_path, progress=lambda *steps: seen.append(steps))

    assert cell == []
    assert seen[-2:] == [(1, 2), (2, 2)]


def test_nothing_is_shown_in_a_script(packed, tmp_path, cell, monkeypatch, capfd):
    monkeypatch.delitem(sys.modules, "ipykernel")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    ps.train(recipe(packed.folder, steps=2), runs=tmp_path)

    assert cell == []
    assert capfd.readouterr() == ("", "")

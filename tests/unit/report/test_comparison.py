"""One page for several runs."""

from __future__ import annotations

import html
import json
import re

import pytest
from support.browser import needs_browser, run_in
from support.commands import call
from support.run_folders import write_run

from penstock.errors import RunError
from penstock.report import write_comparison


@pytest.fixture
def runs(tmp_path):
    write_run(tmp_path / "runs/0001-a")
    write_run(
        tmp_path / "runs/0002-b", seed=1, scores=[{"loss": 3.0, "mean_iou": 0.25}, {"loss": 2.0, "mean_iou": 0.5}]
    )
    write_run(tmp_path / "runs/0003-c", classes=["a", "<b>"], environment={"python": "3.12.1"})
    return [tmp_path / "runs" / name for name in ("0001-a", "0002-b", "0003-c")]


def charts(text):
    found = re.findall(r'data-curves="([^"]*)"><figcaption>([^<]*)<', text)
    return {
        title: {each["name"]: each["points"] for each in json.loads(html.unescape(data))["curves"]}
        for data, title in found
    }


def tables(text):
    """The rows of a page's tables below their headings."""
    parts = re.findall(r"<h2>([^<]*)</h2>\n(.*?)(?=\n<h2>|\n<script>)", text, re.DOTALL)
    rows = {title: re.findall(r"<tr>(.*?)</tr>", body) for title, body in parts}
    return {
        title: [[html.unescape(cell) for cell in re.findall(r"<t[hd]>(.*?)</t[hd]>", row)] for row in found]
        for title, found in rows.items()
    }


def test_curves_of_all_runs_are_in_one_plot(runs, tmp_path):
    text = write_comparison(runs, tmp_path / "new/page.html").read_text()
    drawn = charts(text)

    assert list(drawn) == ["Loss of training, smoothed", "mean_iou", "loss of evaluation"]
    assert drawn["mean_iou"] == {
        "0001-a": [[1, 0.5], [2, 0.75]],
        "0002-b": [[1, 0.25], [2, 0.5]],
        "0003-c": [[1, 0.5], [2, 0.75]],
    }
    assert drawn["loss of evaluation"]["0002-b"] == [[1, 3.0], [2, 2.0]]
    assert drawn["Loss of training, smoothed"]["0001-a"] == [[1, 1.5], [2, 1.5]]
    colors = re.findall(r'<i style="background:([^"]*)"></i>0002-b', text)
    assert len({*colors}) == 1
    assert colors[0] not in re.findall(r'<i style="background:([^"]*)"></i>0001-a', text)


def test_tables_say_in_what_they_differ(runs, tmp_path):
    text = write_comparison(runs, tmp_path / "page.html").read_text()
    found = tables(text)

    assert found["Scores of the best checkpoints"] == [
        ["", "0001-a", "0002-b", "0003-c"], ["loss", "1", "2", "1"], ["mean_iou", "0.75", "0.5", "0.75"],
    ]  # fmt: skip
    assert found["Recipe"] == [["", "0001-a", "0002-b", "0003-c"], ["seed", "0", "1", "0"]]
    assert found["Data"][1] == ["classes", '["a", "b"]', '["a", "b"]', '["a", "<b>"]']
    assert found["Environment"][1] == ["python", "3.11.7", "3.11.7", "3.12.1"]
    assert [row[0] for row in found["Runs"][1:]] == ["0001-a", "0002-b", "0003-c"]
    assert "<li>Scores may not be compared: their classes or class ids differ.</li>" in text
    assert "All scores may be compared" not in text
    assert "<b>" not in text.replace("</b>", "")
    assert "<h2>Code</h2>\n<p>no difference</p>" in text


def test_runs_that_may_be_compared_are_said_to_be(runs, tmp_path):
    text = write_comparison(runs[:2], tmp_path / "page.html").read_text()
    assert "<li>All scores may be compared: task, classes, images and image sizes are the same.</li>" in text
    assert "mean_iou over 2 seeds (0001-a, 0002-b): mean 0.6250, standard deviation 0.1768" in text


def test_the_command_writes_it_here_or_where_it_is_told(runs, tmp_path, capsys, monkeypatch):
    """And not among the runs, as `penstock compare runs/*` names all that lies there."""
    monkeypatch.chdir(tmp_path)
    beside = tmp_path / "comparison.html"
    assert call("report", *runs, capsys=capsys) == (0, "report comparison.html\n", "")
    assert call("report", *runs, "-o", tmp_path / "x.html", capsys=capsys)[0] == 0
    assert (tmp_path / "x.html").read_bytes() == beside.read_bytes()
    code, _, err = call("report", runs[0], "-o", tmp_path / "x.html", capsys=capsys)
    assert (code, err) == (
        2,
        "error: --output: expected several runs, found one. Remove --output: the report of a run is RUN/report.html.\n",
    )


def test_one_run_is_too_few(runs, tmp_path):
    with pytest.raises(RunError, match="expected at least two runs, found 1"):
        write_comparison(runs[:1], tmp_path / "page.html")


@needs_browser
@pytest.mark.parametrize("width", [500, 1100])
def test_a_browser_shows_it_whole(runs, tmp_path, width):
    script = """
    const svg = document.querySelectorAll("figure.curve svg")[1];
    svg.dispatchEvent(new KeyboardEvent("keydown", { key: "End" }));
    const said = svg.parentElement.querySelector("output").textContent;
    return [document.documentElement.scrollWidth <= innerWidth, said].join("|");
    """
    wide = write_run(tmp_path / "runs/0004-d", data=f"/d/{'x' * 150}")
    page = write_comparison([*runs, wide], tmp_path / "page.html").read_text()
    said, complaints = run_in(page, script, tmp_path, width=width)
    assert said == "true|step 2: 0001-a 0.75, 0002-b 0.5, 0003-c 0.75, 0004-d 0.75"
    assert complaints == []


def test_scores_on_the_same_data_have_a_table(runs, tmp_path):
    for number, run in enumerate(runs[:2]):
        scores = {
            "mean_iou": 0.25 + number / 4,
            "split": "val",
            "step": 2,
            "content": "beef",
            "data": "/d/today",
            "notes": [],
        }
        (run / "evaluations").mkdir()
        (run / "evaluations/val-on-today.json").write_text(json.dumps(scores))
    found = tables(write_comparison(runs[:2], tmp_path / "page.html").read_text())

    (row,) = [row for row in found["Scores on the same data"] if row[0].startswith("mean_iou")]
    assert row[1:] == ["0.25", "0.5"]

from __future__ import annotations

import base64
import html
import json
import re
import shutil

import cv2
import numpy as np
import pytest
from support.browser import needs_browser, run_in
from support.commands import call
from support.run_folders import write_run
from support.training import recipe

from penstock.assembly import load_checkpoint
from penstock.errors import RunError
from penstock.images.codecs import encode_png
from penstock.report import write_report
from penstock.runs import RunFolder
from penstock.training import train


@pytest.fixture(scope="module")
def evaluated_run(packed, tmp_path_factory):
    folder, _ = train(recipe(packed.folder, steps=4, evaluate_every=2), tmp_path_factory.mktemp("runs"))
    return folder


OTHERS = [None, 7, -1.5, "text", True, [], {}, [1], {"a": 1}, [[]], "\x1b[31m"]


def edits(value, path=()):
    """Every place in a JSON value, with the value of another type in it."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(items)[: 6 if isinstance(value, list) else None]:
        for other in OTHERS:
            yield (*path, key), other
        yield from edits(inner, (*path, key))


def edited(value, path, other):
    copy = json.loads(json.dumps(value))
    inner = copy
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = other
    return copy


@pytest.mark.parametrize("name", ["environment.json", "metrics.jsonl", "evaluations"])
def test_a_report_on_values_of_other_types_is_a_page_or_a_sentence(evaluated_run, name):
    """Values of the run's files in turn, replaced by values of other types; one change in three."""
    path = evaluated_run.path / name if name != "evaluations" else max((evaluated_run.path / name).glob("*.json"))
    before = path.read_bytes()
    lines = before.splitlines() if path.suffix == ".jsonl" else [before]
    refused = 0
    try:
        for number in {0, len(lines) - 1}:
            for place, other in list(edits(json.loads(lines[number])))[::3]:
                changed = list(lines)
                changed[number] = json.dumps(edited(json.loads(lines[number]), place, other)).encode()
                path.write_bytes(b"\n".join(changed) + b"\n")
                message = report_of(evaluated_run)
                refused += message is not None
                assert message is None or message.startswith(f"{path}: expected ")
                assert message is None or message.endswith(" Restore the file from a copy of the run.")
    finally:
        path.write_bytes(before)
    assert refused
    write_report(evaluated_run)


def report_of(run):
    """What a report is refused with, if it is."""
    try:
        write_report(run)
    except RunError as error:
        return str(error)
    return None


def charts(text):
    """The curves of a page's plots, by the plots' titles."""
    found = re.findall(r'data-curves="([^"]*)"><figcaption>([^<]*)<', text)
    return {
        title: {each["name"]: each["points"] for each in json.loads(html.unescape(data))["curves"]}
        for data, title in found
    }


def rounded(points):
    """With six digits, which is what a page has."""
    return [[step, float(f"{value:.6g}")] for step, value in points]


def test_curves_are_those_of_the_logs(evaluated_run):
    drawn = charts(write_report(evaluated_run).read_text())
    metrics, timings = (
        [json.loads(line) for line in (evaluated_run.path / name).read_text().splitlines()]
        for name in ("metrics.jsonl", "timings.jsonl")
    )
    steps = [line for line in metrics if "evaluation" not in line]
    scores = [line for line in metrics if "evaluation" in line]
    means = np.array([line["loss"] for line in steps])
    weights = 0.9 ** np.abs(np.subtract.outer(np.arange(4), np.arange(4))) * np.tri(4)
    waits = np.array([100 * line["wait"] / line["seconds"] for line in timings])

    assert list(drawn) == ["Loss", "Scores", "Learning rate", "Time for data, in per cent of each step"]
    assert drawn["Learning rate"] == {"lr": rounded([line["step"], line["lr"]] for line in steps)}
    assert drawn["Loss"]["evaluation"] == rounded([line["step"], line["evaluation"]["loss"]] for line in scores)
    assert np.allclose(
        [value for _, value in drawn["Loss"]["training (smoothed)"]], weights @ means / weights.sum(1), rtol=1e-5
    )
    for name in ("mean_iou", "pixel_accuracy"):
        assert drawn["Scores"][name] == rounded([line["step"], line["evaluation"][name]] for line in scores)
    (wait,) = drawn["Time for data, in per cent of each step"].values()
    assert np.allclose([value for _, value in wait], weights @ waits / weights.sum(1), rtol=1e-5)


def test_events_are_listed(evaluated_run):
    text = write_report(evaluated_run).read_text()
    rows = re.findall(r"<tr><td>([^<]*)</td><td>([^<]*)</td></tr>", text)
    events = [json.loads(line) for line in (evaluated_run.path / "events.jsonl").read_text().splitlines()]
    assert [row[0] for row in rows] == [line["time"] for line in events]
    assert [row[1].partition(":")[0] for row in rows] == [line["event"] for line in events]
    assert f"<summary>Events ({len(events)})</summary>" in text


def test_settings_that_changed_are_listed_one_by_one(tmp_path):
    changed = {"event": "changed", "step": 2, "settings": {"optimizer.lr": [0.1, 0.01], "train.steps": [2, 4]}}
    run = write_run(tmp_path / "0001-a", events=["started", changed], environment={"exact": True})
    text = write_report(RunFolder(run)).read_text()

    assert "<td>changed: step 2, optimizer.lr 0.1 to 0.01, train.steps 2 to 4</td>" in text


@needs_browser
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [390, 1100])
def test_a_page_is_no_wider_than_the_window_and_complains_of_nothing(evaluated_run, tmp_path, width, dark):
    """On a phone and on a desk; text and ground differ as the reader wants them."""
    script = """
    const style = getComputedStyle(document.body), canvas = getComputedStyle(document.documentElement);
    return [document.documentElement.scrollWidth <= innerWidth, document.querySelectorAll("figure.curve svg").length,
      style.color].join("|");
    """
    page = write_report(evaluated_run).read_text()
    said, complaints = run_in(page, script, tmp_path, width=max(width, 500), dark=dark)
    assert said == f"true|4|{'rgb(255, 255, 255)' if dark else 'rgb(0, 0, 0)'}"
    assert complaints == []
    assert "http" not in re.sub(
        r'xmlns="[^"]*"|http://www.w3.org/2000/svg', "", page.partition("recipe.toml</summary>")[0]
    )


def test_a_report_tells_its_evaluations_apart(packed, tmp_path, capsys):
    """One that was asked for and says what training said already is not shown again."""
    folder, _ = train(recipe(packed.folder), tmp_path / "runs")
    assert call("evaluate", folder.path, "--checkpoint", "last", capsys=capsys)[0] == 0
    assert call("evaluate", folder.path, "--checkpoint", "last", "--flip", capsys=capsys)[0] == 0
    assert call("report", folder.path, capsys=capsys)[0] == 0
    titles = re.findall(r"<h2>(Evaluation .*?)(?:: loss .*)?</h2>", (folder.path / "report.html").read_text())
    best = load_checkpoint(folder, "best").step

    assert titles == [
        "Evaluation on val after step 12 (asked for, flip)",
        *([f"Evaluation on val after step {best} (in training, the best)"] * (best != 12)),
        f"Evaluation on val after step 12 (in training, the {'best' if best == 12 else 'last'})",
    ]


def test_bytes_that_are_no_text_in_a_log_are_left_out(trained, tmp_path):
    shutil.copytree(trained, tmp_path / "run", symlinks=True)
    with (tmp_path / "run" / "metrics.jsonl").open("ab") as log:
        log.write(b'\xff\xfe\n{"step": 99}\n')

    assert RunFolder(tmp_path / "run").lines("metrics.jsonl")[-1] == {"step": 99}


def test_figures_have_headings_that_people_read(evaluated_run):
    for name in ("step-00000012", "predictions-val-00001000", "predictions-a-b-00000002", "mine"):
        (evaluated_run.path / f"figures/{name}.png").write_bytes(encode_png(np.zeros((8, 8, 3), np.uint8)))
    text = write_report(evaluated_run).read_text()
    for name in ("step-00000012", "predictions-val-00001000", "predictions-a-b-00000002", "mine"):
        (evaluated_run.path / f"figures/{name}.png").unlink()

    assert re.findall(r"<h2>([^<]*)</h2>\n<img", text) == [
        "mine", "Predictions on a-b after step 2", "Predictions on val after step 1,000", "Images of step 12",
    ]  # fmt: skip


def test_figures_are_small_and_a_damaged_one_is_named(evaluated_run, tmp_path):
    shutil.copytree(evaluated_run.path, tmp_path / "run", symlinks=True)
    figures = tmp_path / "run/figures"
    shutil.rmtree(figures, ignore_errors=True)
    figures.mkdir()
    rng = np.random.default_rng(0)
    fields = rng.integers(0, 256, (150, 60, 3), np.uint8).repeat(30, axis=0).repeat(30, axis=1)
    noisy = np.clip(fields + rng.normal(0, 6, fields.shape), 0, 255).astype(np.uint8)
    (figures / "predictions-val-00000004.png").write_bytes(encode_png(noisy))
    (figures / "worst-val-00000004.png").write_bytes(b"no image")
    huge = bytearray(encode_png(np.zeros((1, 1, 3), np.uint8)))
    huge[16:24] = (32_000).to_bytes(4) * 2
    (figures / "worst-val-00000005.png").write_bytes(huge)
    page = write_report(RunFolder.open(tmp_path / "run")).read_text()

    assert (figures / "predictions-val-00000004.png").stat().st_size > 10_000_000
    assert len(page) < 2_000_000
    for step in (4, 5):
        said = f"worst-val-0000000{step}.png: expected a PNG image, found a damaged or a huge one. Draw it again."
        assert f"<p>{said}</p>" in page
    (shown,) = re.findall(r"data:image/webp;base64,([^\"]+)", page)
    assert cv2.imdecode(np.frombuffer(base64.b64decode(shown), np.uint8), cv2.IMREAD_COLOR).shape == (4000, 1600, 3)

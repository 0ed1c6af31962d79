"""report.html: a run on one page that needs nothing else to be looked at."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from penstock import files
from penstock.errors import ImageError
from penstock.images.codecs import preview
from penstock.report.curves import COLORS, Curve, chart, smoothed, values_over
from penstock.report.figures import FOLDED, figures, folded
from penstock.report.summary import best_lines, score_lines, step_lines, summary_of
from penstock.report.template import page_of, section
from penstock.runs import RunFolder
from penstock.runs.paired import in_words

_FED: Final = re.compile(r"step-(?P<step>\d{8})")
_PREDICTED: Final = re.compile(r"(?P<which>predictions|worst)-(?P<split>.+)-(?P<step>\d{8})(?P<how>-.+)?")
_LARGEST: Final = 1 << 26  # bytes of a figure
_NAMES: Final = {"predictions": "Predictions", "worst": "Worst predictions"}


def write_report(folder: RunFolder) -> Path:
    """Gather a run's metrics, evaluations and figures into its report.html."""
    with folder.reading("metrics.jsonl"):
        sections = [_curves(folder)]
        best = best_lines(score_lines(folder.lines("metrics.jsonl")))
    summary = summary_of(folder)
    sections += [*_evaluations(folder, {line["step"] for line in best.values()}), *_figures(folder)]
    sections += [_events(folder), *(_folded(folder, name) for name in ("recipe.toml", "environment.json"))]
    path = folder.path / "report.html"
    files.replace_whole(path, page_of(folder.path.name, summary, sections).encode(errors="backslashreplace"))
    return path


def _curves(folder: RunFolder) -> str:
    """Loss, scores, learning rate and the wait for data, over steps."""
    metrics = folder.lines("metrics.jsonl")
    steps, scores = step_lines(metrics), score_lines(metrics)
    losses = values_over(steps, "loss")
    smooth = list(zip([step for step, _ in losses], smoothed([value for _, value in losses]), strict=True))
    evaluated = [{"step": line["step"], **line["evaluation"]} for line in scores]
    names = [key for key in (evaluated[-1] if evaluated else ()) if key not in ("loss", "step")]
    charts = [
        chart(
            "Loss",
            [
                Curve("training", losses, is_faint=True),
                Curve("training (smoothed)", smooth),
                Curve("evaluation", values_over(evaluated, "loss"), COLORS[1], is_dotted=True),
            ],
        ),
        chart("Scores", [_score(name, values_over(evaluated, name), number) for number, name in enumerate(names)]),
        chart("Learning rate", [Curve("lr", values_over(steps, "lr"))]),
        chart("Time for data, in per cent of each step", [Curve("wait", _waits(folder))], top=100.0),
    ]
    return section("Curves", f'<div class="curves">{"".join(charts)}</div>')


def _score(name: str, points: list[tuple[float, float]], number: int) -> Curve:
    return Curve(name, points, COLORS[number % len(COLORS)], is_dotted=True)


def _waits(folder: RunFolder) -> list[tuple[float, float]]:
    """What part of each step data was waited for, in per cent, smoothed."""
    with folder.reading("timings.jsonl"):
        lines = [line for line in folder.lines("timings.jsonl") if line.get("seconds")]
        waits = smoothed([100 * float(line["wait"]) / float(line["seconds"]) for line in lines])
        return [(float(line["step"]), wait) for line, wait in zip(lines, waits, strict=True)]


def _events(folder: RunFolder) -> str:
    """What happened to the run, and when."""
    with folder.reading("events.jsonl"):
        rows = [(str(line["time"]), _event(line)) for line in folder.lines("events.jsonl") if line.get("event")]
    if not rows:
        return ""
    listed = "".join(f"<tr><td>{html.escape(when)}</td><td>{html.escape(what)}</td></tr>" for when, what in rows)
    return folded(f"Events ({len(rows):,})", f'<table class="events">{listed}</table>')


def _event(line: dict[str, Any]) -> str:
    more = ", ".join(_in_words(name, value) for name, value in line.items() if name not in ("time", "event"))
    return f"{line['event']}{': ' if more else ''}{more}"


def _in_words(name: str, value: Any) -> str:
    """A value of an event; settings that changed are one by one, with the values before and after."""
    if name == "settings" and isinstance(value, dict):
        return ", ".join(f"{key} {was} to {now}" for key, (was, now) in value.items())
    return f"{name} {value:.6g}" if isinstance(value, float) else f"{name} {value}"


def _evaluations(folder: RunFolder, best: set[int]) -> list[str]:
    """The best and the last evaluations of the training, and those of `evaluate` that do not repeat them."""
    found = sorted((folder.path / "evaluations").glob("*.json"))
    during = {path: _step_of(path) for path in found if _step_of(path) is not None}
    sections, shown = [], []
    for number, (path, step) in enumerate(during.items(), 1):
        if step in best or number == len(during):
            when = "the best" if step in best else "the last"
            sections.append(_evaluation(folder, path, f"in training, {when}"))
            shown.append(_compared(folder, path))
    asked = [path for path in found if path not in during and _compared(folder, path) not in shown]
    return [*(_evaluation(folder, path, "asked for") for path in asked), *sections]


def _compared(folder: RunFolder, path: Path) -> dict[str, Any]:
    """What tells an evaluation from another one: all of it but the loss, which only training computes."""
    name = f"evaluations/{path.name}"
    return {key: value for key, value in folder.read_json(name, "step", "split").items() if key != "loss"}


def _step_of(path: Path) -> int | None:
    """The step of an evaluation in training, by its file's name."""
    number = path.stem.removeprefix("step-")
    return int(number) if number != path.stem and number.isdecimal() else None


def _evaluation(folder: RunFolder, path: Path, when: str) -> str:
    name = f"evaluations/{path.name}"
    scores = folder.read_json(name, "step", "split")
    with folder.reading(name):
        loss = "not finite" if scores.get("loss", 0.0) is None else f"{scores.get('loss', 0.0):.4f}"
        details = ", ".join([when, *_how(scores)])
        title = f"Evaluation on {scores['split']} after step {scores['step']:,} ({details})"
        title += f": loss {loss}" if "loss" in scores else ""
        table = f"<pre>{html.escape(scores.get('table', ''))}</pre>"
        if len(scores.get("classes") or []) > FOLDED:
            table = folded(f"Scores of {len(scores['classes']):,} classes", table)
        notes = "".join(f"<p>Note: {html.escape(str(note))}.</p>" for note in scores.get("notes") or ())
        return section(title, notes + table + figures(scores))


def _how(scores: Mapping[str, Any]) -> list[str]:
    """The data of an evaluation, where it is not that of the run, and its settings."""
    place = [f"{Path(scores['data']).name} ({scores['content'][:8]})"] if "data" in scores else []
    return [*place, *(in_words(each) for each in (scores.get("tta"), scores.get("window")) if each)]


def _figures(folder: RunFolder) -> list[str]:
    paths = sorted((folder.path / "figures").glob("*.png"))
    return [section(_title(path.stem), _image(path)) for path in paths]


def _title(stem: str) -> str:
    """The heading of a figure, from the name of its file: step-00000001, or predictions-val-00000200."""
    if match := _FED.fullmatch(stem):
        return f"Images of step {int(match['step']):,}"
    if match := _PREDICTED.fullmatch(stem):
        how = f" ({match['how'].strip('-')})" if match["how"] else ""
        return f"{_NAMES[match['which']]} on {match['split']} after step {int(match['step']):,}{how}"
    return stem


def _image(path: Path) -> str:
    try:
        files.check_regular(path, _LARGEST)
        shown = base64.b64encode(preview(path.read_bytes(), path.name)).decode()
    except (ImageError, OSError) as error:
        return f"<p>{html.escape(str(error))}</p>"
    return f'<img alt="{html.escape(path.stem)}" src="data:image/webp;base64,{shown}">'


def _folded(folder: RunFolder, name: str) -> str:
    """A file, to be unfolded by who wants to read it."""
    text = html.escape((folder.path / name).read_text(errors="replace"))
    return folded(name, f"<pre>{text}</pre>")

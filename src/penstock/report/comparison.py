"""One page for several runs: their curves in one plot, their scores, and in what they differ."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from penstock import outputs
from penstock.progress import counted, duration
from penstock.report.curves import COLORS, Curve, chart, smoothed, values_over
from penstock.report.summary import score_lines, step_lines
from penstock.report.template import page_of, section, table
from penstock.runs import RunFolder
from penstock.runs.comparing import RunComparison, compare, format_value
from penstock.runs.listing import RunSummary

_COMMAND: Final = "penstock report"
_LONGEST: Final = 200  # letters of a value


def write_comparison(paths: Sequence[Path], output: Path) -> Path:
    """Write what tells some runs apart on a page, and give its path.

    Raises:
        OutputError: another file is there.
        RunError: there are fewer, or a file of one is missing or damaged.
    """
    found = compare(paths)
    names = [run.name for run in found.runs]
    sections = [
        section("Which scores may be compared", _cautions(found)),
        section(
            "Runs", table(("run", "state", "step", "best", "model", "data", "time", "note"), map(_row, found.runs))
        ),
        section("Curves", f'<div class="curves">{"".join(_charts(found))}</div>'),
        section("Scores of the best checkpoints", _values(names, found.scores)),
        *([section("Scores on the same data", _values(names, found.common))] if found.common else []),
        section("Recipe", _differences(names, found.recipe)),
        section("Data", _differences(names, found.data)),
        section("Records", _differences(names, found.records)),
        section(
            "Code", _differences(names, found.code) + "".join(f"<pre>{html.escape(edit)}</pre>" for edit in found.edits)
        ),
        section("Environment", _differences(names, found.environment)),
    ]
    summary = {"runs": f"{counted(len(names), 'run')}: {', '.join(names)}", "metric": found.metric or "none"}
    outputs.write(output, page_of("Comparison of runs", summary, sections).encode(errors="backslashreplace"), _COMMAND)
    return output


def _cautions(found: RunComparison) -> str:
    lines = [*found.cautions]
    if not any(line.startswith("Scores") for line in lines):
        lines.insert(0, "All scores may be compared: task, classes, images and image sizes are the same.")
    lines += found.statistics
    return f"<ul>{''.join(f'<li>{html.escape(line)}</li>' for line in lines)}</ul>"


def _row(run: RunSummary) -> tuple[str, ...]:
    best = "" if run.best is None else f"{run.metric} {run.best:.4f} at {run.best_step:,}"
    words = ", ".join(filter(None, (*run.tags, run.note)))
    return run.name, run.state, f"{run.step:,}/{run.steps:,}", best, run.model, run.data, duration(run.seconds), words


def _charts(found: RunComparison) -> list[str]:
    """The losses, and each score, of all runs in one plot."""
    logs = [_log(RunFolder(run.path)) for run in found.runs]
    shown = [("Loss of training, smoothed", "loss", 0)]
    shown += [(name if name != "loss" else "loss of evaluation", name, 1) for name in _scores(found)]
    charts = []
    for title, key, kind in shown:
        curves = []
        for number, (run, log) in enumerate(zip(found.runs, logs, strict=True)):
            points = values_over(log[kind], key)
            if kind == 0:
                smooth = smoothed([value for _, value in points])
                points = list(zip([step for step, _ in points], smooth, strict=True))
            curves.append(Curve(run.name, points, COLORS[number % len(COLORS)], is_dotted=kind == 1))
        charts.append(chart(title, curves))
    return charts


def _log(folder: RunFolder) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    with folder.reading("metrics.jsonl"):
        lines = folder.lines("metrics.jsonl")
        return step_lines(lines), [{"step": line["step"], **line["evaluation"]} for line in score_lines(lines)]


def _scores(found: RunComparison) -> list[str]:
    """The names of scores, the deciding one first."""
    return sorted(found.scores, key=lambda name: (name != found.metric, name == "loss"))


def _differences(names: Sequence[str], values: Mapping[str, tuple[Any, ...]]) -> str:
    return _values(names, values) if values else "<p>no difference</p>"


def _values(names: Sequence[str], values: Mapping[str, tuple[Any, ...]]) -> str:
    rows = [(name, *(format_value(value, _LONGEST) for value in own)) for name, own in values.items()]
    return table(("", *names), rows) if rows else "<p>no evaluation</p>"

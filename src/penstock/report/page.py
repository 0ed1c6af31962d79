"""report.html: a run on one page that needs nothing else to be looked at."""

from __future__ import annotations

import base64
import html
import importlib.util
import io
import re
from typing import TYPE_CHECKING, Any, Final

from penstock import files
from penstock.report.figures import FOLDED, STYLE, figures, folded
from penstock.report.summary import best_lines, score_lines, step_lines, summary_of
from penstock.report.tables import class_table

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure

    from penstock.runs import RunFolder

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; --line: #8884; --ground: #8881 }}
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 1040px; margin: 2em auto; padding: 0 1em }}
h1 {{ font-size: 1.5em; overflow-wrap: anywhere }}
h2 {{ font-size: 1.15em; margin-top: 2em; border-bottom: 1px solid var(--line) }}
pre {{ background: var(--ground); padding: 1em; overflow-x: auto; font-size: 13px }}
img {{ max-width: 100%; background: #fff }} details {{ margin-top: 1em }}
summary {{ cursor: pointer; font-weight: 600 }}
dl {{ display: grid; grid-template-columns: 11em 1fr; gap: 0 1em }} dt {{ font-weight: 600 }} dd {{ margin: 0 }}
dd {{ overflow-wrap: anywhere }} .pair {{ display: flex; flex-wrap: wrap }}
.pair img {{ flex: 1 1 320px; min-width: 0 }}
@media (max-width: 600px) {{ dl {{ grid-template-columns: 1fr }} dd {{ margin: 0 0 .5em }} pre {{ font-size: 11px }} }}
{style}</style></head><body>
<h1>{title}</h1>
<dl>{summary}</dl>
{sections}
</body></html>
"""

_FED: Final = re.compile(r"step-(?P<step>\d{8})")
_PREDICTED: Final = re.compile(r"predictions-(?P<split>.+)-(?P<step>\d{8})")


def write_report(folder: RunFolder) -> Path:
    """Gather a run's metrics, evaluations and figures into its report.html."""
    with folder.reading("metrics.jsonl"):
        sections = [_curves(folder)]
        best = best_lines(score_lines(folder.lines("metrics.jsonl")))
    summary = summary_of(folder)
    sections += [*_evaluations(folder, {line["step"] for line in best.values()}), *_figures(folder)]
    sections += [_folded(folder, name) for name in ("recipe.toml", "environment.json")]
    listed = "".join(f"<dt>{html.escape(k)}</dt><dd>{html.escape(str(v))}</dd>" for k, v in summary.items())
    page = _PAGE.format(title=html.escape(folder.path.name), style=STYLE, summary=listed, sections="\n".join(sections))
    path = folder.path / "report.html"
    files.replace_whole(path, page.encode())
    return path


def _curves(folder: RunFolder) -> str:
    if importlib.util.find_spec("matplotlib") is None:
        return _section("Curves", "<p>Install <code>penstock[report]</code> to have them drawn.</p>")
    from matplotlib.figure import Figure  # noqa: PLC0415 - an extra

    metrics = folder.lines("metrics.jsonl")
    steps, scores = step_lines(metrics), score_lines(metrics)
    losses, ratings = (Figure(figsize=(4.2, 3), layout="constrained") for _ in range(2))
    left, right = losses.subplots(), ratings.subplots()
    left.plot([line["step"] for line in steps], [line["loss"] for line in steps], lw=0.4, color="#9bb")
    smooth = _smoothed([line["loss"] for line in steps])
    left.plot([line["step"] for line in steps], smooth, color="#155", label="training (smoothed)")
    lost = [line for line in scores if "loss" in line["evaluation"]]
    if lost:
        left.plot([s["step"] for s in lost], [s["evaluation"]["loss"] for s in lost], "o-", ms=3, label="evaluation")
    last = max([line["step"] for line in (*steps, *scores)], default=1)
    axis = {"xlabel": "step", "xlim": (0, 1.05 * last)}
    left.set(**axis, ylabel="loss", title="Loss")
    left.legend()
    for name in [key for key in (scores[-1]["evaluation"] if scores else ()) if key != "loss"]:
        right.plot([s["step"] for s in scores], [s["evaluation"][name] for s in scores], "o-", ms=3, label=name)
    right.set(**axis, ylim=(-0.02, 1.02), title="Scores")
    if scores:
        right.legend()
    images = _plotted(losses, "loss over steps") + _plotted(ratings, "scores over steps")
    return _section("Curves", f'<div class="pair">{images}</div>')


def _plotted(figure: Figure, text: str) -> str:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=150)
    return _image(buffer.getvalue(), text)


def _smoothed(values: list[float]) -> list[float]:
    """A running mean that forgets with 0.9, the first values weighed as if there had been nothing before them."""
    result, mean, weight = [], 0.0, 0.0
    for value in values:
        mean, weight = 0.9 * mean + 0.1 * value, 0.9 * weight + 0.1
        result.append(mean / weight)
    return result


def _evaluations(folder: RunFolder, best: set[int]) -> list[str]:
    """Of the evaluations during training the best ones and the last one, and those that were asked for by name and are
    no repetition of these.
    """
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
        augmentation = path.stem.partition(f"{scores['step']:08d}-")[2]
        details = ", ".join(filter(None, (when, augmentation)))
        title = f"Evaluation on {scores['split']} after step {scores['step']:,} ({details})"
        title += f": loss {loss}" if "loss" in scores else ""
        table = f"<pre>{html.escape(class_table(scores))}</pre>"
        if len(scores.get("classes") or []) > FOLDED:
            table = folded(f"Scores of {len(scores['classes']):,} classes", table)
        return _section(title, table + figures(scores))


def _figures(folder: RunFolder) -> list[str]:
    paths = sorted((folder.path / "figures").glob("*.png"))
    return [_section(_title(path.stem), _image(path.read_bytes(), path.stem)) for path in paths]


def _title(stem: str) -> str:
    """The heading of a figure, from the name of its file: step-00000001, or predictions-val-00000200."""
    if match := _FED.fullmatch(stem):
        return f"Images of step {int(match['step']):,}"
    if match := _PREDICTED.fullmatch(stem):
        return f"Predictions on {match['split']} after step {int(match['step']):,}"
    return stem


def _image(data: bytes, text: str) -> str:
    return f'<img alt="{html.escape(text)}" src="data:image/png;base64,{base64.b64encode(data).decode()}">'


def _folded(folder: RunFolder, name: str) -> str:
    """A file, to be unfolded by who wants to read it."""
    text = html.escape((folder.path / name).read_text(errors="replace"))
    return folded(name, f"<pre>{text}</pre>")


def _section(title: str, body: str) -> str:
    return f"<h2>{html.escape(title)}</h2>\n{body}"

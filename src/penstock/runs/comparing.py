"""How runs differ, and which of their scores may be compared."""

from __future__ import annotations

import html
import json
import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from penstock.errors import RunError
from penstock.progress import aligned, counted
from penstock.records import manifest
from penstock.records.manifest import RecordChanges
from penstock.runs.edits import edits
from penstock.runs.facts import RunFacts
from penstock.runs.folder import RunFolder
from penstock.runs.listing import DAMAGED, RunSummary, best_metric_of, summarize
from penstock.runs.paired import PairedDifference, differences

_MIN: Final = 2
_LONGEST: Final = 60  # letters of a value in a table
_OF_DATA: Final = ("data.path", "data.start", "data.until")

Values = tuple[Any, ...]


@dataclass(frozen=True)
class Spread:
    """A score over runs that differ in their seed alone.

    Attributes:
        runs: their names.
        mean: of the score.
        deviation: the standard deviation of a sample.
    """

    runs: tuple[str, ...]
    mean: float
    deviation: float


@dataclass(frozen=True)
class RunComparison:
    """In what runs differ. Each difference has one value for each run, in their order; None where a run has none.

    Attributes:
        runs: in the order in which they were named.
        metric: the score that decides in the first run.
        scores: all scores of the best evaluation of each run.
        common: scores of several runs on one dataset, as `penstock evaluate RUN RUN --on DATA` kept them.
        recipe: settings with different values.
        data: what was trained and evaluated on, where it differs.
        records: by split, how the records differ from those of the first run, where both have a manifest.
        code: the revision of the code, and the hashes of custom files, where they differ.
        environment: device, versions and the like, where they differ.
        cautions: why scores may not be compared, as sentences.
        spreads: the deciding score over runs that differ in their seed alone.
        paired: how each run differs from the first one image by image, where `penstock evaluate` scored both.
        edits: how custom files differ from those of the first run, as unified diffs.
    """

    runs: tuple[RunSummary, ...]
    metric: str = ""
    scores: Mapping[str, Values] = field(default_factory=dict)
    common: Mapping[str, Values] = field(default_factory=dict)
    recipe: Mapping[str, Values] = field(default_factory=dict)
    data: Mapping[str, Values] = field(default_factory=dict)
    records: Mapping[str, Values] = field(default_factory=dict)
    code: Mapping[str, Values] = field(default_factory=dict)
    environment: Mapping[str, Values] = field(default_factory=dict)
    cautions: tuple[str, ...] = ()
    spreads: tuple[Spread, ...] = ()
    paired: tuple[PairedDifference, ...] = ()
    edits: tuple[str, ...] = ()

    def __repr__(self) -> str:
        count = sum(map(len, (self.recipe, self.data, self.code, self.environment)))
        names = ", ".join(run.name for run in self.runs)
        return f"<RunComparison of {names}: {counted(count, 'difference')}, {counted(len(self.cautions), 'caution')}>"

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"

    def _records(self) -> list[str]:
        """How records differ, a line for each run and split."""
        return [
            f"{run.name}, records of {split} beside {self.runs[0].name}: {found}"
            for split, values in self.records.items()
            for run, found in zip(self.runs, values, strict=True)
            if found
        ]

    def lines(self) -> list[str]:
        """All of it as text: a column for each run."""
        names = tuple(run.name for run in self.runs)
        lines = [*self.cautions, ""] if self.cautions else []
        parts = {
            "scores of the best checkpoint": self.scores,
            **({"scores on the same data": self.common} if self.common else {}),
            "recipe": self.recipe,
            "data": self.data,
            "code": self.code,
            "environment": self.environment,
        }
        for title, values in parts.items():
            if values:
                lines += [*aligned([(title, *names), *_rows(values)]), ""]
            else:
                lines += [f"{title}: {'no evaluation' if values is self.scores else 'no difference'}", ""]
        if self.records:
            lines += [*self._records(), ""]
        for edit in self.edits:
            lines += [*edit.splitlines(), ""]
        return [*lines, *self.statistics] if self.statistics else lines[:-1]

    @property
    def statistics(self) -> list[str]:
        """What runs that differ by seed alone say, and what images do, a sentence each."""
        spreads = [
            f"{self.metric} over {counted(len(each.runs), 'seed')} ({', '.join(each.runs)}): mean {each.mean:.4f}, "
            f"standard deviation {each.deviation:.4f}"
            for each in self.spreads
        ]
        return [*spreads, *map(str, self.paired)]


def _rows(values: Mapping[str, Values]) -> list[tuple[str, ...]]:
    return [(f"  {name}", *(format_value(value, _LONGEST) for value in own)) for name, own in values.items()]


def format_value(value: Any, length: int) -> str:
    """A value of a difference as text; one that is longer than `length` letters is cut."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.6g}"
    text = str(value) if isinstance(value, str | RecordChanges) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= length else f"{text[: length - 3]}..."


def compare(paths: Sequence[Path]) -> RunComparison:
    """Compare runs by what their folders hold.

    Raises:
        RunError: there are fewer, or a file of one is missing or damaged.
    """
    if len(paths) < _MIN:
        raise RunError(
            "penstock compare",
            expected="at least two runs",
            found=str(len(paths)),
            remedy="Name several run folders, for example runs/0001-a runs/0002-b",
        )
    runs = [RunFacts.read(RunFolder.open(path)) for path in paths]
    metric = best_metric_of(runs[0].recipe, runs[0].scores) if runs[0].scores else ""
    return RunComparison(
        tuple(map(_summary, paths)),
        metric,
        _every([run.scores for run in runs]),
        _common(runs),
        _without(_different([{**run.recipe, **run.earlier} for run in runs]), *_OF_DATA),
        _different([run.data for run in runs]),
        _records(runs),
        _different([run.code for run in runs]),
        _different([run.environment for run in runs]),
        (*_cautions(runs), *_outdated(runs), *_unlisted(runs), *_notes(runs)),
        tuple(_spreads(runs, metric)),
        tuple(each for run in runs[1:] for each in differences((runs[0].name, run.name), runs[0].images, run.images)),
        tuple(edit for path in paths[1:] for edit in edits(paths[0], path)),
    )


def _common(runs: Sequence[RunFacts]) -> dict[str, Values]:
    """The scores that two or more runs have on data that one was scored on apart from its training."""
    keys = dict.fromkeys(key for run in runs for key in run.scored)
    found = {key: tuple(run.scored.get(key, run.training_scores.get(key)) for run in runs) for key in keys}
    several = {key: values for key, values in found.items() if len(values) - values.count(None) >= _MIN}
    return {f"{name} on {place}": values for (name, place), values in several.items()}


def _outdated(runs: Sequence[RunFacts]) -> Iterator[str]:
    """Why scores apart from those of the training are not those of the best checkpoint."""
    for run in runs:
        best = {place.step for _, place in run.training_scores}
        places = dict.fromkeys([*(place for place, _ in run.images), *(place for _, place in run.scored)])
        for place in places if best else ():
            if place.step not in best:
                yield (
                    f"{run.name}: its scores on {place} are those of step {place.step:,}, and its best checkpoint is "
                    f"that of step {min(best):,}. Evaluate it again."
                )


def _summary(path: Path) -> RunSummary:
    summary = summarize(path)
    if summary.state == DAMAGED:  # in a way that does not matter to what is compared
        raise RunError(
            str(path),
            expected="a run whose files can be read",
            found=summary.reason,
            remedy="Restore its files from a copy, or compare the other runs",
        )
    return summary


def _records(runs: Sequence[RunFacts]) -> dict[str, Values]:
    first = runs[0].entries

    def values(split: str) -> Values:
        return tuple(manifest.changes(first, run.entries, split) if run.entries else None for run in runs)

    found = {split: values(split) for split in dict.fromkeys(split for run in runs for split in run.entries)}
    return {split: values for split, values in found.items() if first and any(values)}


def _without(tree: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {key: value for key, value in tree.items() if key not in names}


def _every(trees: Sequence[Mapping[str, Any]]) -> dict[str, Values]:
    """The values of all trees by name, in the order in which names come first."""
    names = dict.fromkeys(name for tree in trees for name in tree)
    return {name: tuple(tree.get(name) for tree in trees) for name in names}


def _different(trees: Sequence[Mapping[str, Any]]) -> dict[str, Values]:
    return {name: values for name, values in _every(trees).items() if any(each != values[0] for each in values)}


def _unlisted(runs: Sequence[RunFacts]) -> list[str]:
    """Where data differs, and it is not known in which records."""
    without = [run.name for run in runs if not run.entries]
    if not without or len({run.data["content"] for run in runs}) == 1:
        return []
    return [f"Which records differ is not known: the data of {', '.join(without)} has no manifest."]


def _notes(runs: Sequence[RunFacts]) -> list[str]:
    return [f"{run.name} on {note}." for run in runs for note in run.notes]


def _cautions(runs: Sequence[RunFacts]) -> list[str]:
    """Why scores measure different things."""
    listed = all(run.entries for run in runs)
    checks: list[tuple[str, Callable[[RunFacts], Any]]] = [
        ("they learnt different tasks", lambda run: run.data["task"]),
        ("their classes or class ids differ", lambda run: run.data["classes"]),
        ("they ignore different labels", lambda run: run.data["ignore label"]),
        ("they were evaluated on different images", lambda run: run.evaluated_entries if listed else run.evaluated),
        ("they used different parts of the data (data.limit)", lambda run: run.recipe.get("data.limit")),
        ("images were evaluated at different sizes", lambda run: run.evaluated_size),
        ("only some are of averaged weights (train.ema_decay)", lambda run: bool(run.recipe.get("train.ema_decay"))),
        ("the code that computes scores differs", lambda run: run.code_of("train.metrics", "task")),
    ]
    differ = [why for why, of in checks if any(of(run) != of(runs[0]) for run in runs)]
    found = [f"Scores may not be compared: {why}." for why in differ]
    if any(run.loss != runs[0].loss for run in runs):
        found.append("Losses may not be compared: the runs minimise different ones.")
    if missing := sum(not run.scores for run in runs):
        found.append(f"{missing} of {len(runs)} runs {'was' if missing == 1 else 'were'} never evaluated.")
    return found


def _spreads(runs: Sequence[RunFacts], metric: str) -> list[Spread]:
    """The score over runs that differ in their seed alone."""
    groups: dict[str, list[RunFacts]] = {}
    for run in runs:
        same = {**_without(run.recipe, "seed"), **run.earlier, **_without(run.code, "revision", "uncommitted")}
        groups.setdefault(repr((run.data["content"], sorted(same.items()))), []).append(run)
    found = []
    for group in groups.values():
        known = [float(run.scores[metric]) for run in group if metric in run.scores]
        known = [value for value in known if math.isfinite(value)]
        if len(known) >= _MIN and len({repr(run.recipe.get("seed")) for run in group}) == len(group):
            names = tuple(run.name for run in group)
            found.append(Spread(names, statistics.fmean(known), statistics.stdev(known)))
    return found

"""In what runs differ, and which of their scores may be compared."""

from __future__ import annotations

import contextlib
import json
import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.errors import RunError
from penstock.progress import aligned, counted
from penstock.records import manifest
from penstock.records.manifest import RecordChanges
from penstock.runs.folder import RunFolder
from penstock.runs.listing import DAMAGED, RunSummary, best_metric_of, best_of, read_recipe, summarize

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from penstock.records.manifest import ManifestEntry

_MIN: Final = 2
_LONGEST: Final = 60  # letters of a value in a table
_OF_DATA: Final = ("data.path", "data.start", "data.until")
_SIZES: Final = ("augment.resize_range", "augment.view.crop_pct", "train.sliding_window")
"""Settings of the size at which images are evaluated."""
_CROPPED: Final = frozenset({"resized-crop", "pad-crop"})
"""Methods after which images are evaluated at the size of the crop, and not at their own."""

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
        common: scores of all runs on other data than their own, as `penstock evaluate RUN RUN --on DATA` kept them.
        recipe: settings with different values.
        data: what was trained and evaluated on, where it differs.
        records: by split, how the records differ from those of the first run, where both have a manifest.
        code: the revision of the code, and the hashes of custom files, where they differ.
        environment: device, versions and the like, where they differ.
        cautions: why scores may not be compared, as sentences.
        spreads: the deciding score over runs that differ in their seed alone.
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

    def __repr__(self) -> str:
        count = sum(map(len, (self.recipe, self.data, self.code, self.environment)))
        names = ", ".join(run.name for run in self.runs)
        return f"<RunComparison of {names}: {counted(count, 'difference')}, {counted(len(self.cautions), 'caution')}>"

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
        for each in self.spreads:
            lines.append(
                f"{self.metric} over {counted(len(each.runs), 'seed')} ({', '.join(each.runs)}): mean {each.mean:.4f}, "
                f"standard deviation {each.deviation:.4f}"
            )
        return lines if self.spreads else lines[:-1]


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
    folders = [RunFolder.open(path) for path in paths]
    recipes = [_recipe(folder) for folder in folders]
    earlier = [_earlier(folder) for folder in folders]
    best = [best_of(folder.lines("metrics.jsonl")) for folder in folders]
    scores = [_scores(folder, line) for folder, line in zip(folders, best, strict=True)]
    data = [_data(folder, recipe) for folder, recipe in zip(folders, recipes, strict=True)]
    entries = [_entries(folder) for folder in folders]
    data = [_with_records(each, of) for each, of in zip(data, entries, strict=True)] if all(entries) else data
    environments = [folder.read_json("environment.json") for folder in folders]
    code = [_code(folder, each) for folder, each in zip(folders, environments, strict=True)]
    metric = best_metric_of(recipes[0], scores[0]) if scores[0] else ""
    learnt = _different([{**recipe, **before} for recipe, before in zip(recipes, earlier, strict=True)])
    facts = [_Facts(*each) for each in zip(recipes, earlier, data, code, scores, strict=True)]
    return RunComparison(
        tuple(map(_summary, paths)),
        metric,
        _every(scores),
        _common([_scored(folder) for folder in folders]),
        _without(learnt, *_OF_DATA),
        _different([_without(each, "snapshot") for each in data]),
        _records(entries),
        _different(code),
        _different([_circumstances(folder, each) for folder, each in zip(folders, environments, strict=True)]),
        (*_cautions(facts), *_unlisted(paths, data, entries)),
        tuple(_spreads(paths, facts, metric)),
    )


def _scores(folder: RunFolder, best: Mapping[str, Any]) -> dict[str, Any]:
    with folder.reading("metrics.jsonl"):
        return {name: best["evaluation"][name] for name in best.get("evaluation", {})}


def _scored(folder: RunFolder) -> dict[str, float]:
    """The scores of a run on other data than its own; those of the latest evaluation of each kind."""
    found: dict[str, float] = {}
    for path in sorted((folder.path / "evaluations").glob("*-on-*.json"), key=lambda path: path.stat().st_mtime):
        name = f"evaluations/{path.name}"
        with folder.reading(name):
            values = folder.read_json(name, "split", "content", "data")
            how = [str(each) for each in (values.get("tta"), values.get("window")) if each]
            place = ", ".join([f"{values['data']} ({str(values['content'])[:8]}), {values['split']}", *how])
            scores = {each: value for each, value in values.items() if isinstance(value, float) and each != "loss"}
            found |= {f"{each} on {place}": value for each, value in scores.items()}
    return found


def _common(runs: Sequence[Mapping[str, float]]) -> dict[str, Values]:
    return {name: tuple(run[name] for run in runs) for name in runs[0] if all(name in run for run in runs)}


def _summary(path: Path) -> RunSummary:
    summary = summarize(path)
    if summary.state == DAMAGED:  # in a way that does not matter to what is compared
        raise RunError(
            str(path),
            expected="a run whose files can be read",
            found="values that Penstock did not write",
            remedy="Restore its files from a copy, or compare the other runs",
        )
    return summary


def _data(folder: RunFolder, recipe: Mapping[str, Any]) -> dict[str, Any]:
    """What a run was trained and evaluated on."""
    with folder.reading("data.json"):
        tree = folder.read_json("data.json", "snapshots")
        described = tree.get("described") or {}
        split = str(recipe.get("data.validation", ""))
        evaluated = tree["snapshots"].get(split) or {}
        return {
            "path": recipe.get("data.path"),
            "content": tree.get("content"),
            "task": described.get("task"),
            "classes": described.get("classes"),
            "ignore label": described.get("ignore_label"),
            "records": {name: each["records"] for name, each in (described.get("splits") or {}).items()},
            "evaluated on": split,
            "snapshot": evaluated.get("partitions"),
        }


def _entries(folder: RunFolder) -> Mapping[str, Sequence[ManifestEntry]]:
    """What the manifest of a run's data says, by split; nothing where there is none that can be read."""
    with contextlib.suppress(OSError, ValueError):
        return manifest.read(folder.path / manifest.NAME)
    return {}


def _with_records(data: Mapping[str, Any], entries: Mapping[str, Sequence[ManifestEntry]]) -> dict[str, Any]:
    """The data of a run with the very records that it was evaluated on, however they are cut into shards."""
    return {**data, "snapshot": sorted(entries.get(str(data["evaluated on"]), ()))}


def _records(runs: Sequence[Mapping[str, Sequence[ManifestEntry]]]) -> dict[str, Values]:
    """How the records of runs differ from those of the first one, by split."""
    found = {
        split: tuple(manifest.changes(runs[0].get(split, ()), run.get(split, ())) if run else None for run in runs)
        for split in dict.fromkeys(split for run in runs for split in run)
    }
    return {split: values for split, values in found.items() if runs[0] and any(values)}


def _recipe(folder: RunFolder) -> dict[str, Any]:
    """The settings of a run; where it keeps the weights that it began with, their hash says more than their path."""
    recipe = read_recipe(folder)
    if folder.initial:
        recipe.pop("init" if recipe.get("init") else "model.weights", None)
    return recipe


def _earlier(folder: RunFolder) -> dict[str, Any]:
    """The settings of a run that was gone on with by others: those that it had until then, and until which step."""
    with folder.reading("events.jsonl"):
        changes = [event for event in folder.lines("events.jsonl") if event.get("event") == "changed"]
        return {
            f"{name} until step {event['step']:,}": before
            for event in changes
            for name, (before, _) in event["settings"].items()
        }


def _code(folder: RunFolder, environment: Mapping[str, Any]) -> dict[str, Any]:
    """Revision, the custom files by what names them, and the weights that were begun with where they are kept."""
    settings = folder.read_json("settings.json") if (folder.path / "settings.json").is_file() else {}
    git = {name: environment.get(name) for name in ("revision", "uncommitted")}
    with folder.reading("settings.json"):
        files = {str(name): value for name, value in dict(settings.get("code", {})).items()}
        return {**git, **files, "initial weights": settings.get("initial")}


def _circumstances(folder: RunFolder, environment: Mapping[str, Any]) -> dict[str, Any]:
    """Device, ranks and versions, one by one."""
    names = ("python", "platform", "cores", "device", "threads", "ranks", "exact")
    with folder.reading("environment.json"):
        return {**{name: environment.get(name) for name in names}, **dict(environment.get("packages") or {})}


def _without(tree: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {key: value for key, value in tree.items() if key not in names}


def _every(trees: Sequence[Mapping[str, Any]]) -> dict[str, Values]:
    """The values of all trees by name, in the order in which names come first."""
    names = dict.fromkeys(name for tree in trees for name in tree)
    return {name: tuple(tree.get(name) for tree in trees) for name in names}


def _different(trees: Sequence[Mapping[str, Any]]) -> dict[str, Values]:
    return {name: values for name, values in _every(trees).items() if any(each != values[0] for each in values)}


def _unlisted(
    paths: Sequence[Path], data: Sequence[Mapping[str, Any]], entries: Sequence[Mapping[str, Any]]
) -> list[str]:
    """Where data differs, and it is not known in which records."""
    without = [path.name for path, each in zip(paths, entries, strict=True) if not each]
    if not without or len({each["content"] for each in data}) == 1:
        return []
    return [f"Which records differ is not known: the data of {', '.join(without)} has no manifest."]


class _Facts(NamedTuple):
    """What a run's scores follow from: its settings, those of before, its data and code; and the scores."""

    recipe: Mapping[str, Any]
    earlier: Mapping[str, Any]
    data: Mapping[str, Any]
    code: Mapping[str, Any]
    scores: Mapping[str, Any]

    @property
    def loss(self) -> tuple[Any, ...]:
        """What it minimises."""
        settings = {name: value for name, value in self.recipe.items() if name.startswith("loss.")}
        return settings, self.code_of("loss.custom")

    def code_of(self, *settings: str) -> list[tuple[str, Any]]:
        """The files that some settings name, with their hashes."""
        named = json.dumps([self.recipe.get(name, "") for name in settings], default=str)
        return [(name, value) for name, value in self.code.items() if f'"{name}:' in named]


def _cautions(runs: Sequence[_Facts]) -> list[str]:
    """Why scores measure different things."""
    checks: list[tuple[str, Callable[[_Facts], Any]]] = [
        ("they learnt different tasks", lambda run: run.data["task"]),
        ("they have different classes", lambda run: run.data["classes"]),
        ("they ignore different labels", lambda run: run.data["ignore label"]),
        ("they were evaluated on different images", lambda run: run.data["snapshot"]),
        ("they used different parts of the data (data.limit)", lambda run: run.recipe.get("data.limit")),
        ("images were evaluated at different sizes", lambda run: _evaluated_size(run.recipe)),
        ("only some are of averaged weights (train.ema_decay)", lambda run: bool(run.recipe.get("train.ema_decay"))),
        ("the code that computes scores differs", lambda run: run.code_of("train.metrics", "task")),
    ]
    found = []
    for why, of in checks:
        if any(of(run) != of(runs[0]) for run in runs):
            found.append(f"Scores may not be compared: {why}.")
    losses = [
        ({k: v for k, v in run.recipe.items() if k.startswith("loss.")}, run.code_of("loss.custom")) for run in runs
    ]
    if any(each != losses[0] for each in losses):
        found.append("Losses may not be compared: the runs minimise different ones.")
    if missing := sum(not run.scores for run in runs):
        found.append(f"{missing} of {len(runs)} runs were never evaluated.")
    return found


def _evaluated_size(recipe: Mapping[str, Any]) -> list[Any]:
    """The settings that the size of images depends on in evaluation."""
    crop = recipe.get("augment.crop") if recipe.get("augment.view.name") in _CROPPED else None
    return [crop, *(recipe.get(name) for name in _SIZES)]


def _spreads(paths: Sequence[Path], runs: Sequence[_Facts], metric: str) -> list[Spread]:
    """The score over runs that differ in their seed alone."""
    groups: dict[str, list[int]] = {}
    for number, run in enumerate(runs):
        same = {**_without(run.recipe, "seed"), **run.earlier, **_without(run.code, "revision", "uncommitted")}
        groups.setdefault(repr((run.data["content"], sorted(same.items()))), []).append(number)
    found = []
    for numbers in groups.values():
        known = [float(runs[number].scores[metric]) for number in numbers if metric in runs[number].scores]
        seeds = {runs[number].recipe.get("seed") for number in numbers}
        if len(known) >= _MIN and len(seeds) == len(numbers):
            names = tuple(paths[number].name for number in numbers)
            found.append(Spread(names, statistics.fmean(known), statistics.stdev(known)))
    return found

"""What the scores of a run follow from, as its folder says it: settings, data, code and environment."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from penstock.records import manifest
from penstock.records.manifest import ManifestEntry
from penstock.runs.folder import RunFolder
from penstock.runs.listing import best_of, read_recipe
from penstock.runs.paired import Place, place_of, read_images

_SIZES: Final = ("augment.resize_range", "augment.view.crop_pct", "train.sliding_window")
"""Settings of the size at which images are evaluated."""
_CROPPED: Final = frozenset({"resized-crop", "pad-crop"})
"""Methods after which images are evaluated at the size of the crop, and not at their own."""
_CIRCUMSTANCES: Final = ("python", "platform", "cores", "device", "threads", "ranks", "exact")


@dataclass(frozen=True)
class RunFacts:
    """One run.

    Attributes:
        name: of its folder.
        recipe: its settings. Where it keeps the weights that it began with, their hash in `code` says more than the
            path, which is left out.
        earlier: settings that it had before it was resumed with others, and until which step.
        data: what it was trained and evaluated on.
        evaluated: the partitions that it was evaluated on.
        entries: what the manifest of its data says, by split; nothing where there is none that can be read.
        code: revision, custom files by name, and the weights that it began with, by their hashes.
        environment: device, ranks and versions, one by one.
        scores: of its best evaluation.
        scored: scores on other data than its own.
        training_scores: scores of its best evaluation, by what was evaluated.
        images: scores of each image, by what was evaluated and by metric.
        notes: what is to be known of scores on other data, by what was evaluated.
    """

    name: str
    recipe: Mapping[str, Any]
    earlier: Mapping[str, Any]
    data: Mapping[str, Any]
    evaluated: Any
    entries: Mapping[str, Sequence[ManifestEntry]]
    code: Mapping[str, Any]
    environment: Mapping[str, Any]
    scores: Mapping[str, Any]
    scored: Mapping[tuple[str, Place], float]
    training_scores: Mapping[tuple[str, Place], float]
    images: Mapping[tuple[Place, str], Mapping[str, float]]
    notes: Sequence[str]

    @classmethod
    def read(cls, folder: RunFolder) -> RunFacts:
        """Read the facts from a run folder.

        Raises:
            RunError: a file is missing or damaged.
        """
        recipe, environment = read_recipe(folder), folder.read_json("environment.json")
        data, evaluated = _data(folder, recipe)
        best, on_other_data = _best(folder), _on_other_data(folder)
        if folder.initial:
            recipe.pop("init" if recipe.get("init") else "model.weights", None)
        return cls(
            folder.path.name, recipe, _earlier(folder), data, evaluated, _entries(folder), _code(folder, environment),
            _circumstances(folder, environment), best.get("evaluation", {}), _scored(on_other_data),
            _training_scores(folder, data, best), read_images(folder, str(data["content"])),
            [f"{place}: {note}" for place, values in on_other_data for note in values["notes"]],
        )  # fmt: skip

    @property
    def loss(self) -> tuple[Any, ...]:
        """The settings and the custom code of the losses that the run minimises."""
        settings = {name: value for name, value in self.recipe.items() if name.startswith("loss.")}
        return settings, self.code_of("loss.custom")

    @property
    def evaluated_size(self) -> list[Any]:
        """The settings that the size of images depends on in evaluation."""
        crop = self.recipe.get("augment.crop") if self.recipe.get("augment.view.name") in _CROPPED else None
        return [crop, *(self.recipe.get(name) for name in _SIZES)]

    @property
    def evaluated_entries(self) -> list[ManifestEntry]:
        """The records that it was evaluated on, however they are cut into shards."""
        return sorted(self.entries.get(str(self.data["evaluated on"]), ()))

    def code_of(self, *settings: str) -> list[tuple[str, Any]]:
        """The files that some settings name, with their hashes."""
        named = json.dumps([self.recipe.get(name, "") for name in settings], default=str)
        return [(name, value) for name, value in self.code.items() if f'"{name}:' in named]


def _best(folder: RunFolder) -> Mapping[str, Any]:
    """The line of its best evaluation; empty for none."""
    with folder.reading("metrics.jsonl"):
        return best_of(folder.lines("metrics.jsonl"))


def _on_other_data(folder: RunFolder) -> list[tuple[Place, Mapping[str, Any]]]:
    """The evaluations on other data, the latest last."""
    found: list[tuple[Place, Mapping[str, Any]]] = []
    for path in sorted((folder.path / "evaluations").glob("*-on-*.json"), key=lambda path: path.stat().st_mtime):
        name = f"evaluations/{path.name}"
        with folder.reading(name):
            values = folder.read_json(name, "split", "content", "data")
            found.append((place_of(values, ""), {**values, "notes": list(values.get("notes") or ())}))
    return found


def _scored(evaluations: Sequence[tuple[Place, Mapping[str, Any]]]) -> dict[tuple[str, Place], float]:
    """The scores on other data; those of the latest evaluation of each kind."""
    found: dict[tuple[str, Place], float] = {}
    for place, values in evaluations:
        for each, value in _numbers(values).items():
            found.pop((each, place), None)  # whose place has another step, though it is equal
            found[each, place] = value
    return found


def _training_scores(
    folder: RunFolder, data: Mapping[str, Any], best: Mapping[str, Any]
) -> dict[tuple[str, Place], float]:
    """The scores of the best evaluation in training, as those of an evaluation on the data of the run."""
    if not best:
        return {}
    with folder.reading("metrics.jsonl"):
        about = {"split": data["evaluated on"], "step": best["step"], "data": data["path"]}
        place = place_of(about, str(data["content"]))
        return {(name, place): value for name, value in _numbers(best["evaluation"]).items()}


def _numbers(values: Mapping[str, Any]) -> dict[str, float]:
    return {name: value for name, value in values.items() if isinstance(value, float) and name != "loss"}


def _data(folder: RunFolder, recipe: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
    with folder.reading("data.json"):
        tree = folder.read_json("data.json", "snapshots")
        described = tree.get("described") or {}
        split = str(recipe.get("data.validation", ""))
        evaluated = tree["snapshots"].get(split) or {}
        data = {
            "path": recipe.get("data.path"),
            "content": tree.get("content"),
            "task": described.get("task"),
            "classes": described.get("classes"),
            "ignore label": described.get("ignore_label"),
            "records": {name: each["records"] for name, each in (described.get("splits") or {}).items()},
            "evaluated on": split,
        }
        return data, evaluated.get("partitions")


def _entries(folder: RunFolder) -> Mapping[str, Sequence[ManifestEntry]]:
    with contextlib.suppress(OSError, ValueError):
        return manifest.read(folder.path / manifest.NAME)
    return {}


def _earlier(folder: RunFolder) -> dict[str, Any]:
    with folder.reading("events.jsonl"):
        changes = [event for event in folder.lines("events.jsonl") if event.get("event") == "changed"]
        return {
            f"{name} until step {event['step']:,}": before
            for event in changes
            for name, (before, _) in event["settings"].items()
        }


def _code(folder: RunFolder, environment: Mapping[str, Any]) -> dict[str, Any]:
    settings = folder.read_json("settings.json") if (folder.path / "settings.json").is_file() else {}
    git = {name: environment.get(name) for name in ("revision", "uncommitted")}
    with folder.reading("settings.json"):
        files = {str(name): value for name, value in dict(settings.get("code", {})).items()}
        return {**git, **files, "initial weights": settings.get("initial")}


def _circumstances(folder: RunFolder, environment: Mapping[str, Any]) -> dict[str, Any]:
    with folder.reading("environment.json"):
        return {**{name: environment.get(name) for name in _CIRCUMSTANCES}, **dict(environment.get("packages") or {})}

"""How two runs differ image by image, where `penstock evaluate` has scored both on the same images."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.runs.folder import RunFolder

ImageScores = Mapping[str, float]

_SAMPLES: Final = 1000
_FURTHEST: Final = 5


@dataclass(frozen=True)
class PairedDifference:
    """How the scores of two runs differ over the same images.

    Attributes:
        runs: the names of both.
        metric: the score.
        place: the split, and the data where it is not that of the runs.
        images: how many.
        mean: of the second run's score minus the first one's, each of one image.
        low, high: the interval that holds 95 % of the means of 1,000 bootstrap samples of the images (Efron, 1979).
        furthest: the images whose scores differ most: name, score of the first run, score of the second one.
    """

    runs: tuple[str, str]
    metric: str
    place: str
    images: int
    mean: float
    low: float
    high: float
    furthest: tuple[tuple[str, float, float], ...]

    def __str__(self) -> str:
        if not self.furthest:
            return (
                f"{self.metric} of each of {self.images:,} images of {self.place}: equal in {' and '.join(self.runs)}"
            )
        chance = ", which may be chance" if self.low <= 0 <= self.high else "; another seed may change it too"
        furthest = ", ".join(f"{name} ({first:.3f} to {second:.3f})" for name, first, second in self.furthest)
        return (
            f"{self.metric} of each of {self.images:,} images of {self.place}, {self.runs[1]} minus {self.runs[0]}: "
            f"{self.mean:+.4f} on average, 95 % interval {self.low:+.4f} to {self.high:+.4f}{chance}; "
            f"most in {furthest}"
        )


@dataclass(frozen=True)
class Place:
    """What an evaluation was done on, and how: equal where two may be compared, wherever the data was.

    Attributes:
        key: the hash of the data, the split, and the settings of the evaluation.
        data: where the data was; "data" for that of the run.
        step: of the weights.
    """

    key: tuple[str, ...]
    data: str = field(compare=False)
    step: int = field(default=0, compare=False)

    def __str__(self) -> str:
        held, *how = self.key
        return ", ".join([f"{self.data} ({held})", *how])


def read_images(folder: RunFolder, content: str) -> dict[tuple[Place, str], ImageScores]:
    """The scores of images by place and metric, of the latest evaluation of each.

    Args:
        folder: of the run.
        content: the hash of the data that it learnt from.
    """
    found: dict[tuple[Place, str], ImageScores] = {}
    for path in sorted((folder.path / "evaluations").glob("*.csv"), key=lambda path: path.stat().st_mtime):
        name = f"evaluations/{path.with_suffix('.json').name}"
        with folder.reading(name):
            place = place_of(folder.read_json(name, "split"), content)
        with folder.reading(f"evaluations/{path.name}"):
            metric, scores = _scores(folder.read_bytes(f"evaluations/{path.name}").decode())
            found.pop((place, metric), None)  # whose place has another step, though it is equal
            found[place, metric] = scores
    return found


def place_of(evaluation: Mapping[str, Any], content: str) -> Place:
    """What an evaluation was done on, and how."""
    how = [in_words(each) for each in (evaluation.get("tta"), evaluation.get("window")) if each]
    key = (str(evaluation.get("content", content))[:8], str(evaluation["split"]), *how)
    return Place(key, str(evaluation.get("data", "data")), int(evaluation.get("step", 0)))


def in_words(settings: Mapping[str, Any]) -> str:
    """The settings of test-time augmentation or of a sliding window that are not off: scales 0.75 1.25, flip."""
    given = {name: value for name, value in settings.items() if value and value != [1.0]}
    lists = {name: " ".join(map(str, value)) for name, value in given.items() if isinstance(value, list)}
    return ", ".join(name if value is True else f"{name} {lists.get(name, value)}" for name, value in given.items())


def _scores(table: str) -> tuple[str, ImageScores]:
    """The name of a score and its value by image; of an image that comes again by its number too.

    Raises:
        ValueError: it is no such table.
    """
    counts, scores = Counter[str](), {}
    try:
        (_, _, _, metric), *rows = csv.reader(table.splitlines())
    except csv.Error as error:
        raise ValueError(error) from None
    for name, _, _, value in rows:
        counts[name] += 1
        if value:
            scores[f"{name} ({counts[name]})" if counts[name] > 1 else name] = float(value)
    return metric, scores


def differences(
    names: tuple[str, str],
    first: Mapping[tuple[Place, str], ImageScores],
    second: Mapping[tuple[Place, str], ImageScores],
) -> Iterator[PairedDifference]:
    """The differences of two runs over images that both were scored on."""
    for place, metric in first:
        other = second.get((place, metric), {})
        pairs = {name: (score, other[name]) for name, score in first[place, metric].items() if name in other}
        if pairs:
            yield _difference(names, metric, str(place), pairs)


def _difference(
    names: tuple[str, str], metric: str, place: str, pairs: Mapping[str, tuple[float, float]]
) -> PairedDifference:
    import numpy as np  # noqa: PLC0415 - a list of runs needs none

    gains = np.array([second - first for first, second in pairs.values()])
    random = np.random.Generator(np.random.Philox(0))
    means = [gains[random.integers(0, len(gains), len(gains))].mean() for _ in range(_SAMPLES)]
    low, high = (float(each) for each in np.quantile(means, (0.025, 0.975)))
    order = sorted(pairs, key=lambda name: (-abs(pairs[name][1] - pairs[name][0]), name))
    furthest = tuple((name, *pairs[name]) for name in order[:_FURTHEST] if pairs[name][0] != pairs[name][1])
    return PairedDifference(names, metric, place, len(pairs), float(gains.mean()), low, high, furthest)

"""What a model reaches on each image of an evaluation by itself."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from penstock.datasets import Dataset
from penstock.ranks import Ranks
from penstock.records import manifest
from penstock.session.best import BestMetric
from penstock.tasks import Task
from penstock.tasks.roles import Tensors


class ImageScore(NamedTuple):
    """What a model reaches on one image, or slice of a volume.

    Attributes:
        position: in the evaluation's order.
        loss: the mean over what counts of it; None of tasks that have no loss in evaluation.
        score: as the deciding score is, but of this image alone; NaN where one image has none.
        badness: the loss, or else how bad the score is. Larger is worse.
        text: the loss or the score, for people.
    """

    position: int
    loss: float | None
    score: float
    badness: float
    text: str


@dataclass
class ImageScorer:
    """Looks at each sample of an evaluation by itself."""

    task: Task
    _found: list[ImageScore] = field(default_factory=list, init=False)

    def look(self, outputs: Any, tensors: Tensors, positions: Sequence[int]) -> None:
        """Look at the samples of a batch."""
        for row, position in enumerate(positions):
            part = {name: tensor[row : row + 1] for name, tensor in tensors.items()}
            self._found.append(self._judged(outputs[row : row + 1], part, position))

    def of(self, ranks: Ranks) -> tuple[ImageScore, ...]:
        """The scores from all ranks, in the order of the evaluation. All ranks must call this."""
        texts = ranks.gather([json.dumps(each) for each in self._found])
        return tuple(sorted(ImageScore(*json.loads(text)) for text in texts))

    def _judged(self, outputs: Any, part: Tensors, position: int) -> ImageScore:
        score, signed = self._score(outputs, part)
        if self.task.evaluates_loss:
            counts = self.task.count(part).cpu()
            loss = float((self.task.loss(outputs, part).detach().cpu() / counts.clamp(min=1)).sum())
            return ImageScore(position, loss, score, loss if math.isfinite(loss) else math.inf, f"loss {loss:.3f}")
        badness = -math.inf if math.isnan(signed) else -signed  # there is nothing to be found
        return ImageScore(position, None, score, badness, f"{self.task.best_metric} {score:.3f}")

    def _score(self, outputs: Any, part: Tensors) -> tuple[float, float]:
        """The deciding score of one image, and the same so that a larger one is better."""
        metric, deciding = self.task.metric(), BestMetric.of(self.task, "")
        try:
            metric.update(outputs, part, ["this one"])
            scores = metric.scores()
        except (ArithmeticError, ValueError):  # of a custom metric that needs several images
            return math.nan, math.nan
        return scores.summary()[deciding.name], deciding.value(scores)


def worst(found: Sequence[ImageScore], count: int) -> tuple[ImageScore, ...]:
    """The images that a model does worst on, the worst first."""
    return tuple(sorted(found, key=lambda each: (-each.badness, each.position))[:count])


def as_csv(found: Sequence[ImageScore], origins: Sequence[str], names: Mapping[str, str], metric: str) -> bytes:
    """A table of images: name, record, loss and score."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(("image", "record", "loss", metric))
    for each, origin in zip(found, origins, strict=True):
        table.writerow((names.get(origin) or origin, origin, *map(_number, (each.loss, each.score))))
    return text.getvalue().encode(errors="backslashreplace")


def _number(value: float | None) -> str:
    return "" if value is None or math.isnan(value) else f"{value:.6g}"


def names_of(dataset: Dataset, split: str) -> dict[str, str]:
    """The names of a split's records by their origins, where the dataset has a manifest."""
    try:
        entries = iter(manifest.read(dataset.manifest)[split]) if dataset.manifest else iter(())
    except (OSError, ValueError, KeyError):  # verify says what is wrong with it
        return {}
    origins = (f"{shard.name}#{number}" for shard in dataset.split(split).shards for number in range(shard.records))
    return {origin: entry.name for origin, entry in zip(origins, entries, strict=False)}

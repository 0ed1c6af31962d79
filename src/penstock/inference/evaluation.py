"""The scores of a run's model on a split."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from penstock import files
from penstock import ranks as ranking
from penstock.datasets import Dataset
from penstock.datasets.renumbering import differences
from penstock.errors import DatasetError
from penstock.inference import per_image
from penstock.inference.model import TrainedModel
from penstock.inference.per_image import ImageScore
from penstock.progress import counted
from penstock.ranks import Ranks
from penstock.records import manifest
from penstock.runs import RunFolder
from penstock.session.evaluation import as_record, evaluate
from penstock.tasks.abilities import required
from penstock.tasks.scoring import Scores


@dataclass(frozen=True)
class Evaluation:
    """What an evaluation of a run's model on a split found.

    Attributes:
        split: the split.
        step: of the weights.
        loss: the mean over all that counts; None where the model gives none.
        scores: by `summary()` in one line, by `as_json()` all of them.
        images: what the model reaches on each image by itself, in the order of the evaluation.
        worst: the images that the model does worst on, where they were asked for.
        notes: on the classes that only the run or only the data of `on` has.
        cost: parameters and operations of the model, in words; "" until `Run.evaluate` has counted them.
        figures: the files that were drawn.
    """

    split: str
    step: int
    loss: float | None
    scores: Scores
    images: tuple[ImageScore, ...] = ()
    worst: tuple[ImageScore, ...] = ()
    notes: tuple[str, ...] = ()
    cost: str = ""
    figures: tuple[Path, ...] = ()

    def __repr__(self) -> str:
        scores = ", ".join(f"{name} {value:.4f}" for name, value in self.scores.summary().items())
        return f"<Evaluation of {self.split}, step {self.step:,}: {scores}>"

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(repr(self))}\n{html.escape(self.table)}</pre>"

    @property
    def table(self) -> str:
        """The scores class by class, as text."""
        return self.scores.table()

    def as_json(self) -> dict[str, Any]:
        """What was found, but for the scores of each image, as JSON holds it."""
        scores = as_record(self.loss, self.scores)
        about = {"split": self.split, "step": self.step, "images": len(self.images), "model": self.cost}
        return {**about, **scores, "notes": self.notes, "figures": self.figures}


def evaluation_name(trained: TrainedModel, split: str) -> str:
    """What the files of an evaluation are called."""
    window = trained.window.name if trained.window else ""
    scored = trained.parts.scored
    on = f"on-{scored.description.content[:8]}" if scored else ""
    return "-".join(filter(None, (split, f"{trained.step:08d}", trained.tta.name, window, on)))


def evaluate_run(
    path: Path,
    trained: TrainedModel,
    split: str = "",
    progress: Callable[[int, int], None] | None = None,
    *,
    segments: bool = False,
    worst: int = 0,
    ranks: Ranks = ranking.Ranks(),  # noqa: B008 - frozen
) -> Evaluation:
    """Evaluate a run's model on a split, by default the one used in training. The scores are kept in the run's
    `evaluations/`, as JSON, and those of each image as CSV.

    Args:
        path: the run folder.
        trained: its model.
        split: "" takes the one used in training.
        progress: called with the images done and those in all.
        segments: whether masks are scored by boundary IoU and panoptic quality too.
        worst: how many images to name that the model does worst on.
        ranks: who score together; the first of them keeps what they find.

    Raises:
        RecipeError: segments are asked for of what are no masks.
        DatasetError: there is no such split.
        DataError: a record is not what it should be.
    """
    recipe = trained.parts.recipe
    split = split or recipe.data.validation
    if not split:
        raise DatasetError(
            str(path),
            remedy=f"Choose a split with --split: {', '.join(trained.parts.dataset.description.splits)}",
            message=f"{path} was trained without a validation split, so evaluate has no default.",
        )
    task, feed = trained.parts.evaluation(split, ranks.batch_slice)
    if segments:
        task = required(task.with_segments(), task, "Scoring boundaries and segments", "--segments")
    looking = per_image.ImageScorer(task)
    result = evaluate(
        task,
        trained.evaluated,
        feed,
        device=trained.device,
        ranks=ranks,
        precision=recipe.train.precision,
        progress=progress,
        metrics=recipe.train.metrics,
        look=looking.look,
    )
    assert result is not None  # noqa: S101 - nothing stops it
    images = looking.of(ranks)
    scored, learnt = trained.parts.scored, trained.parts.dataset.description
    notes = (*differences(scored.description, learnt), *_learnt(RunFolder(path), scored, split)) if scored else ()
    found = Evaluation(split, trained.step, result[1], result[0], images, per_image.worst(images, worst), notes)
    if ranks.is_main:
        _keep(RunFolder(path), trained, found, [feed.plan.at(each.position).origin for each in images])
    return found


def _learnt(folder: RunFolder, scored: Dataset, split: str) -> tuple[str, ...]:
    """A note of images that the run was trained on, as far as both have manifests."""
    try:
        trained = {entry.image for entry in manifest.read(folder.path / manifest.NAME).get("train", ())}
        images = [entry.image for entry in manifest.read(scored.manifest).get(split, ())] if scored.manifest else []
    except (OSError, ValueError):  # verify says what is wrong with it
        return ()
    count = sum(image in trained for image in images)
    if not count:
        return ()
    found = f"the run was trained on {count:,} of the {counted(len(images), 'image')} of {split}"
    return (f"{found}: scores on them say little of other images",)


def _keep(folder: RunFolder, trained: TrainedModel, found: Evaluation, origins: Sequence[str]) -> None:
    """Write the scores of all images, and of each; `origins` are those of their records."""
    scored, name = trained.parts.scored, evaluation_name(trained, found.split)
    tta = {} if trained.tta.single else {"tta": asdict(trained.tta)}
    window = {"window": asdict(trained.window)} if trained.window else {}
    on = {"data": str(scored.folder), "content": scored.description.content} if scored else {}
    notes = {"notes": found.notes} if found.notes else {}
    how = {"step": found.step, "split": found.split, **on, **notes, **tta, **window}
    folder.write_json(f"evaluations/{name}.json", {**how, **as_record(found.loss, found.scores)})
    names = per_image.names_of(scored or trained.parts.dataset, found.split)
    table = per_image.as_csv(found.images, origins, names, trained.parts.task.best_metric)
    files.write_atomically(folder.path / f"evaluations/{name}.csv", table)

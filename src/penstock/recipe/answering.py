"""What a run can be asked: its parts, its model, its scores."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from penstock import devices
from penstock import ranks as ranking
from penstock.datasets import Dataset
from penstock.errors import DatasetError, RecipeError, RunError
from penstock.evaluate import evaluate, with_loss
from penstock.models import Averaged, Views, Window, Windowed
from penstock.recipe import toml
from penstock.recipe.building import Parts, check_data, open_parts, without_weights
from penstock.recipe.facts import read_facts
from penstock.runs import RunFolder
from penstock.session import Checkpoint, CheckpointStore
from penstock.session.state import load_model as load_weights
from penstock.tasks import Classification, Detection, Matting, Segmentation, Volumes

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch
    from torch import nn

    from penstock.ranks import Ranks
    from penstock.recipe.values import Recipe
    from penstock.tasks import Task
    from penstock.tasks.base import Scores


@dataclass(frozen=True)
class Trained:
    """A run's model, ready to answer.

    Attributes:
        parts: what the run's recipe names.
        model: in evaluation mode, on `device`, with the moving average of the weights where there is one.
        device: where it is.
        step: after which its checkpoint was saved.
        views: how it looks at a picture.
        window: what slides over it; None where it is seen whole.
    """

    parts: Parts
    model: nn.Module
    device: torch.device
    step: int
    views: Views = Views()  # noqa: RUF009 - frozen
    window: Window | None = None

    def looking(self, views: Views) -> Trained:
        """The same, but averaging several looks at each picture.

        Raises:
            RecipeError: the model classifies, and is to look at other sizes: it is shown the middle of a picture;
                it does not classify, and is to look at pictures that are moved, or they would move by their whole size;
                or it detects, or segments volumes.
        """
        _check_views(views, self.parts.task, self.parts.recipe.augment.crop)
        return self if views.single else replace(self, model=Averaged(self.model, views).eval(), views=views)

    def through(self, window: Window | None) -> Trained:
        """The same, but seeing each picture through a window that slides over it.

        Raises:
            RecipeError: the model did not learn to make masks.
        """
        if window is None:
            return self
        if not isinstance(self.parts.task, Segmentation):
            raise RecipeError(
                "--window", expected="a run that learnt to make masks", found="one that did not", remedy="Leave it out"
            )
        return replace(self, model=Windowed(self.model, window, self.device).eval(), window=window)


def _check_views(views: Views, task: Task, crop: tuple[int, int]) -> None:
    if not views.single and isinstance(task, Detection | Volumes):
        learnt = "to detect: boxes" if isinstance(task, Detection) else "volumes: answers"
        raise RecipeError(
            "--scales, --flip, --shift",
            expected=f"none of them, as the run learnt {learnt} of several looks are not averaged",
            found=views.name,
            remedy="Leave them out",
        )
    if views.scales != (1.0,) and isinstance(task, Classification):
        raise RecipeError(
            "--scales",
            expected="none, as the run learnt to classify: it looks at the middle of a picture",
            found=", ".join(f"{scale:g}" for scale in views.scales),
            remedy="Leave it out; --flip looks in the mirror too",
        )
    if views.shift and not isinstance(task, Classification):
        raise RecipeError(
            "--shift",
            expected="0, as the run did not learn to classify",
            found=str(views.shift),
            remedy="Leave it out; --flip and --scales look in the mirror and at other sizes",
        )
    if views.shift >= min(crop):
        raise RecipeError(
            "--shift",
            expected=f"fewer pixels than the crop's {min(crop)}, as what moves in is the mirror of what is there",
            found=str(views.shift),
            remedy="Move them by less; airbench does by 1",
        )


@dataclass(frozen=True)
class Evaluation:
    """What an evaluation of a run's model on a split found; `loss` is the mean over all that counts,
    None where the model gives none.
    """

    split: str
    step: int
    loss: float | None
    scores: Scores


def open_run(path: Path, data: str = "") -> Parts:
    """A run's recipe, with its dataset opened.

    Args:
        path: the run folder.
        data: where the dataset is now; "" where it was.

    Raises:
        PenstockError: the folder is no run, or its dataset is not there or has changed.
    """
    folder = RunFolder.open(path)
    facts, recipe = read_facts(folder), _recipe(path)
    if data:
        recipe = replace(recipe, data=replace(recipe.data, path=data))
    parts = open_parts(recipe, facts)
    check_data(parts, facts, str(path))
    return parts


def _recipe(path: Path) -> Recipe:
    return without_weights(toml.load(path / "recipe.toml"))


def _described(path: Path) -> Parts:
    """A run's recipe with what it keeps of its dataset, which may be gone; runs of before keep nothing."""
    facts, recipe = read_facts(RunFolder.open(path)), _recipe(path)
    return Parts(recipe, Dataset(Path(recipe.data.path), facts.described)) if facts.described else open_run(path)


def load_checkpoint(folder: RunFolder, name: str = "") -> Checkpoint:
    """A run's checkpoint: "best", "last" or "step-NNNNNNNN"; by default the best where there is one, else the last.

    Raises:
        RunError: none was saved yet.
        CheckpointError: it is missing or damaged.
    """
    preferred = "best" if (folder.checkpoints / "best").exists() else "last"
    loaded = CheckpointStore(folder.checkpoints).load(name or preferred)
    if loaded is None:
        raise RunError(
            str(folder.path),
            expected="a checkpoint",
            found="none saved yet",
            remedy="Train the run first, with --resume",
        )
    return loaded


def weights(checkpoint: Checkpoint) -> dict[str, torch.Tensor]:
    """The weights to use of a checkpoint: the moving average where there is one."""
    return dict(checkpoint.tensors.get("ema", checkpoint.tensors["model"]))


def load_model(path: Path, checkpoint: str = "", device: str = "auto", parts: Parts | None = None) -> Trained:
    """A run's model. The run folder is all that it needs; to score it, give it the run opened with its dataset.

    Args:
        path: the run folder.
        checkpoint: as for `load_checkpoint`.
        device: where to put the model.
        parts: of `open_run`.

    Raises:
        PenstockError: the folder is no run, or its checkpoint is missing or damaged.
    """
    folder = RunFolder.open(path)
    parts = parts or _described(path)
    loaded = load_checkpoint(folder, checkpoint)
    model = parts.model(blank=True)
    load_weights(model, weights(loaded), str(path))
    where = devices.choose(device, ranking.from_environment().local)
    return Trained(parts, devices.place(model, where).eval(), where, loaded.step)


def _of_segments(task: Task) -> Segmentation:
    if not isinstance(task, Segmentation) or isinstance(task, Matting):
        raise RecipeError(
            "--segments",
            expected="a run that learnt to make masks",
            found="one that did not",
            remedy="Leave it out",
        )
    return replace(task, segments=True)


def answers_name(trained: Trained, split: str) -> str:
    """What the files of an evaluation are called."""
    window = trained.window.name if trained.window else ""
    return "-".join(filter(None, (split, f"{trained.step:08d}", trained.views.name, window)))


def evaluate_run(
    path: Path,
    trained: Trained,
    split: str = "",
    progress: Callable[[int, int], None] | None = None,
    *,
    segments: bool = False,
    ranks: Ranks = ranking.Ranks(),  # noqa: B008 - frozen
) -> Evaluation:
    """Evaluate a run's model on a split, by default the one used in training; kept in the run's `evaluations/`.

    Args:
        path: the run folder.
        trained: its model.
        split: "" takes the one used in training.
        progress: called with the pictures done and those in all.
        segments: whether masks are scored by boundary IoU and panoptic quality too.
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
            expected="a split to evaluate on",
            found="a run that was trained without one",
            remedy=f"Name one with --split: {', '.join(trained.parts.dataset.description.splits)}",
        )
    task, feed = trained.parts.evaluation(split, ranks.share)
    if segments:
        task = _of_segments(task)
    result = evaluate(
        task,
        trained.model,
        feed,
        device=trained.device,
        ranks=ranks,
        precision=recipe.train.precision,
        progress=progress,
    )
    assert result is not None  # noqa: S101 - nothing stops it
    scores, loss = result
    views = {} if trained.views.single else {"views": asdict(trained.views)}
    window = {"window": asdict(trained.window)} if trained.window else {}
    content = {"step": trained.step, "split": split, **views, **window, **with_loss(loss, scores.as_json())}
    if ranks.writes:
        RunFolder(path).write_json(f"evaluations/{answers_name(trained, split)}.json", content)
    return Evaluation(split, trained.step, loss, scores)

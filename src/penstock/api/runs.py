"""Runs: load, export, list, compare, report."""

from __future__ import annotations

import html
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.api.arguments import as_list, check_name, check_numbers, suggested
from penstock.errors import RecipeError, RunError
from penstock.runs import RunFolder
from penstock.runs.comparing import compare as compare_runs
from penstock.runs.conditions import choose as choose_runs
from penstock.runs.listing import find_runs, summarize
from penstock.runs.notes import change_tags, write_note
from penstock.runs.pruning import prunable, prune

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.api.loaded import LoadedModel
    from penstock.api.samples import Sheet
    from penstock.inference import Evaluation, Exported
    from penstock.runs.comparing import RunComparison
    from penstock.runs.listing import RunSummary
    from penstock.runs.pruning import Prunable
    from penstock.session import Outcome
    from penstock.settings import Recipe


@dataclass(frozen=True, repr=False)
class Run:
    """A run folder; a notebook shows its scores.

    Attributes:
        path: the folder.
        outcome: how its training ended; None of a run that was opened only.
    """

    path: Path
    outcome: Outcome | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", Path(self.path))  # people write it as text

    @property
    def recipe(self) -> Recipe:
        """The recipe of the run."""
        from penstock.assembly.runs import run_recipe  # noqa: PLC0415 - with PyTorch

        return run_recipe(RunFolder.open(self.path).path)

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """A dictionary for every step and every evaluation: step, epoch, loss, lr; or step, evaluation, best."""
        return RunFolder.open(self.path).lines("metrics.jsonl")

    @property
    def best(self) -> dict[str, Any] | None:
        """The best evaluation: its step and scores; None where there is none."""
        lines = [line for line in self.metrics if line.get("best")]
        return {"step": lines[-1]["step"], **lines[-1]["evaluation"]} if lines else None

    @suggested
    def evaluate(
        self,
        split: str = "",
        *,
        checkpoint: str = "",
        device: str = "auto",
        data: str | Path = "",
        on: str | Path = "",
        sliding_window: int | None = None,
        overlap: float | None = None,
        scales: Sequence[float] = (1.0,),
        flip: bool = False,
        shift: int = 0,
        segments: bool = False,
        images: int = 0,
        progress: Callable[[int, int], None] | None = None,
        trust: bool = False,
    ) -> Evaluation:
        """The scores of its model on a split; kept in the run folder. Under torchrun all ranks score together.

        Args:
            split: by default the one that it was validated on.
            checkpoint: "best", "last" or "step-NNNNNNNN"; by default the best, else the last.
            device: auto, cpu, cuda, cuda:1, mps.
            data: the dataset, if it was moved.
            on: another dataset to score it on, or DATA:SPLIT, packed in the same way; classes are matched by name.
            sliding_window: side of a window in pixels that slides over images; by default as in training, 0 for none.
            overlap: fraction by which neighbouring windows overlap, 0 to below 1; by default 0.25.
            scales: of test-time augmentation, as for `LoadedModel.with_tta`.
            flip: of test-time augmentation.
            shift: of test-time augmentation.
            segments: whether boundary IoU, panoptic quality and parsing covering of masks are computed too.
            images: predictions, and of the worst ones, to draw into the figures of the run.
            progress: called with the images that are done, and those in all.
            trust: whether code from elsewhere, which the run carries, may be executed.

        Raises:
            PenstockError: the dataset is gone or has changed, or there is no checkpoint.
        """
        RunFolder.open(self.path)
        check_numbers(images=(images, 0, math.inf))
        check_name(split, "split", 'Name the split, and another dataset with on="DATA:SPLIT"')
        place, split = _scored_on(str(on), split)
        if place and data:
            raise RecipeError("--on, --data", remedy="Remove --data", message="--on takes the place of the run's data.")
        from penstock.api import evaluating  # noqa: PLC0415 - with PyTorch
        from penstock.models import TestTimeAugmentation  # noqa: PLC0415 - the same

        return evaluating.evaluate(
            trusted(self, trust=trust), split, checkpoint=checkpoint, device=device, data=str(data), on=place,
            window=(sliding_window, overlap), tta=TestTimeAugmentation(tuple(scales), flip, shift), segments=segments,
            images=images, progress=progress,
        )  # fmt: skip

    @suggested
    def replay(self, step: int, *, output: str | Path = "", data: str | Path = "", trust: bool = False) -> Sheet:
        """Draw the images of a step exactly as the model saw them, and name their records.

        Args:
            step: from 1.
            output: a PNG file to write; by default one in the figures of the run.
            data: the dataset, if it was moved.
            trust: whether code from elsewhere, which the run carries, may be executed.

        Raises:
            RunError: the training has no such step.
            OutputError: another file is there, or its name does not end in .png.
        """
        RunFolder.open(self.path)
        from penstock.api import evaluating  # noqa: PLC0415 - with PyTorch

        return evaluating.replay(trusted(self, trust=trust), step, Path(output) if output else None, str(data))

    @suggested
    def note(self, text: str | None = None, *, tag: Sequence[str] = (), untag: Sequence[str] = ()) -> None:
        """Keep a note or tags with the run, which `list_runs` gives.

        Args:
            text: takes the place of the note before; "" removes it, None leaves it.
            tag: words to put the run under.
            untag: words under which it is no longer to be.

        Raises:
            RunError: a tag has spaces in it, or one that is to go is not there.
        """
        folder = RunFolder.open(self.path)
        change_tags(folder, as_list(tag), as_list(untag))
        if text is not None:
            write_note(folder, text)

    @property
    def summary(self) -> RunSummary:
        """Summary of the run: state, steps, best score, model, data, time, tags and note."""
        return summarize(RunFolder.open(self.path).path)

    @property
    def spare(self) -> Prunable | None:
        """The checkpoints that `prune` removes; None where it removes none."""
        return next(iter(prunable([RunFolder.open(self.path).path])), None)

    def prune(self) -> int:
        """Remove all checkpoints but the best, if the run is finished or stopped; the bytes that they took.

        Raises:
            RunError: another process trains the run.
        """
        spare = self.spare
        if spare:
            prune(spare)
        return spare.bytes if spare else 0

    def report(self) -> Path:
        """Write report.html, the page of the run; its path."""
        folder = RunFolder.open(self.path)
        from penstock.report import write_report  # noqa: PLC0415 - with PyTorch

        return write_report(folder)

    def load(self, *, checkpoint: str = "", device: str = "auto") -> LoadedModel:
        """Its model, ready to predict."""
        return load(self.path, checkpoint=checkpoint, device=device)

    def __repr__(self) -> str:
        ended = f", {self.outcome.status} at step {self.outcome.step:,}" if self.outcome else ""
        return f"<Run {self.path}{ended}>"

    def _repr_html_(self) -> str:
        best = (self.best or {}).items()
        scores = "".join(f"<li>{html.escape(name)}: {html.escape(str(value))}</li>" for name, value in best)
        return f"<b>{html.escape(str(self.path))}</b><ul>{scores}</ul>"


def _scored_on(on: str, split: str) -> tuple[str, str]:
    """Where the data is that a run is scored on, and which split."""
    place, colon, named = on.rpartition(":")
    if not colon or Path(on).exists() or "/" in named:
        return on, split
    if split not in {"", named}:
        message = f"--on {on} names the split {named}, and --split {split}."
        raise RecipeError("--split", remedy="Leave one of them out", message=message)
    return place, named


@suggested
def load(
    run: str | Path | Run | RunSummary, *, checkpoint: str = "", device: str = "auto", trust: bool = False
) -> LoadedModel:
    """A run's model; the run folder is all that it needs.

    Args:
        run: the run or its folder.
        checkpoint: "best", "last" or "step-NNNNNNNN"; by default the best, else the last.
        device: auto, cpu, cuda, cuda:1, mps, or a `torch.device`.
        trust: whether code from elsewhere, which the run carries, may be executed.

    Raises:
        PenstockError: the folder is no run, or its checkpoint is missing or damaged.
    """
    RunFolder.open(folder_of(run))
    from penstock import inference  # noqa: PLC0415 - with PyTorch
    from penstock.api.loaded import LoadedModel  # noqa: PLC0415 - the same

    return LoadedModel(inference.load_model(trusted(run, trust=trust), checkpoint, str(device)))


def list_runs(root: str | Path = "runs", *, where: str | Sequence[str] = ()) -> list[RunSummary]:
    """Summaries of the runs in a folder, by number: state, steps, best score, model, data, time and note.

    Args:
        root: the parent folder of the run folders.
        where: conditions that all have to hold, each a name, one of = != < <= > >=, and a number or a text in which *
            stands for any letters: "model=unet*", "mean_iou>0.8", "optimizer.lr<=0.01". The name is a field of
            `RunSummary`, the metric that decides which checkpoint is the best one, or a setting. Or a text that name,
            task, model, data, state, note or a tag contains.

    Raises:
        RunError: there is no such folder, or no run has what a condition names.
    """
    return choose_runs(find_runs(Path(root)), as_list(where))


def compare(*runs: str | Path | Run | RunSummary | Sequence[str | Path | Run | RunSummary]) -> RunComparison:
    """Compare runs: scores, recipe, data, code and environment, and why scores may not be compared.

    Args:
        runs: at least two, one by one or as a list.

    Raises:
        RunError: there are fewer, or a file of one is missing or damaged.
    """
    return compare_runs([*map(folder_of, _flat(runs))])


def _flat(runs: Sequence[Any]) -> Sequence[Any]:
    """The runs, or those of the list that takes their place."""
    return runs[0] if len(runs) == 1 and isinstance(runs[0], list | tuple) else runs


@suggested
def export(
    run: str | Path | Run | RunSummary,
    path: str | Path,
    *,
    size: tuple[int, int] | None = None,
    dynamic: bool = False,
    any_size: bool = False,
    checkpoint: str = "",
    scales: Sequence[float] = (1.0,),
    flip: bool = False,
    shift: int = 0,
    trust: bool = False,
) -> Exported:
    """Write a run's model as one file for other programs: .onnx or .pt2.

    Args:
        run: the run or its folder.
        path: the file.
        size: (height, width) of the images that it takes; by default what holds the dataset's. Detectors take any.
        dynamic: whether height and width of the images of masks may be any multiples of 32.
        any_size: whether, for masks and classes, it takes one whole image of any size; padding or resizing is inside.
            For .onnx.
        checkpoint: "best", "last" or "step-NNNNNNNN"; by default the best, else the last.
        scales: of test-time augmentation, as for `LoadedModel.with_tta`.
        flip: of test-time augmentation.
        shift: of test-time augmentation.
        trust: whether code from elsewhere, which the run carries, may be executed.

    Raises:
        RecipeError: the task cannot be exported, or takes no images of that size.
    """
    RunFolder.open(folder_of(run))
    from penstock import inference  # noqa: PLC0415 - with PyTorch
    from penstock.models import TestTimeAugmentation  # noqa: PLC0415 - the same

    trained = inference.load_model(trusted(run, trust=trust), checkpoint, "cpu")
    trained = trained.with_tta(TestTimeAugmentation(tuple(scales), flip, shift))
    return inference.export_run(trained, Path(path), size, dynamic=dynamic, any_size=any_size)


@suggested
def write_report(
    *runs: str | Path | Run | RunSummary | Sequence[str | Path | Run | RunSummary], output: str | Path = ""
) -> Path:
    """Write the report of a run, RUN/report.html, or one page that compares several.

    Args:
        runs: at least one, one by one or as a list.
        output: the file of a comparison; by default comparison.html in the current folder.

    Raises:
        RunError: one is no run.
        RecipeError: a file is named for the report of one run.
    """
    paths = [*map(folder_of, _flat(runs))]
    if not paths:
        raise RunError("penstock report", expected="a run folder", found="none", remedy="Name at least one")
    if len(paths) == 1:
        if output:
            remedy = "Remove --output: the report of a run is RUN/report.html"
            raise RecipeError("--output", expected="several runs", found="one", remedy=remedy)
        return Run(paths[0]).report()
    from penstock.report import write_comparison  # noqa: PLC0415 - with PyTorch

    return write_comparison(paths, Path(output or "comparison.html"))


def folder_of(run: Any) -> Path:
    """Where a run is: a `Run`, a `RunSummary`, or its folder.

    Raises:
        RunError: it is none of these.
    """
    if isinstance(run, str | Path):
        return Path(run)
    if not hasattr(run, "path"):
        found = type(run).__name__
        raise RunError("run", expected="a run or its folder", found=found, remedy="Name the folder that train made")
    return Path(run.path)


def trusted(run: str | Path | Run | RunSummary, *, trust: bool) -> Path:
    """The folder of a run, whose code may be executed from now on if that was said."""
    path = folder_of(run)
    if trust:
        from penstock import assembly  # noqa: PLC0415 - with PyTorch

        assembly.trust(path)
    return path

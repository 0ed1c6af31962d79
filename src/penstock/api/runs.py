"""Runs: train, resume, load, export."""

from __future__ import annotations

import html
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock import assembly, inference, training
from penstock.api.arguments import suggested
from penstock.api.data import Data
from penstock.api.loaded import LoadedModel
from penstock.assembly import open_run, resolve_settings, settings_of_file
from penstock.assembly.runs import run_recipe
from penstock.config import toml
from penstock.errors import RecipeError
from penstock.models import TestTimeAugmentation
from penstock.runs import RunFolder
from penstock.runs.comparing import compare as compare_runs
from penstock.runs.listing import change_tags, find_runs, write_note
from penstock.runs.pruning import prunable, prune
from penstock.session import Hook
from penstock.settings import Recipe

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.assembly.presets import Resolved
    from penstock.events import OnEvent
    from penstock.inference import Evaluation, Exported
    from penstock.runs.comparing import RunComparison
    from penstock.runs.listing import RunSummary
    from penstock.session import Outcome


@dataclass(frozen=True, repr=False)
class Run:
    """A run folder; a notebook shows its scores.

    Attributes:
        path: the folder.
        outcome: how its training ended; None of a run that was opened only.
    """

    path: Path
    outcome: Outcome | None = None

    @property
    def recipe(self) -> Recipe:
        """What it trained."""
        return run_recipe(self.path)

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
        scales: Sequence[float] = (1.0,),
        flip: bool = False,
        shift: int = 0,
    ) -> Evaluation:
        """The scores of its model on a split.

        Args:
            split: by default the one that it was validated on.
            checkpoint: "best", "last" or "step-NNNNNNNN"; by default the best, else the last.
            device: auto, cpu, cuda, cuda:1, mps.
            scales: of test-time augmentation, as for `LoadedModel.with_tta`.
            flip: of test-time augmentation.
            shift: of test-time augmentation.

        Raises:
            PenstockError: the dataset is gone or has changed, or there is no checkpoint.
        """
        trained = inference.load_model(self.path, checkpoint, device, open_run(self.path))
        augmentation = TestTimeAugmentation(tuple(scales), flip, shift)
        return inference.evaluate_run(self.path, trained.with_tta(augmentation), split)

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
        change_tags(folder, tag, untag)
        if text is not None:
            write_note(folder, text)

    def prune(self) -> int:
        """Remove all checkpoints but the best, if the run is finished or stopped; the bytes that they took.

        Raises:
            RunError: another process trains the run.
        """
        found = prunable([self.path])
        for each in found:
            prune(each)
        return sum(each.bytes for each in found)

    def load(self, *, checkpoint: str = "", device: str = "auto") -> LoadedModel:
        """Its model, ready to predict."""
        return load(self.path, checkpoint=checkpoint, device=device)

    def __repr__(self) -> str:
        ended = f", {self.outcome.status} at step {self.outcome.step:,}" if self.outcome else ""
        return f"<Run {self.path}{ended}>"

    def _repr_html_(self) -> str:
        scores = "".join(f"<li>{html.escape(name)}: {value}</li>" for name, value in (self.best or {}).items())
        return f"<b>{html.escape(str(self.path))}</b><ul>{scores}</ul>"


@suggested
def train(
    data: Data | Recipe | str | Path,
    *,
    model: str = "",
    weights: str = "",
    task: str = "",
    loss: str = "",
    optimizer: str = "",
    lr: float | None = None,
    crop: tuple[int, int] | None = None,
    batch: int | None = None,
    steps: int | None = None,
    epochs: float | None = None,
    seed: int | None = None,
    device: str = "",
    hooks: Sequence[str | Mapping[str, Any] | Hook] = (),
    settings: Mapping[str, Any] | None = None,
    runs: str | Path = "runs",
    name: str = "",
    on_event: OnEvent | None = None,
    trust: bool = False,
) -> Run:
    """Train a model; settings that are not given are filled in as on the command line.

    Args:
        data: a dataset or where it is, a recipe, or the path of one in TOML.
        model: ARCHITECTURE:BACKBONE, a backbone, or FILE.py:NAME.
        weights: of the backbone: "pretrained", "none" or a file.
        task: FILE.py:NAME of a task of one's own.
        loss: FILE.py:NAME of a custom loss, in place of cross-entropy.
        optimizer: sgd, adamw, rmsprop, muon, or FILE.py:NAME.
        lr: peak learning rate.
        crop: (height, width) of what the network sees.
        batch: images in a global batch.
        steps: optimizer steps.
        epochs: passes over the training split, instead of steps.
        seed: of everything random.
        device: auto, cpu, cuda, cuda:1, mps.
        hooks: names, FILE.py:NAME, tables with settings, or hooks themselves.
        settings: any other settings of the recipe, named as `section.key`.
        runs: where run folders are kept.
        name: of the run, behind its number.
        on_event: called with every event; `logging` has them too.
        trust: whether custom code that a dataset carries or a recipe in TOML names may be executed.

    Raises:
        PenstockError: something cannot be had, or does not fit.
    """
    _check_listed(hooks)
    own = [each for each in hooks if isinstance(each, Hook)]
    options = {
        "model.name": model, "model.weights": weights, "task": task, "loss.custom": loss, "optimizer.name": optimizer,
        "optimizer.lr": lr, "augment.crop": crop, "train.batch": batch, "train.steps": steps, "train.epochs": epochs,
        "seed": seed, "train.device": device, "hooks": [each for each in hooks if not isinstance(each, Hook)],
    }  # fmt: skip
    replaced = {"loss.cross_entropy": 0.0} if loss else {}
    given = {**replaced, **{key: value for key, value in options.items() if value not in (None, "", [])}}
    recipe = _recipe(data, {**given, **(settings or {})}, trust=trust)
    folder, outcome = training.train(recipe, Path(runs), name, own, on_event)
    return Run(folder.path, outcome)


def _check_listed(hooks: object) -> None:
    if isinstance(hooks, str):
        raise RecipeError("hooks", expected="a list", found="a string", remedy=f"Write hooks=[{hooks!r}]")
    if not isinstance(hooks, Iterable):
        name = getattr(hooks, "__name__", type(hooks).__name__)
        raise RecipeError("hooks", expected="a list", found=name, remedy=f"Write hooks=[{name}()]")


def _recipe(data: Data | Recipe | str | Path, given: Mapping[str, Any], *, trust: bool) -> Recipe | Resolved:
    if trust and isinstance(data, (str, Path)):
        assembly.trust(Path(data))
    if isinstance(data, Recipe):
        return toml.filled(data, given, "")
    path = data.path if isinstance(data, Data) else str(data)
    if path.endswith(".toml"):
        return resolve_settings(settings_of_file(Path(path), given), path)
    return resolve_settings({"data.path": path, **given})


@suggested
def resume(
    run: str | Path | Run,
    *,
    settings: Mapping[str, Any] | None = None,
    hooks: Sequence[Hook] = (),
    checkpoint: str = "last",
    on_event: OnEvent | None = None,
    trust: bool = False,
    accept_changes: bool = False,
) -> Run:
    """Go on with a run.

    Args:
        run: the run or its folder.
        settings: changes to its recipe, named as `section.key`.
        hooks: more of them.
        checkpoint: "last", "best" or "step-NNNNNNNN".
        on_event: called with every event; `logging` has them too.
        trust: whether code from elsewhere, which the run carries, may be executed.
        accept_changes: whether to go on although data, code or a decoder gives other samples than before.

    Raises:
        PenstockError: it cannot go on.
    """
    path = _trusted(run, trust=trust)
    folder, outcome = training.resume(path, settings or {}, hooks, checkpoint, on_event, accept_changes=accept_changes)
    return Run(folder.path, outcome)


@suggested
def load(run: str | Path | Run, *, checkpoint: str = "", device: str = "auto", trust: bool = False) -> LoadedModel:
    """A run's model; the run folder is all that it needs.

    Args:
        run: the run or its folder.
        checkpoint: "best", "last" or "step-NNNNNNNN"; by default the best, else the last.
        device: auto, cpu, cuda, cuda:1, mps.
        trust: whether code from elsewhere, which the run carries, may be executed.

    Raises:
        PenstockError: the folder is no run, or its checkpoint is missing or damaged.
    """
    return LoadedModel(inference.load_model(_trusted(run, trust=trust), checkpoint, device))


def list_runs(root: str | Path = "runs") -> list[RunSummary]:
    """What there is to say of every run in a folder, by number: state, steps, best score, model, data, time and note.

    Args:
        root: the parent folder of the run folders.

    Raises:
        RunError: there is no such folder.
    """
    return find_runs(Path(root))


def compare(*runs: str | Path | Run) -> RunComparison:
    """In what runs differ: scores, recipe, data, code and environment, and why scores may not be compared.

    Args:
        runs: at least two.

    Raises:
        RunError: there are fewer, or a file of one is missing or damaged.
    """
    return compare_runs([each.path if isinstance(each, Run) else Path(each) for each in runs])


@suggested
def export(
    run: str | Path | Run,
    path: str | Path,
    *,
    size: tuple[int, int] | None = None,
    dynamic: bool = False,
    any_size: bool = False,
) -> Exported:
    """Write a run's model as one file for other programs: .onnx or .pt2.

    Args:
        run: the run or its folder.
        path: the file.
        size: (height, width) of the images that it takes; by default what holds the dataset's. Detectors take any.
        dynamic: whether height and width of the images of masks may be any multiples of 32.
        any_size: whether, for masks and classes, it takes one whole image of any size; padding or resizing is inside.
            For .onnx.

    Raises:
        RecipeError: the task cannot be exported, or takes no images of that size.
    """
    trained = inference.load_model(_trusted(run, trust=False), device="cpu")
    return inference.export_run(trained, Path(path), size, dynamic=dynamic, any_size=any_size)


def _trusted(run: str | Path | Run, *, trust: bool) -> Path:
    path = run.path if isinstance(run, Run) else Path(run)
    if trust:
        assembly.trust(path)
    return path

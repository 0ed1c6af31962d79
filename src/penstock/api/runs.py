"""Runs: train, resume, load, export."""

from __future__ import annotations

import html
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock import inference, training
from penstock.api.data import Data
from penstock.assembly import open_run, resolve_settings, settings_of_file
from penstock.assembly.runs import run_recipe
from penstock.config import Recipe, Resolved, toml
from penstock.errors import ImageError, RecipeError
from penstock.images.upright import read_upright
from penstock.inference.inputs import find
from penstock.models import TestTimeAugmentation
from penstock.runs import RunFolder, code
from penstock.session import Hook
from penstock.tasks import Style

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from penstock.events import OnEvent
    from penstock.inference import Evaluation, Exported, PredictedVolumes
    from penstock.session import Outcome
    from penstock.tasks import Prediction

    Pixels = NDArray[np.uint8]


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

    def load(self, *, checkpoint: str = "", device: str = "auto") -> LoadedModel:
        """Its model, ready to predict."""
        return load(self.path, checkpoint=checkpoint, device=device)

    def __repr__(self) -> str:
        ended = f", {self.outcome.status} at step {self.outcome.step:,}" if self.outcome else ""
        return f"<Run {self.path}{ended}>"

    def _repr_html_(self) -> str:
        scores = "".join(f"<li>{html.escape(name)}: {value}</li>" for name, value in (self.best or {}).items())
        return f"<b>{html.escape(str(self.path))}</b><ul>{scores}</ul>"


@dataclass(frozen=True, repr=False)
class LoadedModel:
    """A run's model, ready to predict.

    Attributes:
        trained: the model with what it was trained for.
    """

    trained: inference.Trained

    def __repr__(self) -> str:
        name, task = self.trained.parts.recipe.model.name, self.trained.parts.task.kind.name
        return f"<LoadedModel {name} for {task}, after step {self.trained.step:,}, on {self.trained.device}>"

    def predict(self, image: str | Path | Pixels) -> Prediction:
        """What the model says of one image.

        Args:
            image: a file, or uint8 RGB of shape (height, width, 3): an array or anything that NumPy makes one of, such
                as an RGB image of Pillow. A model that was trained on images of other channels or bits takes those.

        Raises:
            ImageError: the file is missing or cannot be decoded, or the array is no such image.
            RecipeError: the task does not predict images.
        """
        if not isinstance(image, str | Path):
            return self.trained.predict(np.asarray(image))
        path = Path(image)
        if not path.is_file():
            raise ImageError(str(path), expected="an image file", found="no such file", remedy="Check the path")
        wanted = self.trained.parts.task.pixel_format
        return self.trained.predict(read_upright(path.read_bytes(), str(path), wanted))

    def with_tta(self, *, scales: Sequence[float] = (1.0,), flip: bool = False, shift: int = 0) -> LoadedModel:
        """The same model with test-time augmentation.

        Args:
            scales: factors of the image's size; the image is predicted at each.
            flip: whether each is predicted horizontally flipped too.
            shift: pixels by which a classifier's images are moved too.

        Raises:
            RecipeError: the task does not support it.
        """
        return LoadedModel(self.trained.with_tta(TestTimeAugmentation(tuple(scales), flip, shift)))

    def predict_all(self, *paths: str | Path) -> Iterator[tuple[str, Prediction]]:
        """The name and the prediction of every image behind some paths: images, folders, lists of images, videos.

        An image that cannot be read is left out; the logger `penstock.inference` says which.

        Raises:
            DatasetError: a path is not there, or there is no image.
        """
        for image in find([Path(path) for path in paths]):
            try:
                pixels = image.read(self.trained.parts.task.pixel_format)
            except (ImageError, OSError) as error:
                logging.getLogger("penstock.inference").warning("%s", error)
            else:
                yield image.name, self.trained.predict(pixels)

    def predict_volumes(
        self, paths: Sequence[str | Path], output: str | Path, labels: str | Path = ""
    ) -> PredictedVolumes:
        """Write the labels of NIfTI volumes, each in its own geometry, as `penstock predict` does.

        Args:
            paths: volumes and folders of them.
            output: the folder to write to.
            labels: a folder of true labels to score against; "" for none.

        Raises:
            DatasetError: there are no volumes, or a file would be overwritten that is no prediction.
            RecipeError: the task does not predict volumes.
        """
        found = [Path(path) for path in paths]
        return inference.predict_volumes(self.trained, found, Path(output), Path(labels) if labels else None)

    def predict_folder(self, folder: str | Path, output: str | Path, style: Style = Style()) -> inference.Predicted:  # noqa: B008 - frozen
        """Write the predictions for all images in a folder, as `penstock predict` does.

        Raises:
            DatasetError: there are no images, or a file would be overwritten that is no prediction.
        """
        return inference.predict_images(self.trained, find([Path(folder)]), Path(output), style)


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

    Raises:
        PenstockError: something cannot be had, or does not fit.
    """
    _check_listed(hooks)
    named = [each for each in hooks if not isinstance(each, Hook)]
    own = [each for each in hooks if isinstance(each, Hook)]
    options = {
        "model.name": model, "model.weights": weights, "task": task, "loss.custom": loss, "optimizer.name": optimizer,
        "optimizer.lr": lr, "augment.crop": crop, "train.batch": batch, "train.steps": steps,
        "train.epochs": epochs, "seed": seed,
        "train.device": device, "hooks": named,
    }  # fmt: skip
    replaced = {"loss.cross_entropy": 0.0} if loss else {}
    given = {**replaced, **{key: value for key, value in options.items() if value not in (None, "", [])}}
    recipe = _recipe(data, {**given, **(settings or {})})
    folder, outcome = training.train(recipe, Path(runs), name, own, on_event)
    return Run(folder.path, outcome)


def _check_listed(hooks: object) -> None:
    if isinstance(hooks, str):
        raise RecipeError("hooks", expected="a list", found="a string", remedy=f"Write hooks=[{hooks!r}]")


def _recipe(data: Data | Recipe | str | Path, given: Mapping[str, Any]) -> Recipe | Resolved:
    if isinstance(data, Recipe):
        return toml.filled(data, given, "")
    path = data.path if isinstance(data, Data) else str(data)
    if path.endswith(".toml"):
        return resolve_settings(settings_of_file(Path(path), given), path)
    return resolve_settings({"data.path": path, **given})


def resume(
    run: str | Path | Run,
    *,
    settings: Mapping[str, Any] | None = None,
    hooks: Sequence[Hook] = (),
    checkpoint: str = "last",
    on_event: OnEvent | None = None,
    trust: bool = False,
) -> Run:
    """Go on with a run.

    Args:
        run: the run or its folder.
        settings: changes to its recipe, named as `section.key`.
        hooks: more of them.
        checkpoint: "last", "best" or "step-NNNNNNNN".
        on_event: called with every event; `logging` has them too.
        trust: whether code from elsewhere, which the run carries, may be executed.

    Raises:
        PenstockError: it cannot go on.
    """
    path = _trusted(run, trust=trust)
    folder, outcome = training.resume(path, settings or {}, hooks, checkpoint, on_event)
    return Run(folder.path, outcome)


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
        code.trust_folder(path)
    return path

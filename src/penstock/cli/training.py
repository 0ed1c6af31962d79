"""train, recipe."""

from __future__ import annotations

import contextlib
import json
import signal
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final, Literal

from cyclopts import Parameter

from penstock import devices, ranks
from penstock import recipe as recipes
from penstock.errors import EmptySourceError, RecipeError
from penstock.recipe import Recipe
from penstock.report import write_report
from penstock.runs import RunFolder
from penstock.session.options import ENDLESS, Outcome
from penstock.sources.kafka import is_topic

_ADAMW: Final = {
    "optimizer.schedule": "cosine",
    "optimizer.learning_rate": 3e-4,
    "optimizer.weight_decay": 0.01,
}

_FOLLOWING: Final = {"optimizer.schedule": "constant", "train.steps": ENDLESS}

Optimizer = Annotated[
    Literal["sgd", "adamw", "rmsprop", "muon"],
    Parameter(help="adamw comes with a cosine schedule, a rate of 3e-4 and a decay of 0.01."),
]
Tasks = Literal["segmentation", "classification", "detection", "volumes", "matting"]
Learnt = Annotated[str, Parameter(help="A packed dataset, a topic (kafka://HOST:PORT/TOPIC), or a recipe in TOML.")]
Set = Annotated[
    list[str] | None,
    Parameter(name="--set", help="Any other setting: KEY=VALUE, see penstock recipe. May be repeated."),
]


def train(
    data: Learnt = "", /, *,
    model: Annotated[str, Parameter(help="deeplabv3plus:resnet50, resnet50 (classifies), fasterrcnn:resnet50.")] = "",
    weights: Annotated[str, Parameter(help="Of the backbone: pretrained, none, or a file.")] = "",
    init: Annotated[Path | None, Parameter(help="A run to take weights from, perhaps with other classes.")] = None,
    partial: Annotated[bool, Parameter(negative=(), help="With --init: take what fits, begin all else anew.")] = False,
    steps: Annotated[int | None, Parameter(help="Optimizer steps.")] = None,
    batch: Annotated[int | None, Parameter(help="Pictures in a global batch.")] = None,
    crop: Annotated[tuple[int, int] | None, Parameter(help="Height and width that the network sees.")] = None,
    rate: Annotated[float | None, Parameter(name=["--rate", "--lr"], help="Peak learning rate.")] = None,
    optimizer: Optimizer | None = None,
    device: Annotated[str, Parameter(help="auto, cpu, cuda, cuda:1, mps.")] = "",
    seed: Annotated[int | None, Parameter(help="Of everything random.")] = None,
    start: Annotated[str, Parameter(name="--from", help="Of a topic: earliest, a time, or offsets: 0:100,1:250.")] = "",
    until: Annotated[str, Parameter(help="Of a topic: a time, or offsets; by default what is there now.")] = "",
    follow: Annotated[bool, Parameter(negative=(), help="Of a topic: go on with what comes, until stopped.")] = False,
    older: Annotated[float | None, Parameter(help="With --follow: share of a batch drawn from older records.")] = None,
    settings: Set = None,
    runs: Annotated[Path | None, Parameter(help="Where run folders are kept; by default runs.")] = None,
    name: Annotated[str, Parameter(help="Of the run folder, after its number.")] = "",
    checkpoint: Annotated[str, Parameter(help="To resume from: last, best, or step-NNNNNNNN.")] = "last",
    resume: Annotated[Path | None, Parameter(help="Go on with this run instead.")] = None,
) -> int:  # fmt: skip
    """Train a model on a packed dataset, or resume a run.

    Ctrl-C saves and ends; --resume goes on as if nothing had happened.
    """
    devices.keep_freed_memory()
    devices.use_available_cores()
    if init and not model and not _is_recipe(data):
        model = _model_of(init)
    _refuse_beside(resume, checkpoint, {"--name": bool(name), "--runs": runs is not None, data: bool(data)})
    named = {
        "follow.on": follow or None, "follow.older": older,
        "model.name": model, "model.weights": weights, "init": str(init or ""), "init_partial": partial or None,
        "train.batch": batch, "augment.crop": list(crop) if crop else None, "optimizer.name": optimizer,
        **(_ADAMW if optimizer == "adamw" and resume is None else {}),
        **(_FOLLOWING if follow and resume is None and not _is_recipe(data) else {}),
        **({} if steps is None else {"train.steps": steps}), "train.device": device, "seed": seed,
        "data.start": start, "data.until": until,
    }  # fmt: skip
    if rate is not None:
        named["optimizer.learning_rate"] = rate
    changes = [f"{key}={_toml(value)}" for key, value in named.items() if value not in (None, "")]
    changes += settings or []
    if resume is not None:
        folder, outcome = recipes.resume(resume, changes, checkpoint=checkpoint)
    else:
        folder, outcome = recipes.train(_recipe(data, model, changes), runs or Path("runs"), name)
    if ranks.from_environment().writes:
        _conclude(folder, outcome)
    return 128 + outcome.signal if outcome.signal else 0


def _conclude(folder: RunFolder, outcome: Outcome) -> None:
    if outcome.status in ("interrupted", "stopped"):
        print(f"{'saved; ' if outcome.step else ''}go on with: penstock train --resume {folder.path}")
    if folder.path.exists() and outcome.signal != signal.SIGTERM:  # who sends that will not wait
        print(f"report {write_report(folder)}")


def _refuse_beside(resume: Path | None, checkpoint: str, fixed: dict[str, bool]) -> None:
    """What says nothing to a run that is resumed, or to a new one."""
    if resume is not None and (given := [what for what, is_given in fixed.items() if is_given]):
        raise RecipeError(
            f"--resume {resume}",
            expected="no dataset, name or place beside it: a run knows its own",
            found=", ".join(given),
            remedy="Leave out one of the two",
        )
    if checkpoint != "last" and resume is None:
        raise RecipeError(
            "--checkpoint",
            expected="--resume RUN, to say from where",
            found="a new run",
            remedy="Leave it out; --init takes the best weights of a run",
        )


def recipe(
    file: Path | None = None, /, *,
    task: Annotated[Tasks | None, Parameter(help="Whose defaults, without a file; by default segmentation's.")] = None,
    model: Annotated[str, Parameter(help="A model; cifar10-tutorial and cifar10-fast bring all their settings.")] = "",
    settings: Set = None,
) -> None:  # fmt: skip
    """Print all settings of a training with what they mean, as TOML: the defaults, or those of a file.

    `penstock recipe > mine.toml` starts a recipe of one's own.
    """
    if file and (task or model):
        raise RecipeError(
            "--task, --model",
            expected="no recipe beside them: they choose among the defaults",
            found=str(file),
            remedy="Change the recipe with --set, for example --set model.name=unet:resnet50",
        )
    begin = recipes.load(file) if file else recipes.default_recipe(task or "segmentation", model)
    print(recipes.explained(recipes.apply(begin, settings or [])), end="")


def _recipe(data: str, model: str, changes: list[str]) -> Recipe:
    if not data:
        raise RecipeError(
            "penstock train",
            expected="a packed dataset, a recipe, or --resume RUN",
            found="none of them",
            remedy="Make a dataset with penstock pack FOLDER -o DIR, then penstock train DIR",
        )
    if _is_recipe(data):
        return _from_file(Path(data), changes)
    place = recipes.Data(path=data, block=0) if is_topic(data) else recipes.Data(path=data)
    begun = [change for change in changes if change.strip().startswith(("data.", "follow."))]
    recipes.check_follow(recipes.apply(replace(Recipe(), data=place), begun))  # before anything is reached for
    task = _task(place)
    said = [
        value.strip(" \"'") for key, _, value in (c.partition("=") for c in changes) if key.strip() == "model.weights"
    ]
    weights = said[-1] if said else ""
    return recipes.apply(replace(recipes.default_recipe(task, model, weights), data=place), changes)


def _task(data: recipes.Data) -> str:
    """What a dataset is for; a topic that holds nothing yet is taken to be for segmentation."""
    with contextlib.suppress(EmptySourceError):
        return recipes.open_dataset(data).description.task
    return "segmentation"


def _is_recipe(data: str) -> bool:
    return Path(data).suffix == ".toml" and not is_topic(data)


def _from_file(file: Path, changes: list[str]) -> Recipe:
    """The recipe of a file; its data lies beside it, unless the command line says where."""
    chosen = recipes.apply(recipes.load(file), changes)
    if is_topic(chosen.data.path):
        return chosen
    path = Path(chosen.data.path)
    if not chosen.data.path:
        raise RecipeError(
            f"{file}: data.path",
            expected="the folder of a packed dataset",
            found="nothing",
            remedy="Write it into the recipe (it counts from the recipe's own folder), or name it with "
            "--set data.path=DIR",
        )
    named = any(change.partition("=")[0].strip() == "data.path" for change in changes)
    beside = path if named or path.is_absolute() else file.parent / path
    return replace(chosen, data=replace(chosen.data, path=str(beside)))


def _model_of(run: Path) -> str:
    """The model that a run trained: what starts from its weights is the same one unless said otherwise."""
    return recipes.load(RunFolder.open(run).path / "recipe.toml").model.name


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else str(value)

"""train, recipe."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from penstock import recipe as recipes
from penstock.errors import RecipeError
from penstock.recipe import Recipe
from penstock.report import write_report

Set = Annotated[list[str] | None, Parameter(name="--set", help="Any other setting: KEY=VALUE. May be repeated.")]


def train(
    data: Annotated[Path | None, Parameter(help="A packed dataset, or a recipe in TOML.")] = None, /, *,
    model: Annotated[str, Parameter(help="ARCHITECTURE:BACKBONE, for example deeplabv3plus:resnet50.")] = "",
    weights: Annotated[str, Parameter(help="Of the backbone: pretrained, none, or a file.")] = "",
    init: Annotated[Path | None, Parameter(help="A run to take weights from, perhaps with other classes.")] = None,
    steps: Annotated[int | None, Parameter(help="Optimizer steps.")] = None,
    batch: Annotated[int | None, Parameter(help="Pictures in a global batch.")] = None,
    crop: Annotated[tuple[int, int] | None, Parameter(help="Height and width that the network sees.")] = None,
    rate: Annotated[float | None, Parameter(name=["--rate", "--lr"], help="Peak learning rate.")] = None,
    optimizer: Annotated[Literal["sgd", "adamw"] | None, Parameter(help="adamw comes with a cosine schedule.")] = None,
    device: Annotated[str, Parameter(help="auto, cpu, cuda, cuda:1, mps.")] = "",
    seed: Annotated[int | None, Parameter(help="Of everything random.")] = None,
    settings: Set = None,
    runs: Annotated[Path, Parameter(help="Where run folders are kept.")] = Path("runs"),
    name: Annotated[str, Parameter(help="Of the run folder, after its number.")] = "",
    checkpoint: Annotated[str, Parameter(help="To resume from: last, best, or step-NNNNNNNN.")] = "last",
    resume: Annotated[Path | None, Parameter(help="Go on with this run instead.")] = None,
) -> int:  # fmt: skip
    """Train a model on a packed dataset, or resume a run.

    Ctrl-C saves and ends; --resume goes on as if nothing had happened.
    """
    named = {
        "model.name": model, "model.weights": weights, "init": str(init or ""), "train.steps": steps,
        "train.batch": batch, "augment.crop": list(crop) if crop else None, "optimizer.learning_rate": rate,
        "optimizer.name": optimizer, "optimizer.schedule": "cosine" if optimizer == "adamw" else None,
        "train.device": device, "seed": seed,
    }  # fmt: skip
    changes = [f"{key}={_toml(value)}" for key, value in named.items() if value not in (None, "")]
    changes += settings or []
    if resume is not None:
        if data is not None:
            raise RecipeError(
                f"--resume {resume}",
                expected="no dataset beside it: a run knows its own",
                found=str(data),
                remedy="Leave out one of the two",
            )
        folder, outcome = recipes.resume(resume, changes, checkpoint=checkpoint)
    else:
        folder, outcome = recipes.train(_recipe(data, changes), runs, name)
    if outcome.status == "finished" and folder.path.exists():
        print(f"report {write_report(folder)}")
    if outcome.status in ("interrupted", "stopped"):
        print(f"saved; go on with: penstock train --resume {folder.path}")
    return 128 + outcome.signal if outcome.signal else 0


def recipe(file: Path | None = None, /, *, settings: Set = None) -> None:
    """Print all settings of a training, as TOML: the defaults, or those of a file.

    `penstock recipe > mine.toml` starts a recipe of one's own.
    """
    print(recipes.dump(recipes.apply(recipes.load(file) if file else Recipe(), settings or [])), end="")


def _recipe(data: Path | None, changes: list[str]) -> Recipe:
    if data is None:
        raise RecipeError(
            "penstock train",
            expected="a packed dataset, a recipe, or --resume RUN",
            found="none of them",
            remedy="Make a dataset with penstock pack FOLDER -o DIR, then penstock train DIR",
        )
    if data.suffix == ".toml":
        chosen = recipes.apply(recipes.load(data), changes)
        path = Path(chosen.data.path)
        beside = path if path.is_absolute() else data.parent / path
        return replace(chosen, data=replace(chosen.data, path=str(beside)))
    return recipes.apply(replace(Recipe(), data=recipes.Data(path=str(data))), changes)


def _toml(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)

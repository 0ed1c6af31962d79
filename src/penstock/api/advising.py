"""What a training would be: its settings, why they are chosen, and what the finders measure."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from penstock.api.arguments import check_numbers, suggested
from penstock.config import as_settings, settings_in
from penstock.config.options import Options, settings_of
from penstock.config.toml import over
from penstock.datasets import locate
from penstock.errors import RecipeError
from penstock.progress import silent

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.assembly import Advice
    from penstock.models.catalogue import Models
    from penstock.tasks import Task


@suggested
def recipe(
    file: str | Path = "", *, task: str = "", model: str = "", settings: Mapping[str, Any] | Sequence[str] | None = None
) -> str:
    """All settings of a training with what they mean, as TOML: the defaults, or those of a file.

    Args:
        file: a recipe in TOML; by default the defaults are given.
        task: built-in name of the task whose defaults are shown.
        model: name of the model whose defaults are shown, such as cifar10-tutorial or cifar10-fast.
        settings: changes, as for `train`.

    Raises:
        RecipeError: the file is damaged, a setting does not fit, or `task` or `model` is given beside a file.
    """
    if file and (task or model):
        raise RecipeError(
            "--task, --model",
            remedy="Change a setting of the recipe with --set, for example --set model.name=unet:resnet50",
            message=f"--task and --model select which defaults are shown, but the recipe {file} is given.",
        )
    if file:
        settings_in(Path(file))  # names a mistake before PyTorch is imported
    given = {**({"model.name": model} if model else {}), **as_settings(settings)}
    from penstock import assembly  # noqa: PLC0415 - with PyTorch

    if file:
        given, _ = over(assembly.settings_in(Path(file)), given)
    return assembly.explained(assembly.resolve(given, _task_of(given, task), str(file or "")))


def _task_of(given: Mapping[str, Any], task: str) -> type[Task]:
    """The task that the caller or the recipe names, or else the task of the dataset, if the dataset exists."""
    from penstock.tasks import find_task  # noqa: PLC0415 - with PyTorch

    location = locate(str(given.get("data.path", "")))
    if task and not given.get("task"):
        return find_task(task, "")
    described = task or "segmentation"
    if not task and location.uri and not location.remote and location.exists:
        described = location.open().description.task
    return find_task(str(given.get("task", "")), described)


@suggested
def advise(
    data: str | Path = "",
    *,
    find_lr: bool = False,
    find_time: bool = False,
    find_batch: bool = False,
    progress: Callable[[int, int], None] = silent,
    settings: Mapping[str, Any] | Sequence[str] | None = None,
    **options: Unpack[Options],
) -> tuple[Advice, ...]:
    """What `train` would choose for a dataset, and where each choice comes from; or what this machine has.

    Args:
        data: where the dataset is; "" describes the machine: versions, cores, memory, GPU, the disk of the current
            folder (64 MiB are written there for a moment), and the extras, with what to do about each that is missing.
        find_lr: whether to train for up to 100 steps with a rising learning rate, and suggest one.
        find_time: whether to train for four steps, and say how long the whole training would take.
        find_batch: whether to find the largest batch that fits into the memory of the GPU.
        progress: called with the steps of `find_lr` that are done, and those in all.
        settings: as for `train`.
        options: as for `train`.

    Raises:
        PenstockError: the dataset or the weights cannot be read, or a setting does not fit.
    """
    given = settings_of(settings, **options)
    measures = find_lr or find_time or find_batch
    if not str(data) and (given or measures):
        raise RecipeError(
            "doctor",
            remedy="Name a packed dataset: penstock doctor DATASET",
            message="Settings, --find-lr, --find-time and --find-batch are for a dataset, and none is given.",
        )
    from penstock import assembly  # noqa: PLC0415 - with PyTorch

    if not str(data):
        return assembly.describe_machine(Path.cwd())
    given = {"data.path": str(data), **given}
    resolved = assembly.resolve_settings(given)
    found = list(assembly.advise(resolved))
    if measures:
        from penstock.training import finders  # noqa: PLC0415 - with PyTorch

        found += [finders.find_batch(resolved.recipe).advice()] if find_batch else []
        found += [finders.find_time(resolved.recipe).advice()] if find_time else []
        found += [finders.find_lr(resolved.recipe, progress=progress).advice()] if find_lr else []
    return tuple(found)


@suggested
def list_models(pattern: str = "", *, count: int = 20) -> Models:
    """Architectures, or backbones with published weights: parameters, image size and licence; `lines()` is a table.

    Nothing is downloaded.

    Args:
        pattern: a name, or a pattern of names: "unet", "resnet50", "convnext*"; "" lists the architectures.
        count: backbones at most.

    Raises:
        RecipeError: nothing is called so.
    """
    check_numbers(count=(count, 1, math.inf))
    from penstock.models import catalogue  # noqa: PLC0415 - with PyTorch

    return catalogue.find(pattern, count)


def prepare_process() -> None:
    """Set up this process for computing, as the command line does: memory that is kept between steps, and as many
    threads as there are cores for it. Both stay so; a library does not do that by itself.
    """
    from penstock import devices  # noqa: PLC0415 - with PyTorch

    devices.keep_freed_memory()
    devices.use_available_cores()

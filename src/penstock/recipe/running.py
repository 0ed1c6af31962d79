"""A recipe to a run: starting, resuming, evaluating."""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from penstock import devices, files
from penstock import ranks as ranking
from penstock.errors import RecipeError, RunError
from penstock.evaluate import evaluate
from penstock.hooks import Console, EvaluationFiles, EventsLog, MetricsLog, OriginsLog, TensorBoard, TimingsLog
from penstock.models import load_matching
from penstock.recipe import toml
from penstock.recipe.building import Parts, open_parts
from penstock.runs import RunFolder, environment
from penstock.session import CheckpointStore, Hook, Options, Outcome, Session
from penstock.session.state import load_model as load_weights

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import nn

    from penstock.ranks import Ranks
    from penstock.recipe.values import Recipe
    from penstock.tasks.base import Scores


def train(recipe: Recipe, root: Path, name: str = "", hooks: Sequence[Hook] = ()) -> tuple[RunFolder, Outcome]:
    """Start a run in a new folder below `root`, and train it.

    Args:
        recipe: what to do.
        root: where run folders are kept.
        name: of the new one; by default the model's and the dataset's.
        hooks: more of them, on every rank.

    Raises:
        PenstockError: something in the recipe cannot be had.
    """
    device = devices.choose(recipe.train.device, ranking.from_environment().local)
    recipe = _located(recipe)
    parts = open_parts(recipe)
    with ranking.joined(device) as ranks:
        plan, model = parts.plan, _initial(parts, ranks)
        if recipe.data.validation:
            parts.dataset.split(recipe.data.validation)
        title = name or f"{recipe.model.name.replace(':', '-')}-{parts.dataset.folder.name}"
        path = str(RunFolder.create(root, title).path) if ranks.writes else ""
        folder = RunFolder(Path(ranks.share_text(path)))
        if ranks.writes:
            files.write_atomically(folder.path / "recipe.toml", toml.dump(recipe).encode())
            folder.write_json("environment.json", {**environment(), **_promise(recipe, device, ranks)})
            folder.write_json(
                "data.json",
                {"snapshot": plan.snapshot.digest, "plan": plan.digest, "content": parts.dataset.description.content},
            )
            print(f"run {folder.path}", flush=True)  # noqa: T201 - where everything will be
        return folder, _go(parts, folder, model, ranks, device, hooks)


def resume(
    path: Path, settings: Sequence[str] = (), hooks: Sequence[Hook] = (), checkpoint: str = "last"
) -> tuple[RunFolder, Outcome]:
    """Go on with a run from a checkpoint, or from its start where there is none.

    Args:
        path: the run folder.
        settings: changes to the recipe (`train.steps=...` to train longer); they are kept.
        hooks: more of them, on every rank.
        checkpoint: "last", "best" or "step-NNNNNNNN".

    Raises:
        PenstockError: the folder is no run, its data or what it learns changed, or its checkpoint is damaged.
    """
    folder = RunFolder.open(path)
    before = toml.load(path / "recipe.toml")
    recipe = _located(toml.apply(before, settings))
    _same_training(before, recipe, str(path))
    device = devices.choose(recipe.train.device, ranking.from_environment().local)
    parts = open_parts(recipe)
    with ranking.joined(device) as ranks:
        _same_data(parts, folder)
        if ranks.writes:
            _compare(folder, _promise(recipe, device, ranks))
        model = replace(parts, recipe=_without_weights(recipe)).model() if _has_checkpoint(folder) else None
        model = model or _initial(parts, ranks)
        return folder, _go(parts, folder, model, ranks, device, hooks, checkpoint)


def _located(recipe: Recipe) -> Recipe:
    """The recipe with its paths made absolute, so that it can be read from any folder."""
    init = str(Path(recipe.init).resolve()) if recipe.init else ""
    file = Path(recipe.model.weights)
    weights = str(file.resolve()) if file.is_file() else recipe.model.weights
    data = replace(recipe.data, path=str(Path(recipe.data.path).resolve()))
    return replace(recipe, init=init, data=data, model=replace(recipe.model, weights=weights))


def _same_training(before: Recipe, now: Recipe, where: str) -> None:
    """A run may become longer, faster or chattier; what it learns and in which order is fixed at its start."""
    fixed = {
        "seed": (before.seed, now.seed),
        "data.train": (before.data.train, now.data.train),
        "data.block": (before.data.block, now.data.block),
        "data.window": (before.data.window, now.data.window),
        "model.name": (before.model.name, now.model.name),
        "augment": (before.augment, now.augment),
        "optimizer.name": (before.optimizer.name, now.optimizer.name),
        "train.batch": (before.train.batch, now.train.batch),
        "train.average": (before.train.average, now.train.average),
    }
    for key, (was, is_now) in fixed.items():
        if was != is_now:
            raise RecipeError(
                f"{where}: {key}",
                expected=f"{was}, as the run was started with",
                found=str(is_now),
                remedy="Leave it, or start a new run from these weights with --init",
            )


def _has_checkpoint(folder: RunFolder) -> bool:
    return (folder.checkpoints / "last").exists()


def _without_weights(recipe: Recipe) -> Recipe:
    """The recipe for a model whose weights are about to be loaded: nothing needs to be downloaded for it."""
    return replace(recipe, model=replace(recipe.model, weights="none"))


def _initial(parts: Parts, ranks: Ranks) -> nn.Module:
    model = parts.model()
    if parts.recipe.init:
        other = RunFolder.open(Path(parts.recipe.init))
        tensors = _weights(other, _preferred(other))
        account = load_matching(model, tensors, str(other.path))
        if ranks.writes:
            print(f"init from {other.path}:", *account.lines(), sep="\n  ", flush=True)  # noqa: T201 - an account
    return model


def _go(
    parts: Parts,
    folder: RunFolder,
    model: nn.Module,
    ranks: Ranks,
    device: torch.device,
    hooks: Sequence[Hook],
    checkpoint: str = "last",
) -> Outcome:
    train, recipe = parts.recipe.train, parts.recipe
    if train.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS asks for it
    torch.use_deterministic_algorithms(train.deterministic)
    options = Options(
        train.steps,
        train.save_every,
        train.evaluate_every,
        train.accumulate,
        train.precision,
        train.average,
        compile=train.compile,
        seed=recipe.seed,
    )
    pin = device.type == "cuda"
    store = CheckpointStore(folder.checkpoints, train.keep)
    session = Session(
        parts.task,
        model,
        parts.training_feed(ranks.share, pin=pin),
        options=options,
        optimizer=recipe.optimizer,
        store=store,
        ranks=ranks,
        device=device,
        evaluate=_evaluation(parts, ranks, device, pin=pin),
        hooks=[*_hooks(folder, recipe, ranks), *hooks],
    )
    with folder.locked() if ranks.writes else contextlib.nullcontext():
        session.restore(store.load(checkpoint))
        if ranks.writes:
            files.write_atomically(folder.path / "recipe.toml", toml.dump(recipe).encode())
        return session.train()


def _evaluation(
    parts: Parts, ranks: Ranks, device: torch.device, *, pin: bool
) -> Callable[[nn.Module, Callable[[], bool]], tuple[Scores, float] | None] | None:
    split = parts.recipe.data.validation
    if not split:
        return None
    task, feed = parts.evaluation(split, ranks.share, pin=pin)
    precision = parts.recipe.train.precision
    return lambda model, stop: evaluate(task, model, feed, device=device, ranks=ranks, precision=precision, stop=stop)


def _hooks(folder: RunFolder, recipe: Recipe, ranks: Ranks) -> list[Hook]:
    origins: list[Hook] = [OriginsLog(folder.path / "origins.jsonl", ranks)] if recipe.train.log_origins else []
    if not ranks.writes:
        return origins
    interval = recipe.train.log_every
    mirror: list[Hook] = [TensorBoard(folder.path / "tensorboard", interval)] if TensorBoard.available() else []
    return [
        MetricsLog(folder.metrics, ranks),
        TimingsLog(folder.timings),
        EvaluationFiles(folder, recipe.data.validation),
        EventsLog(folder),
        *mirror,
        *origins,
        Console(folder.path / "log.txt", interval),
    ]


def _promise(recipe: Recipe, device: torch.device, ranks: Ranks) -> dict[str, Any]:
    """What weights depend on beside the recipe, and whether they will come out the same again."""
    exact = device.type == "cpu" or recipe.train.deterministic
    return {
        "device": devices.describe(device),
        "threads": torch.get_num_threads(),
        "ranks": ranks.of,
        "exact": "weights, byte for byte" if exact else "records, order and pixels; weights up to rounding",
    }


def _same_data(parts: Parts, folder: RunFolder) -> None:
    """Records, classes and the ignored label must be those that the run was started with."""
    stored, found = folder.read_json("data.json").get("content", ""), parts.dataset.description.content
    if stored != found:
        raise RunError(
            str(folder.path),
            expected=f"the data that the run was started with (content {stored[:12]})",
            found=f"another dataset in {parts.dataset.folder} (content {found[:12]})",
            remedy="Restore the dataset, or start a new run from these weights with --init",
        )


def open_run(path: Path) -> Parts:
    """A run's recipe, with its dataset opened.

    Raises:
        PenstockError: the folder is no run, or its dataset is not there or has changed.
    """
    folder = RunFolder.open(path)
    parts = open_parts(_without_weights(toml.load(path / "recipe.toml")))
    _same_data(parts, folder)
    return parts


def _compare(folder: RunFolder, now: dict[str, Any]) -> None:
    """Say what is not as it was, where weights may come out otherwise for it."""
    before = folder.read_json("environment.json")
    changed = [
        f"{key} was {before.get(key)}, is {now[key]}"
        for key in ("device", "threads", "ranks")
        if before.get(key) != now[key]
    ]
    if changed:
        print(  # noqa: T201 - people must know
            f"note: {'; '.join(changed)}: same records, same order; weights may differ in rounding",
            flush=True,
        )


def _weights(folder: RunFolder, checkpoint: str) -> dict[str, torch.Tensor]:
    """The weights to use of a checkpoint: the moving average where there is one."""
    loaded = CheckpointStore(folder.checkpoints).load(checkpoint)
    if loaded is None:
        raise RunError(
            str(folder.path),
            expected="a checkpoint",
            found="none saved yet",
            remedy="Train the run first, with --resume",
        )
    return dict(loaded.tensors.get("ema", loaded.tensors["model"]))


def _preferred(folder: RunFolder) -> str:
    return "best" if (folder.checkpoints / "best").exists() else "last"


def load_model(path: Path, checkpoint: str = "", device: str = "auto") -> tuple[Parts, nn.Module, torch.device]:
    """A run's parts and its model, in evaluation mode on a device.

    Args:
        path: the run folder.
        checkpoint: "best", "last" or "step-NNNNNNNN"; by default the best where there is one, else the last.
        device: where to put the model.

    Raises:
        PenstockError: the folder is no run, or its checkpoint is missing or damaged.
    """
    folder = RunFolder.open(path)
    parts = open_run(path)
    tensors = _weights(folder, checkpoint or _preferred(folder))
    model = parts.model()
    load_weights(model, tensors, str(path))
    where = devices.choose(device)
    return parts, devices.place(model, where).eval(), where


def evaluate_run(
    path: Path,
    split: str = "",
    checkpoint: str = "",
    device: str = "auto",
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Scores, float, str]:
    """Evaluate a run on a split, by default the validation split; the result is kept in the run's `evaluations/`.

    Returns:
        The scores, the mean loss, and the split's name.
    """
    parts, model, where = load_model(path, checkpoint, device)
    used = checkpoint or _preferred(RunFolder(path))
    split = split or parts.recipe.data.validation
    task, feed = parts.evaluation(split)
    precision = parts.recipe.train.precision
    result = evaluate(task, model, feed, device=where, ranks=ranking.Ranks(), precision=precision, progress=progress)
    assert result is not None  # noqa: S101 - nothing stops it
    scores, loss = result
    RunFolder(path).write_json(
        f"evaluations/{split}-{used}.json", {"split": split, "checkpoint": used, "loss": loss, **scores.as_json()}
    )
    return scores, loss, split

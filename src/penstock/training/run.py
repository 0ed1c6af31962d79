"""A recipe to a run: starting and resuming."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from penstock import devices
from penstock import ranks as ranking
from penstock.assembly.effects import check_abilities, check_effects
from penstock.assembly.experiment import Experiment, check_data, notes, open_experiment
from penstock.assembly.presets import Resolved, as_resolved
from penstock.assembly.run_data import read_run_data, shared
from penstock.assembly.runs import run_recipe
from penstock.config import toml
from penstock.config.checks import check_new, check_pieces, check_same
from penstock.config.places import absolute
from penstock.errors import RecipeError
from penstock.events import Events, OnEvent, RunCreated
from penstock.hooks import Console
from penstock.models import synchronise_norms
from penstock.ranks import Ranks
from penstock.runs import RunFolder, environment
from penstock.session import Checkpoint, CheckpointStore, Hook, HookList, Learner, Outcome, Saver, Session
from penstock.settings import Recipe
from penstock.training.agreement import begun_by_launch, newest_run, open_on_all_ranks, settings_for_resume
from penstock.training.compatibility import check_custom
from penstock.training.recording import new_folder, note_edited, record, record_changes, title
from penstock.training.reproducibility import has_norms, isolated, note_changes, note_session, promise
from penstock.training.resuming import (
    check_checkpoints,
    check_sample,
    check_steps,
    check_validation,
    has_checkpoint,
    is_finished,
    note_resume,
    nothing_to_do,
    with_epochs,
)
from penstock.training.retrying import with_retries
from penstock.training.streaming import Follower
from penstock.training.weights import initial_model, keep_initial
from penstock.training.wiring import evaluation_of, hooks_of

Settings = Sequence[str] | Mapping[str, Any]


def train(
    recipe: Recipe | Resolved,
    root: Path,
    name: str = "",
    hooks: Sequence[Hook] = (),
    on_event: OnEvent | None = None,
    *,
    go_on: bool = False,
    accept_changes: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[RunFolder, Outcome]:
    """Start a run in a new folder below `root`, and train it.

    Args:
        recipe: what to do; a plain recipe states every setting.
        root: where run folders are kept.
        name: of the new one; by default the model's and the dataset's.
        hooks: more of them, on every rank.
        on_event: called with every event on the first rank; `logging` has them too.
        go_on: whether to go on with the newest run of that name, where there is one.
        accept_changes: whether to go on with it although samples are not what they were.
        progress: called after each step, on the first rank, with the steps that are done, and those in all.

    Raises:
        PenstockError: something in the recipe cannot be had, or the name cannot be a folder's.
    """
    resolved = as_resolved(recipe) if isinstance(recipe, Recipe) else recipe
    check_new(resolved.recipe)
    RunFolder.check_name(name)
    if go_on and not name:
        raise RecipeError("--continue", expected="--name NAME", found="none", remedy="Name the run to go on with")
    recipe = absolute(resolved.recipe)
    device = devices.choose(recipe.train.device, ranking.from_environment().local)
    with ranking.joined(device) as ranks, isolated(device, deterministic=recipe.train.deterministic):
        events = Events(on_event, silent=not ranks.is_main, progress=progress)
        if begun := begun_by_launch(root, ranks, events):
            return _resumed(begun, (), hooks, "last", ranks, events)
        if go_on and (begun := newest_run(root, name, ranks, events)):
            given = settings_for_resume(resolved)
            return _resumed(begun, given, hooks, "last", ranks, events, accept_changes=accept_changes)
        check_pieces(recipe, ranks.world_size)
        parts, run_data = open_on_all_ranks(recipe, ranks, events)
        check_custom(parts)
        model = initial_model(parts, events)

        def fill(folder: RunFolder) -> None:
            keep_initial(folder, model, parts.recipe)
            record(folder, resolved, parts, run_data, promise(parts.recipe, device, ranks))

        run = _Run(parts, new_folder(root, name or title(parts), ranks, fill), ranks, device, events)
        if ranks.is_main:
            events(RunCreated("\n".join([f"run {run.folder.path}", *resolved.notes, *notes(parts)]), run.folder.path))
        return run.folder, _trained(run, model, hooks)


def resume(
    path: Path,
    settings: Settings = (),
    hooks: Sequence[Hook] = (),
    checkpoint: str = "last",
    on_event: OnEvent | None = None,
    *,
    accept_changes: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[RunFolder, Outcome]:
    """Go on with a run from a checkpoint, or from its start where there is none.

    Args:
        path: the run folder.
        settings: changes to the recipe, as `section.key=value` or by `section.key`; they are kept.
        hooks: more of them, on every rank.
        checkpoint: "last", "best" or "step-NNNNNNNN".
        on_event: called with every event on the first rank; `logging` has them too.
        accept_changes: whether to go on although data, code or a decoder gives other samples than before.
        progress: called after each step, on the first rank, with the steps that are done, and those in all.

    Raises:
        PenstockError: the folder is no run, its data or what it learns changed, or its checkpoint is damaged.
    """
    RunFolder.open(path)
    train = toml.apply(run_recipe(path), settings).train
    device = devices.choose(train.device, ranking.from_environment().local)
    with ranking.joined(device) as ranks, isolated(device, deterministic=train.deterministic):
        events = Events(on_event, silent=not ranks.is_main, progress=progress)
        return _resumed(path, settings, hooks, checkpoint, ranks, events, accept_changes=accept_changes)


def _resumed(
    path: Path, settings: Settings, hooks: Sequence[Hook], checkpoint: str, ranks: Ranks, events: Events, *,
    accept_changes: bool = False,
) -> tuple[RunFolder, Outcome]:  # fmt: skip
    folder = RunFolder.open(path)
    before = run_recipe(path)
    recipe = absolute(with_epochs(before, toml.apply(before, settings)))
    with folder.reading("metrics.jsonl"):
        scored = any("evaluation" in line for line in folder.lines("metrics.jsonl"))
    check_same(absolute(before), recipe, str(path), begun=has_checkpoint(folder), scored=scored)
    check_effects(recipe, before)
    check_pieces(recipe, ranks.world_size)
    check_checkpoints(folder)
    check_steps(folder, recipe, checkpoint)
    check_validation(folder, recipe)
    run_data = read_run_data(folder)
    parts = open_experiment(recipe, run_data)
    check_data(parts, run_data, str(path))
    check_abilities(recipe, parts.task_type, before)
    check_custom(parts)
    parts = replace(parts, stages=())  # the checkpoint knows which were begun
    note_resume(folder, before, recipe, events)
    if checkpoint == "last" and is_finished(folder, recipe):
        return folder, nothing_to_do(folder, absolute(before), recipe, ranks, events)
    model = parts.model(blank=True) if has_checkpoint(folder) else None
    device = devices.choose(recipe.train.device, ranks.local)
    run = _Run(parts, folder, ranks, device, events, accept_changes)
    return folder, _trained(run, model or initial_model(parts, events, folder.initial), hooks, checkpoint)


@dataclass(frozen=True)
class _Run:
    """What a session is built from: the opened recipe, the run folder, ranks, device and events."""

    parts: Experiment
    folder: RunFolder
    ranks: Ranks
    device: torch.device
    events: Events
    accept_changes: bool = False

    @property
    def pin_memory(self) -> bool:
        """Whether batches are copied to the device from page-locked memory."""
        return self.device.type == "cuda"


def _trained(run: _Run, model: nn.Module, hooks: Sequence[Hook], checkpoint: str = "last") -> Outcome:
    """Train, and go on after failures that may pass, as often as the recipe allows."""
    store = CheckpointStore(run.folder.checkpoints)

    def again() -> Outcome:
        run_data = read_run_data(run.folder)
        parts = open_experiment(run.parts.recipe, run_data)
        check_data(parts, run_data, str(run.folder.path))
        parts = replace(parts, stages=())
        model = (
            parts.model(blank=True)
            if has_checkpoint(run.folder)
            else initial_model(parts, run.events, run.folder.initial)
        )
        return _go(replace(run, parts=parts), model, hooks)

    return with_retries(
        lambda: _go(run, model, hooks, checkpoint),
        again,
        retries=run.parts.recipe.train.retries,
        step=lambda: store.newest,
        note=run.events.note,
    )


def _go(run: _Run, model: nn.Module, hooks: Sequence[Hook], checkpoint: str = "last") -> Outcome:
    recipe, folder, ranks = run.parts.recipe, run.folder, run.ranks
    store = CheckpointStore(folder.checkpoints, recipe.train.keep)
    console = Console(folder.path / "log.txt", recipe.train.log_every, run.events)
    if ranks.is_main and (note := devices.too_many_threads(run.device)):
        console.note(note)
    with folder.locked() if ranks.is_main else contextlib.nullcontext():
        if ranks.is_main:
            store.sweep()
            folder.sweep()
            apart = has_norms(model) and not (recipe.train.sync_bn or recipe.train.freeze_bn)
            note_changes(folder, promise(recipe, run.device, ranks), run.events, apart=apart)
        session = _session(run, model, store, console, hooks)
        begun = _loaded(store, checkpoint, run.events)
        if begun and (later := store.after(begun.step)):
            run.events.note(f"note: {', '.join(later)} will go: the run goes on from step {begun.step:,}")
        session.restore(begun)
        check_sample(folder, session, run.events, accept=run.accept_changes)
        if absent := session.attached.absent:
            run.events.note(f"note: {', '.join(absent)} is not attached any more: its state is kept")
        if ranks.is_main:
            note_edited(folder, run.events)
            record_changes(folder, recipe, session.step)
            if folder.lines("events.jsonl"):
                now = {**environment(folder.path), **promise(recipe, run.device, ranks)}
                note_session(folder, now, session.step, run.events)
        with _explained_single_images():
            return session.train()


def _session(run: _Run, model: nn.Module, store: CheckpointStore, console: Console, hooks: Sequence[Hook]) -> Session:
    """The session of a run, made of what its recipe names."""
    recipe, ranks = run.parts.recipe, run.ranks
    network = synchronise_norms(model) if recipe.train.sync_bn and ranks.world_size > 1 else model
    note = console.note if ranks.is_main else _silent
    learner = Learner.of(
        network, options=recipe.train, optimizer=recipe.optimizer, ranks=ranks, device=run.device, seed=recipe.seed,
        note=note,
    )  # fmt: skip
    return Session(
        run.parts.task,
        learner,
        run.parts.training_feed(ranks.batch_slice, pin_memory=run.pin_memory),
        saver=Saver(store, ranks, run.device, recipe.train.async_save),
        attached=HookList((*hooks_of(run.folder, recipe, ranks, console), *hooks)),
        evaluate=evaluation_of(
            run.parts,
            ranks,
            run.device,
            pin_memory=run.pin_memory,
            progress=console.evaluating if ranks.is_main else None,
        ),
        follow=_follower(run, console) if recipe.follow.on else None,
        note=note,
    )


def _silent(line: str) -> None:
    """Ranks above 0 tell nobody."""


def _loaded(store: CheckpointStore, name: str, events: Events) -> Checkpoint | None:
    """The checkpoint to go on from; instead of a last one that is damaged, the newest that is sound."""
    if name != "last":
        return store.load(name)
    found, faults = store.load_newest()
    if found is not None:
        events.note(
            *(f"note: going on from step {found.step:,}, as a newer checkpoint is damaged: {fault}" for fault in faults)
        )
    return found


def _follower(run: _Run, console: Console) -> Follower:
    """Made once the run is locked: what another process had taken up until then counts, on all ranks."""
    run_data = json.dumps(read_run_data(run.folder).as_json()) if run.ranks.is_main else ""
    return Follower(
        run.parts, shared(run.ranks.broadcast(run_data)), run.folder, run.ranks, console.note, pin_memory=run.pin_memory
    )


@contextlib.contextmanager
def _explained_single_images() -> Iterator[None]:
    """Say what to do where batch normalisation is left with a single value per channel."""
    try:
        yield
    except ValueError as error:
        if not str(error).startswith("Expected more than 1 value per channel"):
            raise
        raise RecipeError(
            "train.batch",
            expected="at least two images for each rank and micro-batch: this model normalises over them",
            found="one",
            remedy="Make train.batch larger, or train.accumulate or the number of ranks smaller",
        ) from error

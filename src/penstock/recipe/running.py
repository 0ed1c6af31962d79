"""A recipe to a run: starting and resuming."""

from __future__ import annotations

import contextlib
import json
import os
import re
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from penstock import devices, files
from penstock import ranks as ranking
from penstock.errors import RecipeError, RunError
from penstock.hooks import Console
from penstock.models import load_matching, synchronise_norms
from penstock.models.pretrained import account_of
from penstock.models.tv import PREFIX
from penstock.recipe import answering, toml
from penstock.recipe.building import Parts, check_data, chosen_shuffle, gather, notes, open_parts
from penstock.recipe.checks import check_new, check_pieces, check_same
from penstock.recipe.effects import check_effects
from penstock.recipe.exactness import has_norms, note_changes, promise
from penstock.recipe.facts import read_facts, shared
from penstock.recipe.fitting import check_optimizer, try_sizes
from penstock.recipe.following import Follower, await_first
from penstock.recipe.sessions import evaluation_of, hooks_of, options_of
from penstock.recipe.tasks import defaults
from penstock.runs import RunFolder, environment
from penstock.session import Checkpoint, CheckpointStore, Hook, Outcome, Session
from penstock.sources.kafka import is_topic

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torch import nn

    from penstock.ranks import Ranks
    from penstock.recipe.facts import Facts
    from penstock.recipe.values import Recipe


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
    check_follow(recipe)
    check_new(recipe)
    with ranking.joined(device) as ranks:
        if begun := _begun_by_launch(root, ranks):
            return _resumed(begun, (), hooks, "last", ranks)
        recipe = _agreed_recipe(_located(recipe), ranks)
        parts = open_parts(recipe)
        learnt = parts.dataset.description.task
        check_effects(recipe, learnt, *defaults(learnt, recipe.model.name))
        if recipe.data.validation:
            parts.dataset.split(recipe.data.validation)
        parts, facts = _agreed_data(parts, ranks)
        check_pieces(recipe, ranks.of)
        plan, model = parts.plan, _initial(parts, ranks)
        title = name or f"{re.sub('[:/]', '-', recipe.model.name)}-{parts.dataset.name}"
        path = str(RunFolder.create(root, title).path) if ranks.writes else ""
        folder = RunFolder(Path(ranks.share_text(path)))
        if ranks.writes:
            files.write_atomically(folder.path / "recipe.toml", toml.dump(recipe).encode())
            launch = ranking.launch()
            launched = {"launch": launch.name} if launch else {}
            folder.write_json("environment.json", {**environment(), **promise(recipe, device, ranks), **launched})
            facts.write(folder, plan.digest)
            print(f"run {folder.path}", *notes(parts), sep="\n", flush=True)  # noqa: T201 - where everything will be
        return folder, _go(_Run(parts, folder, ranks, device), model, hooks)


def _begun_by_launch(root: Path, ranks: Ranks) -> Path | None:
    """The run that this very command of torchrun began before one of its processes failed; None where it began none."""
    launch, found = ranking.launch(), ""
    if launch and launch.restarts and ranks.writes and root.is_dir():
        for path in sorted(root.glob("*/environment.json"), reverse=True):
            folder = RunFolder(path.parent)
            with contextlib.suppress(RunError):
                if not found and folder.read_json("environment.json").get("launch") == launch.name:
                    found = str(folder.path)
    found = ranks.share_text(found)
    if found and ranks.writes:
        print(f"started again by torchrun: going on with {found}", flush=True)  # noqa: T201 - people must know
    return Path(found) if found else None


def _agreed_recipe(recipe: Recipe, ranks: Ranks) -> Recipe:
    """The recipe with a shuffle: a topic that grows may not look the same to all ranks, so the writer chooses."""
    if recipe.follow.on:
        await_first(recipe.data, ranks)
    chosen = toml.dump(chosen_shuffle(recipe)) if ranks.writes else ""
    return toml.convert(tomllib.loads(ranks.share_text(chosen)), "the recipe")


def _agreed_data(parts: Parts, ranks: Ranks) -> tuple[Parts, Facts]:
    """The parts with the writer's snapshots: a topic that grows may not look the same to all ranks."""
    recipe = parts.recipe
    splits = [split for split in (recipe.data.train, recipe.data.validation) if split]
    fixed = splits[1:] if recipe.follow.on else splits
    text = json.dumps(gather(parts, fixed).as_json()) if ranks.writes else ""
    facts = shared(ranks.share_text(text))
    return replace(parts, pinned=facts.snapshots), facts


def check_follow(recipe: Recipe) -> None:
    """What is followed must grow, and have no end.

    Raises:
        RecipeError: it does not, or has one.
    """
    if not recipe.follow.on:
        if recipe.follow.older:
            raise RecipeError(
                "follow.older",
                expected="0, as nothing is followed",
                found=str(recipe.follow.older),
                remedy="Add --follow, or leave out --older",
            )
        return
    if not is_topic(recipe.data.path):
        raise RecipeError(
            "follow.on",
            expected="a topic, kafka://HOST:PORT/TOPIC",
            found=recipe.data.path,
            remedy="Leave out --follow: shards do not grow",
        )
    if recipe.data.until:
        raise RecipeError(
            "data.until",
            expected="no end, as the topic is followed",
            found=recipe.data.until,
            remedy="Leave out --until or --follow",
        )


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
    RunFolder.open(path)
    train = toml.apply(toml.load(path / "recipe.toml"), settings).train
    device = devices.choose(train.device, ranking.from_environment().local)
    with ranking.joined(device) as ranks:
        return _resumed(path, settings, hooks, checkpoint, ranks)


def _resumed(
    path: Path, settings: Sequence[str], hooks: Sequence[Hook], checkpoint: str, ranks: Ranks
) -> tuple[RunFolder, Outcome]:
    folder = RunFolder.open(path)
    before = toml.load(path / "recipe.toml")
    recipe = _located(toml.apply(before, settings))
    check_same(_located(before), recipe, str(path), begun=_has_checkpoint(folder))
    facts = read_facts(folder)
    check_effects(recipe, facts.described.task if facts.described else "", before)
    _check_steps(folder, recipe, checkpoint)
    _check_validation(folder, recipe)
    parts = open_parts(recipe, facts)
    check_data(parts, facts, str(path))
    parts = replace(parts, stages=())  # the checkpoint knows which were begun
    if ranks.writes:
        _tell(folder, before, recipe)
    if checkpoint == "last" and _is_finished(folder, recipe):
        return folder, _nothing_to_do(folder, recipe, ranks)
    model = parts.model(blank=True) if _has_checkpoint(folder) else None
    device = devices.choose(recipe.train.device, ranks.local)
    return folder, _go(_Run(parts, folder, ranks, device), model or _initial(parts, ranks), hooks, checkpoint)


def _located(recipe: Recipe) -> Recipe:
    """The recipe with its paths made absolute, so that it can be read from any folder.

    Raises:
        RecipeError: one of them is no text, which a recipe cannot hold.
    """
    init = str(Path(recipe.init).resolve()) if recipe.init else ""
    file = Path(recipe.model.weights)
    weights = str(file.resolve()) if file.is_file() else recipe.model.weights
    path = recipe.data.path
    data = replace(recipe.data, path=path if is_topic(path) else str(Path(path).resolve()))
    for name, each in (("data.path", data.path), ("init", init), ("model.weights", weights)):
        if not each.isprintable() and each != (shown := each.encode(errors="backslashreplace").decode()):
            raise RecipeError(name, expected="a path in UTF-8", found=shown, remedy="Rename the file or its folder")
    return replace(recipe, init=init, data=data, model=replace(recipe.model, weights=weights))


def _check_steps(folder: RunFolder, recipe: Recipe, checkpoint: str) -> None:
    """A run cannot end before where it goes on from."""
    name = (folder.checkpoints / checkpoint).resolve().name.removeprefix("step-")
    if name.isdecimal() and recipe.train.steps < int(name):
        raise RecipeError(
            f"{folder.path}: train.steps",
            expected=f"at least {int(name):,}, which the run has reached",
            found=f"{recipe.train.steps:,}",
            remedy="Give more --steps, or an earlier --checkpoint",
        )


def _check_validation(folder: RunFolder, recipe: Recipe) -> None:
    """Scores of two splits have no best one."""
    split = recipe.data.validation
    for path in sorted((folder.path / "evaluations").glob("step-*.json"))[-1:] if split else ():
        before = folder.read_json(f"evaluations/{path.name}", "split")["split"]
        if split != before:
            raise RecipeError(
                f"{folder.path}: data.validation",
                expected=f"{before}, as the run was evaluated on",
                found=split,
                remedy="Leave it; penstock evaluate RUN --split scores any split",
            )


def _is_finished(folder: RunFolder, recipe: Recipe) -> bool:
    events = folder.lines("events.jsonl")
    last = events[-1] if events else {}
    newest = CheckpointStore(folder.checkpoints).names()[-1:]
    ended = last.get("event") == "finished" and last.get("step") == recipe.train.steps
    return ended and newest == [f"step-{recipe.train.steps:08d}"]


def _nothing_to_do(folder: RunFolder, recipe: Recipe, ranks: Ranks) -> Outcome:
    """Answer for a finished run, once it is known to be whole."""
    with folder.locked() if ranks.writes else contextlib.nullcontext():
        store = CheckpointStore(folder.checkpoints)
        store.load()
        if ranks.writes:
            store.sweep()
    if ranks.writes:
        text = f"{folder.path}: finished at step {recipe.train.steps:,} before; train longer with --steps"
        print(text, flush=True)  # noqa: T201 - an answer
    return Outcome("finished", "nothing was left to do", recipe.train.steps)


def _tell(folder: RunFolder, before: Recipe, now: Recipe) -> None:
    """Say what people may not expect of a resumed run."""
    if not _has_checkpoint(folder):
        print("no checkpoint was saved yet: starting from step 0", flush=True)  # noqa: T201 - people must know
    if before.train.steps != now.train.steps:
        stretched = f", and the {now.optimizer.schedule} schedule of the learning rate is stretched to it"
        stretched *= now.optimizer.stretches
        print(  # noqa: T201 - people must know
            f"note: training ends at step {now.train.steps:,} instead of {before.train.steps:,}{stretched}", flush=True
        )


def _has_checkpoint(folder: RunFolder) -> bool:
    return bool(CheckpointStore(folder.checkpoints).names())


def _initial(parts: Parts, ranks: Ranks) -> nn.Module:
    model = parts.model(blank=bool(parts.recipe.init))
    check_optimizer(parts.recipe, model)
    try_sizes(parts.recipe, parts.task, model)
    if not parts.recipe.init:
        _tell_of_file(parts.recipe, ranks)
        return model
    other = RunFolder.open(Path(parts.recipe.init))
    checkpoint = answering.load_checkpoint(other)
    named = f"{other.path} ({toml.load(other.path / 'recipe.toml').model.name})"
    account = load_matching(model, answering.weights(checkpoint), named, partial=parts.recipe.init_partial)
    if ranks.writes:
        print(f"init from {other.path}, step {checkpoint.step:,}:", *account.lines(), sep="\n  ", flush=True)  # noqa: T201 - an account
    return model


def _tell_of_file(recipe: Recipe, ranks: Ranks) -> None:
    """Account for the tensors of a file that the backbone was given."""
    file, backbone = Path(recipe.model.weights), recipe.model.name.rpartition(":")[2]
    if ranks.writes and file.is_file() and not backbone.startswith(PREFIX):  # torchvision's fit whole or not at all
        account = account_of(backbone, file)
        print(f"backbone from {file}:", *account.lines("file"), sep="\n  ", flush=True)  # noqa: T201 - an account


@dataclass(frozen=True)
class _Run:
    """What a session needs to know of its surroundings."""

    parts: Parts
    folder: RunFolder
    ranks: Ranks
    device: torch.device

    @property
    def pin(self) -> bool:
        """Whether batches are copied to the device from page-locked memory."""
        return self.device.type == "cuda"


def _go(run: _Run, model: nn.Module, hooks: Sequence[Hook], checkpoint: str = "last") -> Outcome:
    recipe, folder, ranks = run.parts.recipe, run.folder, run.ranks
    check_pieces(recipe, ranks.of)
    if recipe.train.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS asks for it
    torch.use_deterministic_algorithms(recipe.train.deterministic)
    store = CheckpointStore(folder.checkpoints, recipe.train.keep)
    console = Console(folder.path / "log.txt", recipe.train.log_every)
    if ranks.writes and (note := devices.too_many_threads(run.device)):
        console.say(note)
    with folder.locked() if ranks.writes else contextlib.nullcontext():
        if ranks.writes:
            store.sweep()
            apart = has_norms(model) and not (recipe.train.sync_norms or recipe.train.frozen_norms)
            note_changes(folder, promise(recipe, run.device, ranks), apart=apart)
        session = Session(
            run.parts.task,
            synchronise_norms(model) if recipe.train.sync_norms and ranks.of > 1 else model,
            run.parts.training_feed(ranks.share, pin=run.pin),
            options=options_of(recipe),
            optimizer=recipe.optimizer,
            store=store,
            ranks=ranks,
            device=run.device,
            evaluate=evaluation_of(run.parts, ranks, run.device, pin=run.pin),
            follow=_follower(run, console) if recipe.follow.on else None,
            hooks=[*hooks_of(folder, recipe, ranks, console), *hooks],
        )
        begun = _loaded(store, checkpoint, ranks)
        if begun and ranks.writes and (later := store.after(begun.step)):
            print(f"note: {', '.join(later)} will go: the run goes on from step {begun.step:,}", flush=True)  # noqa: T201
        session.restore(begun)
        if ranks.writes:
            _keep_changes(folder, recipe, session.step)
        with _told_of_lone_pictures():
            return session.train()


def _loaded(store: CheckpointStore, name: str, ranks: Ranks) -> Checkpoint | None:
    """The checkpoint to go on from; instead of a last one that is damaged, the newest that is sound."""
    if name != "last":
        return store.load(name)
    found, faults = store.load_newest()
    if found is not None and ranks.writes:
        for fault in faults:
            print(f"note: going on from step {found.step:,}, as a newer checkpoint is damaged: {fault}", flush=True)  # noqa: T201 - people must know
    return found


def _keep_changes(folder: RunFolder, recipe: Recipe, step: int) -> None:
    """Keep the recipe that the run goes on with, and what changed in it from which step on."""
    before = toml.load(folder.path / "recipe.toml")
    if changed := toml.changes(before, recipe):
        folder.event("changed", step=step, settings={key: [was, now] for key, (was, now) in changed.items()})
        files.write_atomically(folder.path / "recipe.toml", toml.dump(recipe).encode())


def _follower(run: _Run, console: Console) -> Follower:
    """Made once the run is locked: what another process had taken up until then counts, on all ranks."""
    facts = json.dumps(read_facts(run.folder).as_json()) if run.ranks.writes else ""
    return Follower(run.parts, shared(run.ranks.share_text(facts)), run.folder, run.ranks, console.say, pin=run.pin)


@contextlib.contextmanager
def _told_of_lone_pictures() -> Iterator[None]:
    """Say what to do where batch normalisation is left with a single value per channel."""
    try:
        yield
    except ValueError as error:
        if not str(error).startswith("Expected more than 1 value per channel"):
            raise
        raise RecipeError(
            "train.batch",
            expected="at least two pictures for each rank and micro-batch: this model normalises over them",
            found="one",
            remedy="Make train.batch larger, or train.accumulate or the number of ranks smaller",
        ) from error

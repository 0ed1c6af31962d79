"""Whether and from where a run can be resumed, and what people should know of it."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Final

from penstock.assembly import steps_of
from penstock.config import toml
from penstock.errors import EmptySourceError, ExpiredError, RecipeError, RunError
from penstock.events import Events
from penstock.feed import changed
from penstock.ranks import Ranks
from penstock.runs import RunFolder
from penstock.session import CheckpointStore, Outcome, Session
from penstock.settings import Recipe

_OF_LENGTH: Final = frozenset({"train.steps", "train.epochs"})
_ENDS: Final = {"finished": "finished", "stopped": "stopped", "interrupted": "was interrupted"}
"""Events of a run that ended, with their words; before each of them it saves."""


def with_epochs(before: Recipe, recipe: Recipe) -> Recipe:
    """The changed recipe of a run with steps and epochs that agree: whichever was changed decides.

    Raises:
        PenstockError: the steps of an epoch cannot be counted.
    """
    train = recipe.train
    if train.epochs != before.train.epochs and train.epochs:
        return replace(recipe, train=replace(train, steps=steps_of(recipe)))
    if train.steps != before.train.steps:
        return replace(recipe, train=replace(train, epochs=0.0))
    return recipe


def check_steps(folder: RunFolder, recipe: Recipe, checkpoint: str) -> None:
    """Refuse fewer steps than the checkpoint that the run resumes from has finished."""
    path = (folder.checkpoints / checkpoint).resolve()
    name = path.name.removeprefix("step-")
    if path.exists() and name.isdecimal() and recipe.train.steps < int(name):
        raise RecipeError(
            f"{folder.path}: train.steps",
            expected=f"at least {int(name):,}, the step of the checkpoint",
            found=f"{recipe.train.steps:,}",
            remedy="Give more --steps, or an earlier --checkpoint",
        )


def check_validation(folder: RunFolder, recipe: Recipe) -> None:
    """Refuse another validation split, as scores on two splits have no common best."""
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


def is_finished(folder: RunFolder, recipe: Recipe) -> bool:
    """Whether the run has nothing left to do."""
    events = folder.lines("events.jsonl")
    last = events[-1] if events else {}
    newest = CheckpointStore(folder.checkpoints).names()[-1:]
    ended = last.get("event") == "finished" and last.get("step") == recipe.train.steps
    return ended and newest == [f"step-{recipe.train.steps:08d}"]


def nothing_to_do(folder: RunFolder, before: Recipe, recipe: Recipe, ranks: Ranks, events: Events) -> Outcome:
    """Answer for a finished run, once it is known to be whole."""
    with folder.locked() if ranks.is_main else contextlib.nullcontext():
        store = CheckpointStore(folder.checkpoints)
        store.load()
        if ranks.is_main:
            store.sweep()
            folder.sweep()
    events.note(
        f"{folder.path}: already finished, at step {recipe.train.steps:,}; to train longer, give a larger --steps"
    )
    if recipe != before:
        events.note("note: the changed settings have no effect, as no step was left to train")
    return Outcome("finished", "nothing was left to do", recipe.train.steps)


def check_checkpoints(folder: RunFolder) -> None:
    """A run that ended must have saved something, or its metrics would be replaced by those of another training. Who
    removes metrics.jsonl too wants that.

    Raises:
        RunError: its checkpoints are gone.
    """
    if has_checkpoint(folder):
        return
    ended = [line for line in folder.lines("events.jsonl") if line.get("event") in _ENDS and line.get("step")]
    if ended and folder.lines("metrics.jsonl"):
        raise RunError(
            str(folder.checkpoints),
            remedy="Restore the folder from a copy of the run, or start a new run",
            message=f"{folder.checkpoints} is empty, but the run {_ENDS[ended[-1]['event']]} at step "
            f"{ended[-1]['step']:,} and had saved a checkpoint.",
        )


def note_resume(folder: RunFolder, before: Recipe, now: Recipe, events: Events) -> None:
    """Say what people may not expect of a resumed run."""
    if not has_checkpoint(folder):
        events.note("no checkpoint was saved yet: starting from step 0")
    if before.train.steps != now.train.steps:
        stretched = ""
        if now.optimizer.schedule.stretches:
            stretched = f", and the {now.optimizer.schedule.name} schedule of the learning rate is stretched to it"
        events.note(f"note: training ends at step {now.train.steps:,} instead of {before.train.steps:,}{stretched}")
    different = {key: values for key, values in toml.changes(before, now).items() if key not in _OF_LENGTH}
    if different:
        found = ", ".join(f"{key} {was} -> {value}" for key, (was, value) in different.items())
        events.note(f"note: settings changed: {found}")


def has_checkpoint(folder: RunFolder) -> bool:
    """Whether the run has saved anything."""
    return bool(CheckpointStore(folder.checkpoints).names())


def check_sample(folder: RunFolder, session: Session, events: Events, *, accept: bool) -> None:
    """Read a sample of the last batch again: data, code and decoders must give the same one.

    Raises:
        RunError: they do not.
    """
    before = session.standing.sample
    if before is None:
        return
    # A topic may have deleted the sample, or all that it held; what is still to come will be there.
    with contextlib.suppress(ExpiredError, EmptySourceError):
        names = changed(session.feed, before)
        if not names:
            return
        found = f"another {' and '.join(names)} of {before['origin']}"
        if not accept:
            raise RunError(
                str(folder.path),
                expected=f"the samples that the run has learnt from until step {session.step:,}",
                found=found,
                remedy="The data, the code that prepares it or a library that decodes it has changed. Put it back, or "
                "go on with what there is now by --accept-changes",
            )
        events.note(f"note: {found} than before: going on all the same (--accept-changes)")
        if session.ranks.is_main:
            folder.event("other samples", step=session.step, sample=before["origin"], tensors=names)

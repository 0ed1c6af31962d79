"""What a checkpoint holds beside tensors, who writes it, and when."""

from __future__ import annotations

import copy
import errno
import math
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import torch

from penstock.errors import CheckpointError
from penstock.feed import Batch, fingerprint
from penstock.progress import counted
from penstock.ranks import Ranks
from penstock.runs import manifests
from penstock.session import finite
from penstock.session.checkpoint import Checkpoint, CheckpointStore
from penstock.session.learner import Learner
from penstock.values import Cursor


class Writing:
    """A checkpoint on its way to the disk.

    Args:
        step: its own.
        write: writes it.
        in_background: whether in a thread of its own. It ends with the process: what is written in part leaves the
            checkpoint before as it is.
    """

    def __init__(self, step: int, write: Callable[[], object], *, in_background: bool) -> None:
        self.step, self._write = step, write
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="penstock-save", daemon=True) if in_background else None

    def begin(self) -> None:
        """Write it, or have it written."""
        if self._thread:
            self._thread.start()
        else:
            self._write()

    def _run(self) -> None:
        try:
            self._write()
        except BaseException as error:  # noqa: BLE001 - raised by who waits for it
            self._error = error

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to wait for."""
        return self._thread is None or not self._thread.is_alive()

    def join(self) -> None:
        """Wait for it, and raise what writing it has raised."""
        if self._thread:
            self._thread.join()
        if self._error:
            raise self._error


def copied(checkpoint: Checkpoint) -> Checkpoint:
    """A checkpoint that stays as it is while training goes on: its tensors on the CPU, its state by value."""
    tensors = {
        file: {name: tensor.detach().to("cpu", copy=True) for name, tensor in named.items()}
        for file, named in checkpoint.tensors.items()
    }
    return Checkpoint(checkpoint.step, tensors, copy.deepcopy(dict(checkpoint.state)))


def _nothing() -> None:
    """Write nothing, as ranks above 0 do."""


class _Sample(msgspec.Struct):
    position: int
    origin: Any
    tensors: dict[str, str]


class _Saved(msgspec.Struct):
    """A `TrainingState` as a checkpoint has it."""

    cursor: Cursor
    best: tuple[int, float] | None
    pending_evaluation: bool
    hooks: dict[str, dict[str, Any]]
    left_out: tuple[int, ...] = ()
    sample: _Sample | None = None


@dataclass
class TrainingState:
    """Where a training stands.

    Attributes:
        step: finished optimizer steps.
        cursor: the state of the data path after them.
        best: (step, score) of the best evaluation so far; a larger score is better.
        pending_evaluation: whether the step is still to be evaluated.
        left_out: the steps that count, but learnt nothing: their loss or gradients were not finite.
        sample: the fingerprint of a sample that was learnt from before this session.
        fed: the last batch of this session, as it was read.
    """

    step: int = 0
    cursor: Cursor = field(default_factory=Cursor)
    best: tuple[int, float] | None = None
    pending_evaluation: bool = False
    left_out: tuple[int, ...] = ()
    sample: dict[str, Any] | None = None
    fed: Batch | None = None

    def as_json(self) -> dict[str, Any]:
        """As JSON can hold it, without the step, which the checkpoint is named after."""
        return {
            "cursor": {"position": self.cursor.position, "plan": self.cursor.plan},
            "best": list(self.best) if self.best else None,
            "pending_evaluation": self.pending_evaluation,
            "left_out": list(self.left_out),
            "sample": fingerprint(self.fed) if self.fed else self.sample,
        }

    @classmethod
    def from_json(cls, step: int, saved: Mapping[str, Any], where: str) -> TrainingState:
        """What `as_json` gave.

        Raises:
            CheckpointError: it is something else; `where` names the checkpoint.
        """
        try:
            found = msgspec.convert(saved, _Saved)
        except (msgspec.ValidationError, UnicodeEncodeError) as error:  # half of a surrogate pair
            raise manifests.damaged(Path(where) / "state.json", "the state of a training", str(error)) from None
        if found.best and not (0 < found.best[0] <= step and math.isfinite(found.best[1])):
            raise manifests.damaged(Path(where) / "state.json", "the state of a training", f"the best {found.best}")
        sample = msgspec.to_builtins(found.sample)
        return cls(step, found.cursor, found.best, found.pending_evaluation, found.left_out, sample)

    def check_position(self, batch: int, where: str) -> None:
        """Check that the cursor is at the position that follows from the step.

        Raises:
            CheckpointError: the cursor is at another position.
        """
        if self.cursor.position != (position := self.step * batch):
            raise CheckpointError(
                where,
                expected=f"a cursor at position {position:,}, behind {counted(self.step, 'step')}",
                found=f"position {self.cursor.position:,}",
                remedy="The checkpoint is of another batch size, or damaged: use another one of the run",
            )


@dataclass
class Saver:
    """Writes checkpoints. All ranks call it, and the main one writes.

    Attributes:
        store: of the run.
        ranks: of the training.
        device: where flags of ranks are added up.
        in_background: whether a thread writes a copy of what is saved, while training goes on.
        step: the last one that is saved.
        begun: the last one that is saved, or being written.
    """

    store: CheckpointStore
    ranks: Ranks
    device: torch.device
    in_background: bool = False
    step: int = 0
    begun: int = 0
    _writing: Writing | None = field(default=None, init=False)

    def save(self, learner: Learner, standing: TrainingState, more: Mapping[str, Any]) -> None:
        """Save what learns, where it stands, and more of what JSON can hold, or begin to. No other checkpoint may be
        being written: `wait` waits for it.

        Raises:
            NonFiniteError: something of it is not finite on some rank; nothing is saved.
            OSError: the folder is gone, or cannot be written.
        """
        tensors = learner.tensors()
        finite.check_saved(tensors, standing.step, lambda wrong: self.ranks.any(wrong, self.device))
        found = Checkpoint(standing.step, tensors, {**standing.as_json(), **more})
        write: Callable[[], object] = _nothing
        if self.ranks.is_main:
            self._check_there()
            found = copied(found) if self.in_background else found
            write = partial(self.store.save, found)
        self._writing = Writing(standing.step, write, in_background=self.in_background and self.ranks.is_main)
        self.begun = standing.step
        self._writing.begin()

    @property
    def is_written(self) -> bool:
        """Whether a checkpoint was written, or failed to be, that nobody has waited for."""
        return self._writing is not None and self._writing.is_done

    def join(self) -> None:
        """Wait for the checkpoint that is being written on this rank, if one is.

        Raises:
            OSError: it could not be written.
        """
        if self._writing is not None:
            try:
                self._writing.join()
            except BaseException:
                self._writing, self.begun = None, self.step
                raise
            self.step = self._writing.step

    def wait(self) -> Path | None:
        """Wait for the checkpoint that is being written, on all ranks; its folder, or None where there is none.

        Raises:
            OSError: it could not be written.
        """
        if self._writing is None:
            return None
        self.join()
        self._writing = None
        self.ranks.barrier()
        return self.store.folder / f"step-{self.step:08d}"

    def _check_there(self) -> None:
        """The folder of a run that was moved away or removed is not made again."""
        if not self.store.folder.parent.is_dir():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self.store.folder.parent))

    def rewind(self, checkpoint: Checkpoint) -> bool:
        """Make a checkpoint the last one, before logs are cut back to it. Whether a best one is left."""
        self.ranks.barrier()  # until all have read it
        if self.ranks.is_main:
            self.store.rewind(checkpoint)
        self.ranks.barrier()
        self.step = self.begun = checkpoint.step
        return (self.store.folder / "best").exists()

    def mark(self, name: str, step: int) -> bool:
        """Point a name, such as `best`, at the checkpoint of a step, which is kept for as long; whether it is there."""
        is_there = (self.store.folder / f"step-{step:08d}").is_dir()
        if is_there and self.ranks.is_main:
            self.store.mark(name, step)
        return is_there

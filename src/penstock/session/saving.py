"""What a checkpoint holds beside tensors, and who writes it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from penstock.errors import CheckpointError
from penstock.progress import counted
from penstock.session import finite
from penstock.session.checkpoint import Checkpoint
from penstock.values import Cursor

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import torch

    from penstock.ranks import Ranks
    from penstock.session.checkpoint import CheckpointStore
    from penstock.session.learner import Learner


@dataclass
class Standing:
    """Where a training stands.

    Attributes:
        step: finished optimizer steps.
        cursor: the state of the data path after them.
        best: (step, score) of the best evaluation so far; a larger score is better.
        pending_evaluation: whether the step is still to be evaluated.
    """

    step: int = 0
    cursor: Cursor = field(default_factory=Cursor)
    best: tuple[int, float] | None = None
    pending_evaluation: bool = False

    def as_json(self) -> dict[str, Any]:
        """As JSON can hold it, without the step, which the checkpoint is named after."""
        return {
            "cursor": {"position": self.cursor.position, "plan": self.cursor.plan},
            "best": list(self.best) if self.best else None,
            "pending_evaluation": self.pending_evaluation,
        }

    @classmethod
    def from_json(cls, step: int, saved: Mapping[str, Any]) -> Standing:
        """What `as_json` gave."""
        best = tuple(saved["best"]) if saved["best"] else None
        return cls(step, Cursor(**saved["cursor"]), best, saved["pending_evaluation"])

    def check_position(self, batch: int, where: str) -> None:
        """A step leaves the data path at one position.

        Args:
            batch: samples of a global batch.
            where: names the checkpoint.

        Raises:
            CheckpointError: the position is another one.
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
        step: the last one that was saved.
    """

    store: CheckpointStore
    ranks: Ranks
    device: torch.device
    step: int = 0

    def save(self, learner: Learner, standing: Standing, more: Mapping[str, Any]) -> Path:
        """Save what learns, where it stands, and more of what JSON can hold; the folder of the checkpoint.

        Raises:
            NonFiniteError: something of it is not finite on some rank; nothing is saved.
        """
        tensors = learner.tensors()
        finite.check_saved(tensors, standing.step, lambda wrong: self.ranks.any(wrong, self.device))
        if self.ranks.is_main:
            self.store.save(Checkpoint(standing.step, tensors, {**standing.as_json(), **more}))
        self.ranks.barrier()
        self.step = standing.step
        return self.store.folder / f"step-{standing.step:08d}"

    def rewind(self, checkpoint: Checkpoint) -> bool:
        """Make a checkpoint the last one: what was saved after it goes. Whether a best one is left.

        It comes before logs are cut back, so that the last checkpoint never lies behind their end.
        """
        self.ranks.barrier()  # until all have read it
        if self.ranks.is_main:
            self.store.rewind(checkpoint)
        self.ranks.barrier()
        self.step = checkpoint.step
        return (self.store.folder / "best").exists()

    def mark_best(self, step: int) -> None:
        """Mark the checkpoint of a step as the best."""
        if self.ranks.is_main:
            self.store.mark_best(step)

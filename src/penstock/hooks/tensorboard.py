"""TensorBoard as a mirror of the metrics; the extra `penstock[tensorboard]`."""

from __future__ import annotations

import contextlib
import importlib.util
from typing import TYPE_CHECKING, Any

from penstock.session import Hook, Steps
from penstock.session.evaluation import with_loss

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.session import Session
    from penstock.tasks.base import Scores


class TensorBoard(Hook):
    """Writes loss, learning rate and scores to a log folder, and at every evaluation a histogram of each parameter;
    steps that a resume repeats replace the old ones.
    """

    band = "persist"

    def __init__(self, folder: Path, interval: int) -> None:
        self.folder = folder
        self.every = Steps(interval)
        self._writer: Any = None

    @staticmethod
    def available() -> bool:
        """Whether tensorboard is installed."""
        return importlib.util.find_spec("tensorboard") is not None

    def on_start(self, session: Session) -> None:
        """Open the log; what lies beyond the step of the checkpoint is purged."""
        from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415 - an extra

        self._writer = SummaryWriter(str(self.folder), purge_step=session.step + 1)

    def after_step(self, session: Session) -> None:
        """Write loss and learning rate."""
        self._writer.add_scalar("train/loss", session.loss, session.step)
        self._writer.add_scalar("train/lr", session.lr, session.step)

    def after_eval(self, session: Session, scores: Scores, loss: float | None) -> None:
        """Write the scores, and what the weights are like."""
        for name, value in with_loss(loss, scores.summary()).items():
            self._writer.add_scalar(f"evaluation/{name}", value, session.step)
        for name, parameter in session.model.named_parameters():
            with contextlib.suppress(ValueError):  # it finds no bins for numbers that are none, or very large
                self._writer.add_histogram(name, parameter.detach().float().cpu(), session.step)

    def on_end(self, session: Session) -> None:
        """Close the log."""
        if self._writer is not None:
            self._writer.close()

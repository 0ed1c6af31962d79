"""TensorBoard as a mirror of the metrics; the extra `penstock[tensorboard]`."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any, Final

import torch

from penstock.hooks.drawn import batch_sheet
from penstock.hooks.mirror import Mirror
from penstock.session import Session, Steps
from penstock.session.evaluation import with_loss
from penstock.session.sharding import local
from penstock.tasks.scoring import Scores

_BINS: Final = 64
"""Bins of a histogram."""


class TensorBoard(Mirror):
    """Writes loss, learning rate, gradient norm, throughput and scores to a log folder, the first batch as an image,
    and at every evaluation a histogram of each parameter and its last gradient (with `train.fsdp`, of the first rank's
    part); steps that a resume repeats replace the old ones.
    """

    tool = "TensorBoard"

    def __init__(self, folder: Path, interval: int) -> None:
        super().__init__()
        self.folder = folder
        self.every = Steps(interval)
        self._writer: Any = None
        self._is_drawn = False

    @staticmethod
    def available() -> bool:
        """Whether tensorboard is installed."""
        return importlib.util.find_spec("tensorboard") is not None

    def open(self, session: Session) -> None:
        """Open the log; what lies beyond the step of the checkpoint is purged."""
        from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415 - an extra

        self._writer = SummaryWriter(str(self.folder), purge_step=session.step + 1)

    def log_step(self, session: Session) -> None:
        """Write the numbers of a step, and the images of the first one."""
        for name, value in self.numbers(session).items():
            self._writer.add_scalar(name, value, session.step)
        if not self._is_drawn and session.batch is not None:
            self._is_drawn = True
            drawn = batch_sheet(session.task, session.batch)
            self._writer.add_image("train/batch", drawn, session.step, dataformats="HWC")

    def log_scores(self, session: Session, scores: Scores, loss: float | None) -> None:
        """Write the scores, and what the weights and their gradients are like."""
        for name, value in with_loss(loss, scores.summary()).items():
            self._writer.add_scalar(f"evaluation/{name}", value, session.step)
        for name, parameter in session.model.named_parameters():
            self._histogram(name, parameter, session.step)
            if parameter.grad is not None:
                self._histogram(f"gradients/{name}", parameter.grad, session.step)

    def _histogram(self, name: str, values: torch.Tensor, step: int) -> None:
        """Write the distribution of a finite tensor in bins of equal width, which needs no sorting."""
        flat = local(values.detach()).float().flatten().cpu().double()
        if not flat.numel() or not flat.isfinite().all():
            return
        low, high = flat.min().item(), flat.max().item()
        margin = max(1.0, abs(low)) / 2 if low == high else 0.0
        start, stop = low - margin, high + margin
        self._writer.add_histogram_raw(
            name,
            min=low,
            max=high,
            num=flat.numel(),
            sum=flat.sum().item(),
            sum_squares=flat.square().sum().item(),
            bucket_limits=[start + (stop - start) * number / _BINS for number in range(1, _BINS + 1)],
            bucket_counts=flat.histc(_BINS, start, stop).tolist(),
            global_step=step,
        )

    def close(self) -> None:
        """Close the log."""
        self._writer.close()

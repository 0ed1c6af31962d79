"""Weights & Biases as a mirror of the metrics; the extra `penstock[wandb]`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock.hooks.drawn import batch_sheet
from penstock.hooks.mirror import Mirror, settings_of
from penstock.session import Session, Steps
from penstock.session.evaluation import with_loss
from penstock.tasks.scoring import Scores


class WandB(Mirror):
    """Writes settings, loss, learning rate, gradient norm, throughput, scores and the first batch to a run of Weights &
    Biases, which a resumed training goes on with. WANDB_MODE=offline keeps it in the run folder.

    Args:
        folder: the run's.
        project: its name in Weights & Biases.
        entity: the team or user; "" for the user's default.
        every: steps between two that are written.
    """

    requires = "wandb"
    tool = "Weights & Biases"

    def __init__(self, folder: Path, project: str = "penstock", entity: str = "", every: int = 10) -> None:
        super().__init__()
        self.folder, self.project, self.entity = folder, project, entity
        self.every = Steps(every)
        self._run: Any = None
        self._id = ""
        self._code = 1

    def open(self, session: Session) -> None:
        """Go on with the run of Weights & Biases, or begin one."""
        import wandb  # noqa: PLC0415 - an extra

        self._run = wandb.init(
            project=self.project,
            entity=self.entity or None,
            name=self.folder.name,
            id=self._id or None,
            resume="allow",
            dir=self.folder,
            config=settings_of(self.folder),
            settings=wandb.Settings(console="off", silent=True),  # the output is Penstock's
        )
        self._id = self._run.id

    def log_step(self, session: Session) -> None:
        """Write the numbers of a step, and the images of the first one that is written."""
        import wandb  # noqa: PLC0415 - an extra

        more = {}
        if session.step == self.every.interval and session.batch is not None:
            more = {"train/batch": wandb.Image(batch_sheet(session.task, session.batch))}
        self._run.log({**self.numbers(session), **more}, step=session.step)

    def log_scores(self, session: Session, scores: Scores, loss: float | None) -> None:
        """Write the scores."""
        found = with_loss(loss, scores.summary())
        self._run.log({f"evaluation/{name}": value for name, value in found.items()}, step=session.step)

    def on_end(self, session: Session) -> None:
        """Say in Weights & Biases how it ended."""
        self._code = int(not session.outcome or session.outcome.status == "failed")
        super().on_end(session)

    def close(self) -> None:
        """End the run of Weights & Biases."""
        self._run.finish(exit_code=self._code)

    def state_dict(self) -> dict[str, Any]:
        """Which run of Weights & Biases it is."""
        return {"run": self._id}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on with it."""
        self._id = str(state.get("run", ""))

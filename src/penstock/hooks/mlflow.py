"""MLflow as a mirror of the metrics; the extra `penstock[mlflow]`."""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from penstock.hooks.mirror import Mirror, settings_of
from penstock.session import Session, Steps
from penstock.session.evaluation import with_loss
from penstock.tasks.scoring import Scores

_PIECE: Final = 100  # parameters that MLflow takes at once
_ENDS: Final = {"finished": "FINISHED", "stopped": "FINISHED", "interrupted": "KILLED", "failed": "FAILED"}


class MLflow(Mirror):
    """Writes settings, loss, learning rate, gradient norm, throughput and scores to a run of MLflow, which a resumed
    training goes on with. Steps that are done again are there twice, as MLflow cannot forget.

    Args:
        folder: the run's.
        experiment: its name in MLflow; there need be none yet.
        uri: of the tracking server; "" for what MLFLOW_TRACKING_URI says.
        every: steps between two that are written.
    """

    requires = "mlflow"
    tool = "MLflow"

    def __init__(self, folder: Path, experiment: str = "penstock", uri: str = "", every: int = 10) -> None:
        super().__init__()
        self.folder, self.experiment, self.uri = folder, experiment, uri
        self.every = Steps(every)
        self._client: Any = None
        self._run = ""
        self._status = "FAILED"

    def open(self, session: Session) -> None:
        """Go on with the run of MLflow, or begin one."""
        from mlflow import MlflowClient  # noqa: PLC0415 - an extra

        self._client = MlflowClient(tracking_uri=self.uri or None)
        if self._run:
            self._client.update_run(self._run, status="RUNNING")
            return
        found = self._client.get_experiment_by_name(self.experiment)
        number = found.experiment_id if found else self._client.create_experiment(self.experiment)
        tags = {"penstock.run": str(self.folder.resolve())}
        self._run = self._client.create_run(number, run_name=self.folder.name, tags=tags).info.run_id
        self._log_settings()

    def _log_settings(self) -> None:
        from mlflow.entities import Param  # noqa: PLC0415 - an extra

        params = iter([Param(name, str(value)) for name, value in settings_of(self.folder).items()])
        while piece := list(itertools.islice(params, _PIECE)):
            self._client.log_batch(self._run, params=piece)

    def log_step(self, session: Session) -> None:
        """Write the numbers of a step."""
        self._log(self.numbers(session), session.step)

    def log_scores(self, session: Session, scores: Scores, loss: float | None) -> None:
        """Write the scores."""
        found = with_loss(loss, scores.summary())
        self._log({f"evaluation/{name}": value for name, value in found.items()}, session.step)

    def _log(self, numbers: Mapping[str, float], step: int) -> None:
        from mlflow.entities import Metric  # noqa: PLC0415 - an extra

        now = int(1000 * time.time())
        self._client.log_batch(
            self._run, metrics=[Metric(name, float(value), now, step) for name, value in numbers.items()]
        )

    def on_end(self, session: Session) -> None:
        """Say in MLflow how it ended."""
        self._status = _ENDS.get(session.outcome.status if session.outcome else "failed", "FAILED")
        super().on_end(session)

    def close(self) -> None:
        """End the run of MLflow."""
        self._client.set_terminated(self._run, self._status)

    def state_dict(self) -> dict[str, Any]:
        """Which run of MLflow it is."""
        return {"run": self._run}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on with it."""
        self._run = str(state.get("run", ""))

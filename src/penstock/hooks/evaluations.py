"""evaluations/step-NNNNNNNN.json: everything an evaluation found."""

from __future__ import annotations

from penstock.runs import RunFolder
from penstock.session import Hook, Session
from penstock.session.evaluation import as_record
from penstock.tasks.scoring import Scores


class EvaluationFiles(Hook):
    """Writes every evaluation's scores, per class and with the confusion matrix."""

    band = "persist"

    def __init__(self, folder: RunFolder, split: str) -> None:
        self.folder = folder
        self.split = split

    def on_start(self, session: Session) -> None:
        """Remove what was found after steps that are undone."""
        for path in (self.folder.path / "evaluations").glob("step-*.json"):
            if path.name > f"step-{session.step:08d}.json":
                path.unlink()

    def after_eval(self, session: Session, scores: Scores, loss: float | None) -> None:
        """Write the file."""
        content = {"step": session.step, "split": self.split, **as_record(loss, scores)}
        self.folder.write_json(f"evaluations/step-{session.step:08d}.json", content)

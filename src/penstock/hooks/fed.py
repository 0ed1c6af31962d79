"""fed/step-NNNNNNNN.png: what the network is given."""

from __future__ import annotations

from pathlib import Path

from penstock.files import write_atomically
from penstock.hooks.drawn import batch_sheet
from penstock.images import codecs
from penstock.session import Hook, Session, Steps


class FedImages(Hook):
    """Draws batches of the main rank as the network is given them, with their labels: those of the first steps of a
    run, and one every so many steps.

    Args:
        folder: the run's.
        first: steps at the start of the run that are drawn.
        every: steps between later drawings; 0 draws none.
    """

    band = "persist"

    def __init__(self, folder: Path, first: int = 1, every: int = 0) -> None:
        self.folder, self.first, self.interval = folder / "fed", first, every
        self.every = Steps(1)

    def before_step(self, session: Session) -> None:
        """Draw, where it is due."""
        step = session.step + 1
        due = step <= self.first or (self.interval > 0 and step % self.interval == 0)
        if due and session.ranks.is_main and session.batch is not None:
            self.folder.mkdir(exist_ok=True)
            drawn = codecs.encode_png(batch_sheet(session.task, session.batch))
            write_atomically(self.folder / f"step-{step:08d}.png", drawn)

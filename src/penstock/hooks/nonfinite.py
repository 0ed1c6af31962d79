"""nonfinite/step-NNNNNNNN/: the batch of a step whose loss or gradients were not finite."""

from __future__ import annotations

import contextlib
import math
from pathlib import Path
from typing import Any

from penstock.feed import Batch
from penstock.files import to_json, write_atomically
from penstock.hooks.drawn import batch_sheet
from penstock.images import codecs
from penstock.session import Hook, NonFinite, Session


class NonFiniteFiles(Hook):
    """Keeps what is needed to find out why a step was not finite: batch.json with the origins of all samples, the
    samples that give infinite numbers by themselves and the module where it began; and images.png, which shows up to
    16 samples as the network was given them, the suspects first. Ranks above 0 write batch-rank1.json and so on.
    """

    band = "measure"

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "nonfinite"

    def on_nonfinite(self, session: Session, found: NonFinite) -> None:
        """Write the files."""
        batch = session.batch
        if batch is None:
            return
        place = self.folder / f"step-{found.step:08d}"
        place.mkdir(parents=True, exist_ok=True)
        end = "" if session.ranks.is_main else f"-rank{session.ranks.rank}"
        write_atomically(place / f"batch{end}.json", to_json(_content(batch, found)))
        with contextlib.suppress(ValueError, IndexError, OverflowError):  # labels that no drawing can show
            write_atomically(
                place / f"images{end}.png", codecs.encode_png(batch_sheet(session.task, batch, found.cause.samples))
            )


def _content(batch: Batch, found: NonFinite) -> dict[str, Any]:
    return {
        "step": found.step,
        "loss": _number(found.loss),
        "gradient_norm": _number(found.norm),
        "began_in": found.cause.place,
        "samples": list(found.cause.samples),
        "action": found.action,
        "origins": list(batch.origins),
    }


def _number(value: float) -> float | str:
    """JSON has no infinity."""
    return value if math.isfinite(value) else str(value)

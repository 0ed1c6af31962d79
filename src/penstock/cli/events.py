"""What a training says, as lines on standard output."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.progress import drop_output

if TYPE_CHECKING:
    import penstock as ps


def show(event: ps.Event) -> None:
    """Print an event's line to whoever reads; why a training failed is left to the error that follows."""
    failed = getattr(event, "status", "") == "failed"
    try:
        print(event.message.partition(":")[0] if failed else event.message, flush=True)
    except BrokenPipeError:  # Ctrl-C ends a tee too; the training is to be saved
        drop_output()

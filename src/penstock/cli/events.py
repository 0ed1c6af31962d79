"""What a training says, as lines on standard output, and a bar on a terminal."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

from penstock.progress import Progress, drop_output, silent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import penstock as ps


def show(event: ps.Event) -> None:
    """Print an event's line to whoever reads; why a training failed is left to the error that follows."""
    failed = getattr(event, "status", "") == "failed"
    try:
        print(event.message.partition(":")[0] if failed else event.message, flush=True)
    except BrokenPipeError:  # Ctrl-C ends a tee too; the training is to be saved
        drop_output()


@contextlib.contextmanager
def bar() -> Iterator[Callable[[int, int], None]]:
    """A bar of the steps on a terminal, from the first one on. Elsewhere, and on other ranks, lines are enough."""
    with contextlib.ExitStack() as stack:
        begun: list[Progress] = []

        def progress(done: int, total: int) -> None:
            if not begun:
                begun.append(stack.enter_context(Progress("train", "steps")))
            begun[0](done, total)

        yield progress if sys.stderr.isatty() else silent

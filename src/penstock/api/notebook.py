"""A training in a notebook: a bar, the last line and the curves, which change while it goes."""

from __future__ import annotations

import html
import sys
import time
from typing import TYPE_CHECKING, Any, Final

from penstock.events import Evaluated, StepFinished
from penstock.progress import silent

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.events import Event, OnEvent

    OnProgress = Callable[[int, int], None]

_KERNEL: Final = "ipykernel"
_PAUSE: Final = 0.5  # seconds between two drawings


def shown(on_event: OnEvent | None, progress: OnProgress) -> tuple[OnEvent | None, OnProgress]:
    """What is called as a training goes: what the caller gave; a live view in a notebook, if that is nothing."""
    if on_event or progress is not silent or _KERNEL not in sys.modules:
        return on_event, progress
    view = LiveView()
    return view.on_event, view.progress


class LiveView:
    """The output of a cell: a bar of the steps, the last line, and the curves of the loss and of each score."""

    def __init__(self) -> None:
        self._steps = (0, 0)
        self._line = ""
        self._values: dict[str, list[tuple[float, float]]] = {}
        self._output: Any = None
        self._drawn = 0.0

    def progress(self, done: int, total: int) -> None:
        """Move the bar."""
        self._steps = done, total
        if done == total or time.monotonic() - self._drawn > _PAUSE:
            self._draw()

    def on_event(self, event: Event) -> None:
        """Show the event's line, and its values as points of the curves."""
        self._line = event.message.splitlines()[-1]
        if isinstance(event, StepFinished):
            self._values.setdefault("loss", []).append((event.step, event.loss))
        if isinstance(event, Evaluated):
            for name, value in event.scores.items():
                self._values.setdefault(name, []).append((event.step, value))
        self._draw()

    def page(self) -> str:
        """The view as HTML."""
        from penstock.report.curves import STYLE, Curve, chart  # noqa: PLC0415 - only in notebooks

        done, total = self._steps
        bar = f'<progress value="{done}" max="{total}" style="width:100%"></progress>' if total else ""
        charts = "".join(chart(name, [Curve(name, points)]) for name, points in self._values.items())
        line = f"<pre>{html.escape(self._line)}</pre>"
        return f'<style>{STYLE}</style>{bar}{line}<div class="curves">{charts}</div>'

    def _draw(self) -> None:
        """Show the view: new for the first time, and then in the same place."""
        from IPython.display import HTML, display  # noqa: PLC0415 - of the notebook, not of ours

        self._drawn = time.monotonic()
        if self._output is None:
            self._output = display(HTML(self.page()), display_id=True)
        else:
            self._output.update(HTML(self.page()))

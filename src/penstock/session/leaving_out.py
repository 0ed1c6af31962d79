"""Steps whose numbers are not finite: what is found out about them, told to hooks, and decided."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from penstock.session import finite
from penstock.session.diagnosis import Cause, NonFinite

if TYPE_CHECKING:
    from penstock.errors import NonFiniteError
    from penstock.feed import Batch
    from penstock.session.session import Session
    from penstock.tasks import Task


def leave_out(session: Session, error: NonFiniteError, task: Task, batch: Batch, step: int) -> None:
    """Leave out a step that has failed, if that is allowed: it counts, but nothing is learnt from it.

    Args:
        session: whose step it is; its last checkpoint is written by the time that hooks are told.
        error: what was found.
        task: as it was after `step` finished steps.
        batch: this rank's slice.
        step: finished steps.

    Raises:
        NonFiniteError: it is not allowed.
    """
    options, standing = session.options, session.standing
    session.saver.join()
    left_out = len(standing.left_out)
    action = options.nonfinite if left_out < options.nonfinite_limit else "stop"
    found = NonFinite(step + 1, error.loss, error.norm, _cause(session, task, batch, step), action)
    finite.explain(error, found.cause, left_out if action != options.nonfinite else 0)
    session.attached.call(session, "on_nonfinite", found)
    if action != "skip":
        raise error
    standing.left_out = (*standing.left_out, step + 1)


def _cause(session: Session, task: Task, batch: Batch, step: int) -> Cause:
    """Where a step became infinite: the same on every rank."""
    cause, ranks = Cause(), session.ranks
    with contextlib.suppress(Exception):  # what is said of an error must not hide it
        cause = session.learner.diagnose(task, batch, step, ranks.rank)
    places = [place for place in ranks.gather([cause.place]) if place]
    return Cause(places[0] if places else "", tuple(ranks.gather(cause.samples)))

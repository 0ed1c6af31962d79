"""Nothing that is infinite or not a number goes on: no step is made with it, and no checkpoint holds it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import nn

from penstock.errors import NonFiniteError
from penstock.feed import Batch
from penstock.progress import counted
from penstock.session import state
from penstock.session.diagnosis import Cause
from penstock.session.sharding import whole

_SHOWN = 16  # records of a batch that a line names


def checked_step(
    parameters: Sequence[nn.Parameter], loss: torch.Tensor, batch: Batch, step: int
) -> tuple[float, float, torch.Tensor]:
    """The loss and the norm of the gradients as numbers, which are the same on all ranks by now: all agree; and the
    norm on its device.

    Raises:
        NonFiniteError: one of them is not finite.
    """
    gradients = [p.grad for p in parameters if p.grad is not None]
    norm = whole(torch.nn.utils.get_total_norm(gradients))
    value, size = torch.stack([loss, norm.to(loss.device)]).tolist()
    if math.isfinite(value) and math.isfinite(size):
        return float(value), float(size), norm
    shown = ", ".join(batch.origins[:_SHOWN]) + (", ..." if len(batch.origins) > _SHOWN else "")
    error = NonFiniteError(
        f"step {step}",
        expected="a finite loss and finite gradients",
        found=f"loss {value}, gradient norm {size}, from {shown}",
        remedy="The images are in the run's folder nonfinite. Resume with --set train.nonfinite=skip to leave this "
        "step out, or lower the learning rate",
    )
    error.loss, error.norm = value, size
    raise error


def explain(error: NonFiniteError, cause: Cause, left_out: int) -> None:
    """Say where a step became infinite and, if steps were left out before, that no more may be."""
    error.found = f"{error.found}; {cause}"
    if left_out:
        error.remedy = (
            f"{counted(left_out, 'step')} left out before, as many as train.nonfinite_limit allows. Lower the learning "
            "rate"
        )


def explain_unsaved(error: NonFiniteError, cause: NonFiniteError, saved: int) -> None:
    """Say that the step before a failed one is not finite either, and what is left to go on from.

    Args:
        error: of the step that failed.
        cause: why the one before was not saved.
        saved: the step of the last checkpoint, 0 for none.
    """
    begin = f"Resume from step {saved:,}" if saved else "There is no checkpoint: start again"
    error.remedy = f"The step before could not be saved ({cause.found}). {begin} with a lower --lr"


def check_saved(tensors: Mapping[str, Mapping[str, torch.Tensor]], step: int, any_rank: Callable[[bool], bool]) -> None:
    """What is saved must be finite, on all ranks: a step may overflow although its loss and gradients do not.

    Raises:
        NonFiniteError: one of them is not.
    """
    wrong = [f"{kind} {name}" for kind, named in tensors.items() for name in state.not_finite(named)]
    if any_rank(bool(wrong)):
        more = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        raise NonFiniteError(
            f"step {step:,}",
            expected="finite weights, statistics and optimizer states to save",
            found=f"NaN or infinity in {wrong[0]}{more}" if wrong else "NaN or infinity on another rank",
            remedy="This checkpoint was not written. Resume from the last one with a lower --lr",
        )

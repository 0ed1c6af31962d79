"""The loop that trains, and what makes it safe to kill.

hook.py          what can be attached: seven points, and how often
session.py       the loop: one step, and what follows it
step.py          the gradients of one step
finite.py        nothing infinite goes on
checkpoint.py    saved states: atomic, hashed, pruned
state.py         optimizers and models as named tensors
options.py       what the loop is told, what it asks for, what it answers
optimizer.py     parameter groups, optimizers, schedules
average.py       the moving average of the weights
signals.py       Ctrl-C and SIGTERM as a flag
"""

from penstock.session.checkpoint import Checkpoint, CheckpointStore
from penstock.session.hook import Every, Hook, Steps
from penstock.session.optimizer import OptimizerSpec
from penstock.session.options import Follow, Options, Outcome
from penstock.session.session import Session

__all__ = [
    "Checkpoint",
    "CheckpointStore",
    "Every",
    "Follow",
    "Hook",
    "OptimizerSpec",
    "Options",
    "Outcome",
    "Session",
    "Steps",
]

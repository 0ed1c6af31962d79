"""The loop that trains, and what makes it safe to kill.

hook.py          what can be attached: ten points, in three bands
session.py       the loop: one step, and what follows it
learner.py       the model, its optimizer and the average of its weights
step.py          the gradients of one step
saving.py        where a training stands, and who saves it
requests.py      what was asked for, and what is due after a step
best.py          which evaluation is the best
hook_list.py     how hooks are called
finite.py        nothing infinite goes on
diagnosis.py     where a step became infinite
checkpoint.py    saved states: atomic, hashed, pruned
state.py         optimizers and models as named tensors
options.py       what the loop is given, what it asks for, how it ended
kept.py          what a step keeps for hooks
undo.py          undoes a step that fails
optimizer.py     parameter groups, optimizers, schedules
ema.py           the moving average of the weights
blocks.py        the blocks that a network is cut by
sharding.py      weights cut over ranks
signals.py       Ctrl-C and SIGTERM as a flag
activation_checkpointing.py  activation checkpointing
evaluation.py    evaluation
leaving_out.py   steps whose numbers are not finite
memory.py        steps that run out of memory
muon.py          Muon for convolutional networks
custom_metrics.py custom metrics beside a task's, by their places
"""

from penstock.session.checkpoint import Checkpoint, CheckpointStore
from penstock.session.diagnosis import NonFinite
from penstock.session.hook import Hook, Steps
from penstock.session.hook_list import HookList
from penstock.session.learner import Learner
from penstock.session.options import Outcome
from penstock.session.saving import Saver
from penstock.session.session import Session

__all__ = [
    "Checkpoint",
    "CheckpointStore",
    "Hook",
    "HookList",
    "Learner",
    "NonFinite",
    "Outcome",
    "Saver",
    "Session",
    "Steps",
]

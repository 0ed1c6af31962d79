"""Training: a recipe to a run, and a run that goes on.

run.py              start and resume
agreement.py        what all ranks must agree on before a run begins
resuming.py         whether and from where a run can be resumed
weights.py          the weights that a run begins with
compatibility.py    whether a network takes images of the recipe's size, and its optimizer
reproducibility.py  what weights depend on besides, and whether they come out the same again
streaming.py        the next snapshot of a topic that grows
wiring.py           what a session is made with
finders.py          a learning rate and a batch that suit a training
recording.py        what a run folder keeps of how its training was begun and changed
retrying.py         failures that may pass by themselves
"""

from penstock.config.checks import check_follow
from penstock.training.finders import find_batch, find_lr, find_time
from penstock.training.run import resume, train

__all__ = ["check_follow", "find_batch", "find_lr", "find_time", "resume", "train"]

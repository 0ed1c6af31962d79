"""What is attached to a session: logs, progress, files, mirrors.

logs.py         metrics.jsonl, timings.jsonl, events.jsonl, origins
console.py      what people watch
evaluations.py  evaluations/*.json and images of the predictions
fed.py          fed/: batches as the network is given them
values.py       values of a step as lines
placement.py    where tensors are
nonfinite.py    nonfinite/step-*: the batch of a step that was not finite
stopping.py     an early end: no better scores, a step, a time
saving.py       checkpoints by the clock, and the best by other scores
profiling.py    traces of single steps
mirror.py       what mirrors in other tools have in common
tensorboard.py  a mirror of the metrics
mlflow.py       another one
wandb.py        another one
drawn.py        a batch as an image grid
custom.py       hooks that a recipe names
"""

from penstock.hooks.console import Console
from penstock.hooks.evaluations import EvaluationFiles
from penstock.hooks.logs import EventsLog, MetricsLog, OriginsLog, TimingsLog
from penstock.hooks.mirror import Mirror
from penstock.hooks.nonfinite import NonFiniteFiles
from penstock.hooks.saving import SaveByTime
from penstock.hooks.stopping import EarlyStopping, MaxTime
from penstock.hooks.tensorboard import TensorBoard
from penstock.session import Steps

__all__ = [
    "Console",
    "EarlyStopping",
    "EvaluationFiles",
    "EventsLog",
    "MaxTime",
    "MetricsLog",
    "Mirror",
    "NonFiniteFiles",
    "OriginsLog",
    "SaveByTime",
    "Steps",
    "TensorBoard",
    "TimingsLog",
]

"""What is attached to a session: logs, progress, files, mirrors.

logs.py         metrics.jsonl, timings.jsonl, events.jsonl, origins
console.py      what people watch
evaluations.py  evaluations/*.json and images of the predictions
stopping.py     an early end: no better scores, a step, a time
saving.py       checkpoints by the clock
profiling.py    traces of single steps
tensorboard.py  a mirror of the metrics
"""

from penstock.hooks.console import Console
from penstock.hooks.evaluations import EvaluationFiles
from penstock.hooks.logs import EventsLog, MetricsLog, OriginsLog, TimingsLog
from penstock.hooks.profiling import Profile
from penstock.hooks.saving import SaveByTime
from penstock.hooks.stopping import EarlyStopping, MaxTime, StopAtStep
from penstock.hooks.tensorboard import TensorBoard
from penstock.session.when import AtEnd, Either, Epochs, Seconds, Steps

__all__ = [
    "AtEnd",
    "Console",
    "EarlyStopping",
    "Either",
    "Epochs",
    "EvaluationFiles",
    "EventsLog",
    "MaxTime",
    "MetricsLog",
    "OriginsLog",
    "Profile",
    "SaveByTime",
    "Seconds",
    "Steps",
    "StopAtStep",
    "TensorBoard",
    "TimingsLog",
]

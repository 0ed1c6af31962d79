"""The public face: what `import penstock as ps` gives. Everything else may change without notice.

data.py  open, inspect, pack
runs.py  train, resume, load, export, list, compare
loaded.py  what load gives
"""

from penstock.api.data import Data, Sample, Split, inspect, open, pack  # noqa: A004 - as `PIL.Image.open`
from penstock.api.loaded import LoadedModel
from penstock.api.runs import Run, compare, export, list_runs, load, resume, train

__all__ = [
    "Data",
    "LoadedModel",
    "Run",
    "Sample",
    "Split",
    "compare",
    "export",
    "inspect",
    "list_runs",
    "load",
    "open",
    "pack",
    "resume",
    "train",
]

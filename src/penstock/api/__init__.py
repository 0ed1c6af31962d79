"""The public face: what `import penstock as ps` gives. Everything else may change without notice.

data.py  open, inspect, pack
runs.py  train, resume, load, export
"""

from penstock.api.data import Data, Sample, Split, inspect, open, pack  # noqa: A004 - as `PIL.Image.open`
from penstock.api.runs import LoadedModel, Run, export, load, resume, train

__all__ = [
    "Data",
    "LoadedModel",
    "Run",
    "Sample",
    "Split",
    "export",
    "inspect",
    "load",
    "open",
    "pack",
    "resume",
    "train",
]

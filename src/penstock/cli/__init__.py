"""The command line: parsing and printing, nothing else. Commands are imported when they are called.

app.py       the commands' names, and what becomes of errors
data.py      inspect, pack, show, verify, scenes
training.py  train, recipe
runs.py      evaluate, predict, replay, report
"""

from penstock.cli.app import main

__all__ = ["main"]

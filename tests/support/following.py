"""What a run that follows a topic took, in which order."""

from __future__ import annotations

import json
import shutil

from penstock.assembly.run_data import read_run_data
from penstock.runs import RunFolder


def origins(run):
    return [json.loads(line)["origins"] for line in (run / "origins.jsonl").read_text().splitlines()]


def taken(run):
    """The stages of a run, as data.json keeps them."""
    return read_run_data(RunFolder(run)).stages


def offsets(snapshot):
    return {f"{part.name}#{offset}" for part in snapshot.partitions for offset in range(part.start, part.stop)}


def begun_again(run, folder):
    """A copy of a run as if it had been killed before its first checkpoint, with all its snapshots."""
    copy = shutil.copytree(run, folder)
    shutil.rmtree(copy / "checkpoints")
    (copy / "checkpoints").mkdir()
    for name in ("metrics.jsonl", "origins.jsonl"):
        (copy / name).unlink()
    return copy

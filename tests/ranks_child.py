"""One rank of several that evaluate a run together: ranks_child.py RUN OUT, started by test_ranks.py."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import torch

from penstock import ranks as ranking
from penstock.evaluate import evaluate
from penstock.recipe import load_model, open_run
from penstock.tasks import Segmentation


def scores_of(run):
    """What all ranks together find, as JSON; nothing on ranks that do not write."""
    with ranking.joined(torch.device("cpu")) as ranks:
        trained = load_model(run, "last", "cpu", open_run(run))
        split = trained.parts.recipe.data.validation or "train"
        task, feed = trained.parts.evaluation(split, ranks.share)
        task = replace(task, segments=True) if isinstance(task, Segmentation) else task
        scores, loss = evaluate(task, trained.model, feed, device=trained.device, ranks=ranks)
        return json.dumps({**scores.as_json(), "loss": loss}) if ranks.writes else ""


if __name__ == "__main__":
    if found := scores_of(Path(sys.argv[1])):
        Path(sys.argv[2]).write_text(found)

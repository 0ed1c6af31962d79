from __future__ import annotations

import json

import cv2
import numpy as np
import pytest
import torch
from support.commands import call
from support.holes import TASKS, batch
from support.training import recipe

from penstock.assembly import open_run
from penstock.inference import evaluate_run, load_model
from penstock.inference.worst import Bad, Worst
from penstock.ranks import Ranks
from penstock.training import train


@pytest.fixture(scope="module")
def run(packed, tmp_path_factory):
    folder, _ = train(recipe(packed.folder, wide=True, steps=4), tmp_path_factory.mktemp("runs"))
    return folder.path


def by_hand(trained, split):
    """The mean loss of every sample, each by itself."""
    task, feed = trained.parts.evaluation(split)
    found = {}
    for position in range(len(feed.plan)):
        tensors = {name: torch.from_numpy(array[None]) for name, array in feed[position].arrays.items()}
        with torch.inference_mode():
            logits = trained.evaluated(task.inputs(tensors))
        log = torch.nn.functional.log_softmax(logits, 1)
        mask = tensors["mask"].long()
        real = mask != task.ignore
        losses = -log.gather(1, mask.clamp(max=log.shape[1] - 1)[:, None])[:, 0]
        found[position] = float(losses[real].mean())
    return found


@pytest.mark.parametrize("count", [1, 3, 99])
def test_those_with_the_largest_loss_are_named(run, count):
    trained = load_model(run, "", "cpu", open_run(run))
    worst = evaluate_run(run, trained, "train", worst=count).worst
    losses = by_hand(trained, "train")
    right = sorted(losses, key=lambda position: -losses[position])[:count]

    assert [each.position for each in worst] == right
    assert [each.badness for each in worst] == pytest.approx([losses[position] for position in right], rel=1e-4)
    assert [each.text for each in worst] == [f"loss {each.badness:.3f}" for each in worst]


def test_nobody_who_does_not_ask_waits_for_it(run):
    trained = load_model(run, "", "cpu", open_run(run))
    assert evaluate_run(run, trained).worst == ()


def test_of_boxes_the_lowest_scores_are_named():
    """The second of three images has all that is there, the others have nothing."""
    task = TASKS["fcos"]
    tensors = batch(task, [1, 2, 3]).tensors
    labels, boxes = tensors["label"], tensors["boxes"].float()
    nothing = {"boxes": torch.zeros(0, 4), "scores": torch.zeros(0), "labels": torch.zeros(0, dtype=torch.int64)}
    there = labels[1] >= 0
    whole = {"boxes": boxes[1][there], "scores": torch.ones(int(there.sum())), "labels": labels[1][there].long()}
    worst = Worst(task, 3)
    worst.look([nothing, whole, nothing], tensors, [10, 11, 12])

    assert [(each.position, each.text) for each in worst.of(Ranks())] == [
        (10, f"{task.best_metric} 0.000"), (12, f"{task.best_metric} 0.000"), (11, f"{task.best_metric} 1.000"),
    ]  # fmt: skip


def test_the_worst_of_all_ranks_are_the_worst():
    class Two(Ranks):
        def gather(self, texts):
            return [*texts, json.dumps(Bad(2.0, 7, "loss 2.000")), json.dumps(Bad(0.5, 8, "loss 0.500"))]

    worst = Worst(TASKS["masks"], 2)
    worst._found = [Bad(float("inf"), 1, "loss nan"), Bad(1.0, 2, "loss 1.000")]
    assert [each.position for each in worst.of(Two())] == [1, 7]


def test_the_command_draws_them_with_their_losses(run, capsys):
    code, out, _ = call("evaluate", run, "--images", 2, "--device", "cpu", capsys=capsys)
    path = run / "figures" / "worst-val-00000004.png"
    drawn = cv2.imread(str(path), cv2.IMREAD_COLOR)[..., ::-1]
    trained = load_model(run, "", "cpu", open_run(run))
    worst = evaluate_run(run, trained, worst=2).worst
    from penstock.report import predictions_sheet

    task, feed = trained.parts.evaluation("val")
    again = predictions_sheet(
        task, trained.evaluated, feed, [each.position for each in worst], trained.device, "float32",
        [each.text for each in worst],
    )  # fmt: skip

    assert code == 0
    assert f"drawn {path}\n" in out
    assert np.array_equal(drawn, again)
    without = predictions_sheet(
        task, trained.evaluated, feed, [each.position for each in worst], trained.device, "float32"
    )
    assert without.shape[0] < again.shape[0]
    assert "<h2>Worst predictions on val after step 4</h2>" in (run / "report.html").read_text()

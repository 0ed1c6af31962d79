from __future__ import annotations

import csv
import json
import math
from types import SimpleNamespace

import cv2
import numpy as np
import pytest
import torch
from support.commands import call
from support.holes import TASKS, batch
from support.training import recipe

import penstock as ps
from penstock.assembly import open_run
from penstock.inference import evaluate_run, load_model
from penstock.inference.per_image import ImageScore, ImageScorer, as_csv, worst
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
    looking = ImageScorer(task)
    looking.look([nothing, whole, nothing], tensors, [10, 11, 12])

    assert [(each.position, each.text) for each in worst(looking.of(Ranks()), 3)] == [
        (10, f"{task.best_metric} 0.000"), (12, f"{task.best_metric} 0.000"), (11, f"{task.best_metric} 1.000"),
    ]  # fmt: skip


def test_the_worst_of_all_ranks_are_the_worst():
    others = [ImageScore(7, 2.0, 0.5, 2.0, "loss 2.000"), ImageScore(8, 0.5, 0.5, 0.5, "loss 0.500")]

    class Two(Ranks):
        def gather(self, texts):
            return [*texts, *map(json.dumps, others)]

    looking = ImageScorer(TASKS["masks"])
    looking._found = [
        ImageScore(10, math.nan, 0.0, math.inf, "loss nan"), ImageScore(2, 1.0, 0.1, 1.0, "loss 1.000"),
    ]  # fmt: skip
    found = looking.of(Two())

    assert [each.position for each in found] == [2, 7, 8, 10]
    assert [each.position for each in worst(found, 2)] == [10, 7]


def test_every_image_is_in_a_table_with_its_loss_and_its_own_score(run, packed):
    """The score is that of a confusion matrix counted here, the name that of the record."""
    trained = load_model(run, "", "cpu", open_run(run))
    found = evaluate_run(run, trained, "val").images
    rows = list(csv.reader((run / "evaluations/val-00000004.csv").read_text().splitlines()))
    task, feed = trained.parts.evaluation("val")
    losses = by_hand(trained, "val")
    expected = []
    for position, record in enumerate(ps.open(packed.folder)["val"]):
        tensors = {name: torch.from_numpy(array[None]) for name, array in feed[position].arrays.items()}
        with torch.inference_mode():
            seen = trained.evaluated(task.inputs(tensors)).argmax(1)[0].numpy()
        mask = tensors["mask"][0].numpy()
        seen, mask = seen[mask != task.ignore], mask[mask != task.ignore]
        unions = [((seen == each) | (mask == each)).sum() for each in range(len(packed.description.classes))]
        shared = [((seen == each) & (mask == each)).sum() for each in range(len(packed.description.classes))]
        ious = [both / union for both, union in zip(shared, unions, strict=True) if union]
        expected.append((record.name, losses[position], np.mean(ious)))

    assert rows[0] == ["image", "record", "loss", "mean_iou"]
    assert [(row[0], row[1]) for row in rows[1:]] == [
        (name, feed.plan.at(position).origin) for position, (name, _, _) in enumerate(expected)
    ]
    assert [float(row[2]) for row in rows[1:]] == pytest.approx([loss for _, loss, _ in expected], rel=1e-4)
    assert [float(row[3]) for row in rows[1:]] == pytest.approx([iou for _, _, iou in expected], rel=1e-5)
    assert [each.score for each in found] == pytest.approx([iou for _, _, iou in expected], rel=1e-5)


def test_a_metric_that_needs_several_images_leaves_the_score_of_one_empty():
    class Several:
        def update(self, outputs, tensors, origins):
            pass

        def scores(self):
            return 1 / 0

    task = TASKS["masks"]
    tensors = batch(task, [1]).tensors
    logits = torch.zeros(1, 3, *tensors["mask"].shape[1:])
    looking = ImageScorer(SimpleNamespace(
        metric=Several, loss=task.loss, count=task.count, evaluates_loss=True, best_metric="mean_iou", lower_is_better=()
    ))  # fmt: skip
    looking.look(logits, tensors, [3])
    (found,) = looking.of(Ranks())

    assert math.isnan(found.score)
    assert (found.position, found.text) == (3, f"loss {found.loss:.3f}")
    assert as_csv([found], ["a#3"], {"a#3": "x.jpg"}, "mean_iou") == (
        f"image,record,loss,mean_iou\nx.jpg,a#3,{found.loss:.6g},\n".encode()
    )


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

"""Scores, losses and boxes against implementations of other people, on random inputs."""

from __future__ import annotations

import json

import miniatures
import numpy as np
import pytest
import torch
import torchmetrics
from monai.losses import FocalLoss
from test_segments import random_masks
from torchvision.ops import sigmoid_focal_loss

from penstock.datasets import How, inspect, pack
from penstock.losses import Focal
from penstock.metrics import Confusion, Segments
from penstock.records.schema import decode_detection

IGNORE, CLASSES = 255, 5
NAMES = [str(number) for number in range(CLASSES)]


def drawn(seed):
    """Predicted and true ids, the latter with ignored ones; every class occurs."""
    rng = np.random.default_rng(seed)
    target, found = rng.integers(0, CLASSES, (2, 3, 17, 23))
    target[rng.random(target.shape) < 0.2] = IGNORE
    return torch.from_numpy(found), torch.from_numpy(target)


@pytest.mark.parametrize("seed", range(4))
def test_scores_of_masks_are_those_of_torchmetrics(seed):
    found, target = drawn(seed)
    confusion = Confusion(CLASSES, IGNORE)
    confusion.update(found, target, list("xyz"))
    scores = confusion.scores(NAMES)
    options = {"task": "multiclass", "num_classes": CLASSES, "ignore_index": IGNORE, "average": "none"}
    for mine, name in (
        (scores.iou, "JaccardIndex"),
        (scores.recall, "Recall"),
        (scores.precision, "Precision"),
        (scores.f_score, "F1Score"),
    ):
        theirs = getattr(torchmetrics, name)(**options)(found, target)
        assert mine == pytest.approx(theirs.tolist(), rel=1e-6), name
    matrix = torchmetrics.ConfusionMatrix("multiclass", num_classes=CLASSES, ignore_index=IGNORE)(found, target)
    assert [list(row) for row in scores.matrix] == matrix.tolist()
    accuracy = torchmetrics.Accuracy("multiclass", num_classes=CLASSES, ignore_index=IGNORE, average="micro")
    assert scores.pixel_accuracy == pytest.approx(accuracy(found, target).item(), rel=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_panoptic_quality_is_that_of_torchmetrics(seed):
    """A class is one segment of an image, so its id is the only instance."""
    true = torch.from_numpy(random_masks(seed, ignored=False)).long()
    found = torch.where(torch.rand(true.shape) < 0.2, true.roll(5, dims=2), true)
    segments = Segments(4, IGNORE)
    segments.update(found, true)
    theirs = torchmetrics.detection.PanopticQuality(things=set(), stuffs=set(range(4)), return_per_class=True)
    other = theirs(*(torch.stack([each, torch.zeros_like(each)], dim=-1) for each in (found, true)))

    assert segments.scores().panoptic_quality == pytest.approx(other.flatten().tolist(), rel=1e-6)


@pytest.mark.parametrize("gamma", [0.5, 1.0, 2.5])
def test_the_focal_loss_is_that_of_monai_and_of_torchvision(gamma):
    logits = torch.randn(2, CLASSES, 9, 7)
    target = torch.randint(0, CLASSES, (2, 9, 7))
    monai = FocalLoss(gamma=gamma, use_softmax=True, to_onehot_y=True, reduction="none")
    assert Focal(gamma).sum(logits, target, IGNORE).item() == pytest.approx(
        monai(logits, target[:, None]).sum().item(), rel=1e-4
    )

    one, two = torch.randn(50), torch.randint(0, 2, (50,))
    pair = torch.stack([torch.zeros(50), one], dim=0)[None, :, :, None]
    torchvision = sigmoid_focal_loss(one, two.float(), alpha=-1, gamma=gamma, reduction="sum")
    assert Focal(gamma).sum(pair, two[None, :, None], IGNORE).item() == pytest.approx(torchvision.item(), rel=1e-4)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # pycocotools and numpy 2
def test_decoded_boxes_are_those_of_pycocotools(tmp_path):
    """Through packing and back: in pixels, with class and crowd, image by image."""
    coco = pytest.importorskip("pycocotools.coco")
    miniatures.coco(tmp_path / "raw")
    rng = np.random.default_rng(0)
    path = tmp_path / "raw/annotations/instances_train2017.json"
    tree = json.loads(path.read_bytes())
    for number in range(40):
        image = tree["images"][int(rng.integers(len(tree["images"])))]
        x, y = rng.uniform(0, 0.6, 2) * (image["width"], image["height"])
        width, height = rng.uniform(0.1, 0.4, 2) * (image["width"], image["height"])
        tree["annotations"].append(
            {"id": 1000 + number, "image_id": image["id"], "category_id": tree["categories"][number % 2]["id"],
             "bbox": [x, y, width, height], "area": width * height, "iscrowd": int(number % 5 == 0),
             "segmentation": [[x, y, x + width, y, x + width, y + height]]}
        )  # fmt: skip
    path.write_text(json.dumps(tree))
    dataset = pack(inspect(tmp_path / "raw", how=How(task="detection")), tmp_path / "data")
    truth = coco.COCO(str(path))
    names = {image["file_name"].rpartition(".")[0]: number for number, image in truth.imgs.items()}
    order = {number: label for label, number in enumerate(sorted(truth.cats))}
    seen = 0
    source = dataset.source("train")
    for partition in source.snapshot().partitions:
        for record in map(decode_detection, source.read(partition.name, 0, len(partition))):
            mine = sorted((o.label, o.crowd, o.left, o.top, o.right, o.bottom) for o in record.objects)
            theirs = sorted(
                (order[a["category_id"]], bool(a["iscrowd"]), x, y, x + w, y + h)
                for a in truth.imgToAnns[names[record.name]]
                for x, y, w, h in [a["bbox"]]
            )
            assert [m[:2] for m in mine] == [t[:2] for t in theirs]
            np.testing.assert_allclose([m[2:] for m in mine], [t[2:] for t in theirs], atol=1e-4)
            seen += len(mine)
    assert seen >= 40

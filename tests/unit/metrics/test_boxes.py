from __future__ import annotations

import contextlib
import io
import json

import cv2
import numpy as np
import pytest
import torch
from support import miniatures
from support.datasets import learn_squares
from support.samples import cases

from penstock import ranks as ranking
from penstock.assembly import open_experiment
from penstock.config import apply
from penstock.datasets import inspect, pack
from penstock.metrics import Boxes, ScoredBox
from penstock.session.evaluation import evaluate


class TestScores:
    def random(self, seed=0, images=12, classes=3):
        draw, boxes = np.random.default_rng(seed), Boxes()
        for number in range(images):
            name = f"p{number:02d}"
            boxes.images.append(name)
            for _ in range(int(draw.integers(0, 6))):
                x, y, width, height = (float(value) for value in draw.uniform(5, 100, 4))
                label, crowd = int(draw.integers(classes)), float(draw.random() < 0.1)
                boxes.true.append(ScoredBox(name, label, (x, y, width, height), crowd))
                for _ in range(int(draw.integers(0, 3))):
                    near = (x + draw.normal(0, 6), y + draw.normal(0, 6), width * draw.uniform(0.8, 1.2), height)
                    guess = label if draw.random() < 0.8 else int(draw.integers(classes))
                    boxes.found.append(ScoredBox(name, guess, tuple(map(float, near)), float(draw.random())))
        return boxes

    @pytest.mark.filterwarnings("ignore::DeprecationWarning")  # pycocotools and numpy 2
    @pytest.mark.parametrize("seed", range(4))
    def test_they_are_those_of_pycocotools(self, seed):
        coco, cocoeval = pytest.importorskip("pycocotools.coco"), pytest.importorskip("pycocotools.cocoeval")
        boxes = self.random(seed)
        scores = boxes.scores(["a", "b", "c"])
        numbers = {name: number for number, name in enumerate(boxes.images, 1)}
        with contextlib.redirect_stdout(io.StringIO()):
            truth = coco.COCO()
            truth.dataset = {
                "info": {},
                "images": [{"id": number} for number in numbers.values()],
                "categories": [{"id": label} for label in range(3)],
                "annotations": [
                    {"id": i, "image_id": numbers[t.image], "category_id": t.label, "bbox": list(t.box),
                     "area": t.box[2] * t.box[3], "iscrowd": int(t.score)}
                    for i, t in enumerate(boxes.true, 1)
                ],
            }  # fmt: skip
            truth.createIndex()
            results = [
                {"image_id": numbers[f.image], "category_id": f.label, "bbox": list(f.box), "score": f.score}
                for f in boxes.found
            ]
            judge = cocoeval.COCOeval(truth, truth.loadRes(results), "bbox")
            judge.evaluate()
            judge.accumulate()
            judge.summarize()

        assert scores.summary() == pytest.approx({"map": judge.stats[0], "map50": judge.stats[1]}, abs=1e-9)
        assert scores.recall == pytest.approx(judge.stats[8], abs=1e-9)

    def test_any_number_of_ranks_gives_the_same(self):
        whole = self.random()
        expected = whole.scores(["a", "b", "c"])
        for count in (2, 3):
            parts = [Boxes() for _ in range(count)]
            for number, name in enumerate(whole.images):
                parts[number % count].images.append(name)
                parts[number % count].true += [each for each in whole.true if each.image == name]
                parts[number % count].found += [each for each in whole.found if each.image == name]
            texts = [json.dumps([part.images, part.true, part.found]) for part in parts]
            together = Boxes()
            together.gather(lambda _, texts=texts: texts)
            assert together.scores(["a", "b", "c"]) == expected

    def test_nothing_found_is_zero_and_absent_classes_are_named(self):
        boxes = Boxes(["p"], [ScoredBox("p", 0, (0.0, 0.0, 9.0, 9.0), 0.0)])
        scores = boxes.scores(["a", "b"])

        assert scores.summary() == {"map": 0.0, "map50": 0.0}
        assert (scores.absent, scores.every) == (["b"], (0.0, None))

    def test_the_truth_is_perfect_whatever_size_images_are_brought_to(self, squares):
        chosen = apply(learn_squares(squares), ["augment.resize_range=[50, 70]"])
        task, feed = open_experiment(chosen).evaluation("val")

        class Oracle(torch.nn.Module):
            def forward(self, inputs):
                return [
                    {"boxes": b[i >= 0], "labels": i[i >= 0], "scores": torch.ones(int((i >= 0).sum()))}
                    for b, i in zip(inputs["boxes"], inputs["label"], strict=True)
                ]

        scores, loss = evaluate(task, Oracle(), feed, device=torch.device("cpu"), ranks=ranking.Ranks())

        assert scores.summary() == {"map": 1.0, "map50": 1.0}
        assert (scores.true, loss) == ((6, 6), None)


def test_small_true_boxes_are_scored(tmp_path):
    rows = ["file,class,split,xmin,ymin,xmax,ymax"]
    for number in range(4):
        rows.append(f"p{number}.png,a,{'train' if number < 2 else 'val'},10,10,13,60")
        pixels = np.full((100, 100, 3), 40 * number, np.uint8)
        miniatures.write(tmp_path / f"raw/p{number}.png", cv2.imencode(".png", pixels)[1].tobytes())
    miniatures.write(tmp_path / "raw/boxes.csv", "\n".join(rows) + "\n")
    dataset = pack(inspect(tmp_path / "raw"), tmp_path / "data")
    task, feed = open_experiment(apply(learn_squares(dataset), ["augment.resize_range=[20, 20]"])).evaluation("val")

    assert all((sample.arrays["label"] >= 0).sum() == 1 for sample in (feed[0], feed[1]))
    assert task.augment.fitted((100, 100)) == (20, 20)


def test_boxes_are_scored_in_pixels_of_the_image():
    """What the network sees is enlarged by 2; without an origin a sample is padding."""
    task, outputs, tensors = list(cases())[-1]
    metric = task.metric()
    metric.update(outputs, tensors, ["p#0", "", "p#2", ""])

    assert metric.boxes.images == ["p#0", "p#2"]
    assert [(each.image, each.label, each.box, each.score) for each in metric.boxes.true[:2]] == [
        ("p#0", 1, (2.0, 3.0, 18.0, 20.0), 0.0),
        ("p#0", 0, (30.0, 5.0, 10.0, 10.0), 0.0),
    ]
    assert [each.box for each in metric.boxes.found[2:]] == [(3.0, 3.0, 18.0, 20.0), (31.0, 5.0, 10.0, 10.0)]
    assert [each.score for each in metric.boxes.found] == pytest.approx([0.9, 0.5] * 2)
    assert len(metric.boxes.true) == len(metric.boxes.found) == 4


def test_recall_is_that_of_a_hundred_boxes_an_image():
    boxes = Boxes()
    boxes.images.append("a")
    for number in range(20):
        box = (20.0 * number, 0.0, 10.0, 10.0)
        boxes.true.append(ScoredBox("a", 0, box, 0.0))
        boxes.found.append(ScoredBox("a", 0, box, 1 - number / 100))

    assert boxes.scores(["x"]).recall == 1.0

"""Detection: boxes that move with their image, and are scored as COCO scores them."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import io
import itertools
import json

import cv2
import miniatures
import numpy as np
import pytest
import torch
import torchvision
from hypothesis import given
from hypothesis import strategies as st
from test_cli import call
from training import Stop, state

from penstock import ranks as ranking
from penstock.assembly import open_parts
from penstock.config import Data, Model, Recipe, Train, apply, default_recipe, load
from penstock.datasets import Box, FolderDataset, How, inspect, pack, verify
from penstock.errors import LabelError, PenstockError, RecipeError
from penstock.images import drawing, geometry
from penstock.images.geometry import Affine, View
from penstock.images.warp import warp_mask
from penstock.inference import Trained
from penstock.metrics import Boxes, Found
from penstock.models import build_detector
from penstock.models.tv import build_features
from penstock.records.schema import (
    ClassificationRecord,
    DetectionRecord,
    Object,
    decode_detection,
    encode_classification,
    encode_detection,
)
from penstock.session import OptimizerSpec
from penstock.session.evaluation import evaluate
from penstock.tasks import Augment, Objective
from penstock.tasks.predictions import BoxPrediction
from penstock.training import resume, train
from penstock.values import Record


@pytest.fixture(scope="module")
def squares(tmp_path_factory):
    """Red and blue rectangles on gray: 12 training images, 6 to validate, of several sizes, as a table of boxes."""
    root = tmp_path_factory.mktemp("squares") / "raw"
    draw, rows = np.random.default_rng(0), ["file,class,split,xmin,ymin,xmax,ymax"]
    for number in range(18):
        height, width = (int(side) for side in draw.integers(60, 90, 2))
        pixels = np.full((height, width, 3), 128, np.uint8)
        for name, color in (("red", (30, 30, 220)), ("blue", (220, 30, 30))):
            x, y = int(draw.integers(0, width - 30)), int(draw.integers(0, height - 30))
            x2, y2 = x + int(draw.integers(12, 30)), y + int(draw.integers(12, 30))
            pixels[y:y2, x:x2] = color
            rows.append(f"p{number}.png,{name},{'train' if number < 12 else 'val'},{x},{y},{x2},{y2}")
        miniatures.write(root / f"p{number}.png", cv2.imencode(".png", pixels)[1].tobytes())
    miniatures.write(root / "boxes.csv", "\n".join(rows) + "\n")
    return pack(inspect(root), root.parent / "data")


def learning(dataset, model="ssd:test_resnet", **changes):
    settings = {"steps": 4, "batch": 2, "evaluate_every": 4, "save_every": 1, "device": "cpu", "log_origins": True}
    return Recipe(
        seed=3,
        data=Data(str(dataset.folder)),
        model=Model(model, "none"),
        augment=Augment((64, 64), scale=(0.8, 1.25), scale_step=0.0),
        optimizer=OptimizerSpec(lr=0.002, grad_clip=5.0),
        train=Train(**{**settings, **changes}),
    )


def predicted(monkeypatch, boxes, scores, labels):
    """Have every model find the same boxes in every image."""

    def predict(trained, pixels):
        arrays = np.array(boxes, np.float32), np.array(scores, np.float32), np.array(labels)
        return BoxPrediction(pixels, *arrays, trained.parts.task.classes)

    monkeypatch.setattr(Trained, "predict", predict)


class TestGeometry:
    @given(
        box=st.tuples(*[st.integers(0, 30)] * 2, *[st.integers(4, 30)] * 2),
        scale=st.floats(0.5, 2),
        at=st.tuples(st.floats(0, 0.99), st.floats(0, 0.99)),
        mirrored=st.booleans(),
    )
    def test_a_box_stays_around_its_object(self, box, scale, at, mirrored):
        """The box that is moved is the box around the object that is moved."""
        x, y, width, height = box
        mask = np.zeros((60, 60), np.uint8)
        mask[y : y + height, x : x + width] = 1
        view = geometry.scale_and_crop((60, 60), (48, 48), scale, at)
        view = geometry.flip(view) if mirrored else view
        seen = np.empty((48, 48), np.uint8)
        warp_mask(mask, view.affine, 0, seen)
        moved, there = geometry.move_boxes(np.array([[x, y, x + width, y + height]], float), view, (60, 60), 0.0)
        rows, columns = np.flatnonzero(seen.any(axis=1)), np.flatnonzero(seen.any(axis=0))
        if rows.size > 1 and columns.size > 1:
            expected = [columns[0], rows[0], columns[-1] + 1, rows[-1] + 1]
            assert moved[0] == pytest.approx(expected, abs=1.01)
            assert there[0]

    def test_a_turned_box_is_the_smallest_upright_one_around_it(self):
        view = geometry.rotate(View((100, 100), Affine()), 90)
        moved, _ = geometry.move_boxes(np.array([[10.0, 20, 30, 60]]), view, (100, 100), 0.0)

        assert moved[0] == pytest.approx([20, 70, 60, 90])

    @pytest.mark.parametrize(("kept", "stays"), [(0.24, True), (0.26, False)])
    def test_what_leaves_the_crop_is_dropped_by_its_area(self, kept, stays):
        view = View((50, 50), Affine())
        moved, there = geometry.move_boxes(np.array([[40.0, 40, 60, 60]]), view, (100, 100), kept)

        assert moved[0].tolist() == [40, 40, 50, 50]
        assert there.tolist() == [stays]

    def test_no_boxes_are_none(self):
        moved, there = geometry.move_boxes(np.zeros((0, 4)), View((50, 50), Affine()), (10, 10), 0.5)

        assert (moved.shape, there.shape) == ((0, 4), (0,))

    def test_the_inverse_is_the_way_back(self):
        affine = Affine(0.5, 0.2, 3, -0.1, 2, 7)
        assert affine.inverse().point(*affine.point(11.0, 13.0)) == pytest.approx((11, 13))


class TestRecords:
    def test_keys_are_the_object_detection_apis(self):
        record = DetectionRecord(b"x", (Object(1, 8, 4, 18, 16, "fig", True),), "a", "jpeg", 24, 32)
        found = decode_detection(Record("s#0", encode_detection(record)))
        (box,) = found.objects

        assert (box.label, box.text, box.crowd, box.difficult) == (1, "fig", True, False)
        assert [box.left, box.top, box.right, box.bottom] == pytest.approx([8, 4, 18, 16], abs=1e-5)
        tensorflow = encode_detection(record)
        for key in (
            b"image/object/bbox/xmin",
            b"image/object/class/label",
            b"image/object/is_crowd",
            b"image/source_id",
        ):
            assert key in tensorflow

    def test_another_task_is_named(self):
        record = Record("s#0", encode_classification(ClassificationRecord(b"x", 1, "a", "jpeg", 0, 0)))
        with pytest.raises(Exception, match=r"s#0: expected a size, and for every object four edges .* found 0 x 0"):
            decode_detection(record)

    def test_a_box_outside_is_named_by_training_and_by_verify(self, squares, tmp_path):
        record = DetectionRecord(miniatures.picture(), (Object(0, 8, 4, 40, 16),), "a", "jpeg", 24, 32)
        prepare = open_parts(learning(squares)).task.prepare(train=False)
        with pytest.raises(LabelError) as caught:
            prepare(Record("s#0", encode_detection(record)), None, {})

        assert str(caught.value) == (
            "s#0: expected boxes inside 24 x 32 (height x width), of classes from 0 to 1, found box 1 of class 0: 8, 4 to "
            "40, 16. Pack the data again."
        )
        assert verify(squares).faults == ()

    def test_crowds_are_not_learnt_and_not_counted(self, tmp_path):
        miniatures.coco(tmp_path / "raw")
        dataset = pack(inspect(tmp_path / "raw"), tmp_path / "data")
        parts = open_parts(learning(dataset))
        task, feed = parts.evaluation("train")
        (batch,) = itertools.islice(feed.walk(), 1)
        crowd = batch.tensors["crowd"].sum(dim=1).argmax()

        assert (task.inputs(batch.tensors)["label"][crowd] == -1).all()
        assert batch.tensors["label"][crowd].max() == 0


class TestScores:
    def random(self, seed=0, pictures=12, classes=3):
        draw, boxes = np.random.default_rng(seed), Boxes()
        for number in range(pictures):
            name = f"p{number:02d}"
            boxes.pictures.append(name)
            for _ in range(int(draw.integers(0, 6))):
                x, y, width, height = (float(value) for value in draw.uniform(5, 100, 4))
                label, crowd = int(draw.integers(classes)), float(draw.random() < 0.1)
                boxes.true.append(Found(name, label, (x, y, width, height), crowd))
                for _ in range(int(draw.integers(0, 3))):
                    near = (x + draw.normal(0, 6), y + draw.normal(0, 6), width * draw.uniform(0.8, 1.2), height)
                    guess = label if draw.random() < 0.8 else int(draw.integers(classes))
                    boxes.found.append(Found(name, guess, tuple(map(float, near)), float(draw.random())))
        return boxes

    @pytest.mark.filterwarnings("ignore::DeprecationWarning")  # pycocotools and numpy 2
    @pytest.mark.parametrize("seed", range(4))
    def test_they_are_those_of_pycocotools(self, seed):
        coco, cocoeval = pytest.importorskip("pycocotools.coco"), pytest.importorskip("pycocotools.cocoeval")
        boxes = self.random(seed)
        scores = boxes.scores(["a", "b", "c"])
        numbers = {name: number for number, name in enumerate(boxes.pictures, 1)}
        with contextlib.redirect_stdout(io.StringIO()):
            truth = coco.COCO()
            truth.dataset = {
                "info": {},
                "images": [{"id": number} for number in numbers.values()],
                "categories": [{"id": label} for label in range(3)],
                "annotations": [
                    {"id": i, "image_id": numbers[t.picture], "category_id": t.label, "bbox": list(t.box),
                     "area": t.box[2] * t.box[3], "iscrowd": int(t.score)}
                    for i, t in enumerate(boxes.true, 1)
                ],
            }  # fmt: skip
            truth.createIndex()
            results = [
                {"image_id": numbers[f.picture], "category_id": f.label, "bbox": list(f.box), "score": f.score}
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
            for number, name in enumerate(whole.pictures):
                parts[number % count].pictures.append(name)
                parts[number % count].true += [each for each in whole.true if each.picture == name]
                parts[number % count].found += [each for each in whole.found if each.picture == name]
            texts = [json.dumps([part.pictures, part.true, part.found]) for part in parts]
            together = Boxes()
            together.gather(lambda _, texts=texts: texts)
            assert together.scores(["a", "b", "c"]) == expected

    def test_nothing_found_is_zero_and_absent_classes_are_named(self):
        boxes = Boxes(["p"], [Found("p", 0, (0.0, 0.0, 9.0, 9.0), 0.0)])
        scores = boxes.scores(["a", "b"])

        assert scores.summary() == {"map": 0.0, "map50": 0.0}
        assert (scores.absent, scores.every) == (["b"], (0.0, None))

    def test_the_truth_is_perfect_whatever_size_pictures_are_brought_to(self, squares):
        chosen = apply(learning(squares), ["augment.resize_range=[50, 70]"])
        task, feed = open_parts(chosen).evaluation("val")

        class Oracle(torch.nn.Module):
            def forward(self, inputs):
                return [
                    {"boxes": b[i >= 0], "labels": i[i >= 0], "scores": torch.ones(int((i >= 0).sum()))}
                    for b, i in zip(inputs["boxes"], inputs["label"], strict=True)
                ]

        scores, loss = evaluate(task, Oracle(), feed, device=torch.device("cpu"), ranks=ranking.Ranks())

        assert scores.summary() == {"map": 1.0, "map50": 1.0}
        assert (scores.true, loss) == ((6, 6), None)


class TestTraining:
    @pytest.mark.parametrize("architecture", ["fasterrcnn", "retinanet", "fcos", "ssd"])
    def test_every_detector_learns_evaluates_and_predicts(self, squares, tmp_path, capsys, architecture):
        chosen = learning(squares, f"{architecture}:resnet10t", steps=2, evaluate_every=2)
        folder, outcome = train(chosen, tmp_path / "runs")
        code, out, _ = call("evaluate", folder.path, capsys=capsys)
        picture = squares.folder.parent / "raw" / "p0.png"

        assert outcome.status == "finished"
        assert code == 0
        assert "mAP" in out
        assert "loss" not in out.splitlines()[-8]
        assert call("predict", folder.path, picture, "-o", tmp_path / "out", capsys=capsys)[0] == 0
        assert (tmp_path / "out" / "p0-boxes.png").is_file()
        assert call("replay", folder.path, "--step", 1, capsys=capsys)[0] == 0

    def test_a_split_may_have_more_boxes_in_a_picture_than_the_one_that_is_learnt(self, squares, tmp_path):
        rows = [
            f"p{n}.png,red,{split},1,1,{20 + m},30"
            for n, split, boxes in ((0, "train", 1), (1, "val", 5))
            for m in range(boxes)
        ]
        raw = tmp_path / "raw"
        for name in ("p0.png", "p1.png"):
            miniatures.write(raw / name, (squares.folder.parent / "raw" / name).read_bytes())
        miniatures.write(raw / "boxes.csv", "\n".join(["file,class,split,xmin,ymin,xmax,ymax", *rows]) + "\n")
        crowded = pack(inspect(raw), tmp_path / "data")
        _, outcome = train(learning(crowded, steps=1, batch=1, evaluate_every=1), tmp_path / "runs")

        assert [split.objects for split in crowded.description.splits.values()] == [1, 5]
        assert outcome.status == "finished"

    def test_a_run_that_is_stopped_at_any_step_ends_the_same(self, squares, tmp_path):
        whole, _ = train(learning(squares), tmp_path / "whole")
        kept = {"state.json", "manifest.json"}
        expected = {name: data for name, data in state(whole.path).items() if name not in kept}
        for step in range(1, 4):
            stopped, _ = train(learning(squares), tmp_path / f"stopped{step}", hooks=[Stop(step)])
            resume(stopped.path)
            assert {name: data for name, data in state(stopped.path).items() if name not in kept} == expected, step

    @pytest.mark.slow
    def test_it_finds_squares(self, squares, tmp_path):
        chosen = learning(squares, "ssd:resnet10t", steps=250, batch=4, evaluate_every=250, save_every=250)
        folder, _ = train(apply(chosen, ["optimizer.lr=0.005"]), tmp_path)

        assert folder.lines("metrics.jsonl")[-1]["evaluation"]["map50"] > 0.5

    @pytest.mark.parametrize("size", [(60, 80), (200, 130)])
    def test_boxes_of_predictions_are_in_pixels_of_the_picture(self, squares, size):
        task = open_parts(apply(learning(squares), ["augment.resize_range=[120, 150]"])).task
        seen = []

        class Whole(torch.nn.Module):
            """Finds one thing, as large as the image that it is shown."""

            def forward(self, inputs):
                height, width = inputs["size"][0].tolist()
                seen.append((height, width, tuple(inputs["image"].shape[2:])))
                box = torch.tensor([[0.0, 0.0, width, height]])
                return [{"boxes": box, "labels": torch.tensor([1]), "scores": torch.tensor([0.9])}]

        found = task.predict(Whole(), np.zeros((*size, 3), np.uint8), device=torch.device("cpu"))

        assert seen == [(*geometry.fit_range(size, 120, 150), geometry.fit_range(size, 120, 150))]
        assert found.boxes[0] == pytest.approx([0, 0, size[1], size[0]])

    def test_predictions_are_a_table_of_boxes(self, squares, tmp_path, capsys, monkeypatch):
        folder, _ = train(learning(squares, steps=1), tmp_path / "runs")
        predicted(monkeypatch, [[1, 2, 30, 40]], [0.75], [1])
        picture = squares.folder.parent / "raw" / "p0.png"
        code, _, _ = call("predict", folder.path, picture, "-o", tmp_path / "out", capsys=capsys)
        rows = list(csv.DictReader((tmp_path / "out" / "predictions.csv").read_text().splitlines()))

        assert code == 0
        shape = cv2.imread(str(picture)).shape
        drawn = cv2.imread(str(tmp_path / "out" / f"{picture.stem}-boxes.png"))
        scale = drawn.shape[0] // shape[0]
        assert (drawn.shape[:2], scale > 1) == ((scale * shape[0], scale * shape[1]), True)
        assert tuple(drawn[scale * 20, scale * 1, ::-1]) == tuple(drawing.palette(drawing.OBJECTS)[1])
        assert rows == [
            {"file": str(picture), "class": "red", "score": "0.750000", "xmin": "1.00", "ymin": "2.00", "xmax": "30.00", "ymax": "40.00"}
        ]  # fmt: skip

    def test_boxes_are_drawn_that_score_above_what_is_said(self, squares, tmp_path, capsys, monkeypatch):
        folder, _ = train(learning(squares, steps=1), tmp_path / "runs")
        predicted(monkeypatch, [[1, 2, 30, 40]] * 2, [0.75, 0.2], [1, 0])
        picture, out = squares.folder.parent / "raw" / "p0.png", tmp_path / "out"
        said = [
            call("predict", folder.path, picture, "-o", out, *words, capsys=capsys)[1].splitlines()[-1]
            for words in ([], ["--score", 0.75], ["--score", 0.1])
        ]

        assert said == [
            f"{out / 'predictions.csv'} holds all 2 boxes, in pixels; NAME-boxes.png shows the {drawn} that score above {score}"
            for drawn, score in ((1, 0.3), (0, 0.75), (2, 0.1))
        ]
        assert call(
            "predict", folder.path, picture, "-o", out, "--color", "--window", 64, "--score", 0.5, capsys=capsys
        ) == (
            2,
            "",
            "error: A sliding window is not supported for detection. Remove --window.\n",
        )

    def test_what_a_detector_cannot_do_is_refused(self, squares, tmp_path, capsys):
        with pytest.raises(RecipeError, match="A choice of losses is not supported for detection"):
            _ = open_parts(dataclasses.replace(learning(squares), loss=Objective(dice=1.0))).task
        with pytest.raises(RecipeError) as caught:
            build_detector("fasterrcnn:vit_tiny_patch16_224", 2, "none")
        assert str(caught.value) == (
            "model.name = 'fasterrcnn:vit_tiny_patch16_224': expected a backbone with features at strides 4, 8, 16, 32, "
            "found vit_tiny_patch16_224. Choose a convolutional one, such as resnet50 or convnext_tiny."
        )
        folder, _ = train(learning(squares, steps=1), tmp_path)
        capsys.readouterr()
        assert call("evaluate", folder.path, "--flip", capsys=capsys) == (
            2,
            "",
            "error: Test-time augmentation is not supported for detection. Remove --flip.\n",
        )
        assert call("evaluate", folder.path, "--flip", "--scales", 0.5, 1, capsys=capsys)[2] == (
            "error: Test-time augmentation is not supported for detection. Remove --scales and --flip.\n"
        )


def test_a_folder_can_be_more_than_one_thing(tmp_path, capsys):
    miniatures.voc_(tmp_path / "raw")
    code, out, _ = call("pack", tmp_path / "raw", "-o", tmp_path / "data", "--task", "detection", capsys=capsys)

    assert code == 0
    assert FolderDataset.open(tmp_path / "data").description.task == "detection"
    assert inspect(tmp_path / "raw", how=How()).layout.task == "segmentation"
    assert "train: 2 records in 1 shard" in out
    assert Box(0, 1, 2, 3, 4).crowd is False


@pytest.mark.parametrize("without", [("--weights", "none"), ("--set", "model.weights=none")])
def test_norms_keep_their_statistics_where_there_are_any(squares, tmp_path, capsys, without):
    words = ["--model", "ssd:test_resnet", "--crop", 64, 64, "--batch", 2, "--steps", 1, "--runs", tmp_path]
    call("train", squares.folder, *without, *words, capsys=capsys)
    (run,) = tmp_path.iterdir()

    assert default_recipe("detection").train.freeze_bn
    assert not load(run / "recipe.toml").train.freeze_bn


@pytest.mark.parametrize("model", ["ssd:torchvision/resnet18", "fcos:torchvision/mobilenet_v3_large"])
def test_backbones_of_torchvision(squares, tmp_path, model):
    folder, outcome = train(learning(squares, model, steps=1, evaluate_every=1), tmp_path)
    network = open_parts(learning(squares, model)).model()

    assert outcome.status == "finished"
    assert (folder.path / "checkpoints" / "last").exists()
    maps = network.network.backbone.encoder.eval()(torch.zeros(1, 3, 64, 96))
    assert [tuple(each.shape[2:]) for each in maps] == [(8, 12), (4, 6), (2, 3)]
    assert [each.shape[1] for each in maps] == network.network.backbone.encoder.feature_info.channels()


def test_weights_of_torchvision_are_loaded_from_its_cache_or_a_file(tmp_path, monkeypatch):
    torch.manual_seed(0)
    source = torchvision.models.resnet18()
    name = torchvision.models.ResNet18_Weights.DEFAULT.url.rpartition("/")[2]
    (tmp_path / "hub/checkpoints").mkdir(parents=True)
    torch.save(source.state_dict(), tmp_path / "hub/checkpoints" / name)
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    for weights in ("pretrained", str(tmp_path / "hub/checkpoints" / name)):
        network = build_detector("ssd:torchvision/resnet18", 2, weights).network.backbone.encoder.body
        assert torch.equal(network.state_dict()["layer3.0.conv1.weight"], source.layer3[0].conv1.weight)


@pytest.mark.parametrize(
    ("name", "weights", "message"),
    [
        (
            "ssd:torchvision/resnet19",
            "none",
            "model.name = 'ssd:torchvision/resnet19': expected a torchvision backbone, found torchvision/resnet19. Did you "
            "mean torchvision/resnet18 or ",
        ),
        (
            "fasterrcnn:torchvision/vit_b_16",
            "none",
            "model.name = 'fasterrcnn:torchvision/vit_b_16': expected a backbone with features at strides 4, 8, 16, 32, found "
            "torchvision/vit_b_16. Choose a convolutional one, such as torchvision/resnet50 or torchvision/convnext_tiny.",
        ),
        (
            "ssd:torchvision/resnet18",
            "nowhere",
            "nowhere: expected 'pretrained', 'none', or a file of weights, found no such",
        ),
        ("ssd:torchvision/resnet18", __file__, "expected weights that fit the backbone, found "),
    ],
)
def test_backbones_of_torchvision_that_cannot_be_had(name, weights, message):
    with pytest.raises(PenstockError) as error:
        build_detector(name, 2, weights)

    assert message in str(error.value)


@pytest.mark.parametrize(
    ("backbone", "channels"),
    [
        ("resnet50", [256, 512, 1024, 2048]),
        ("resnet18", [64, 128, 256, 512]),
        ("convnext_tiny", [96, 192, 384, 768]),
        ("efficientnet_b0", [24, 40, 112, 1280]),
    ],
)
def test_features_of_torchvision_are_those_of_the_last_block_of_each_stride(backbone, channels):
    assert build_features("x", f"torchvision/{backbone}", (4, 8, 16, 32), "none").feature_info.channels() == channels


def test_maps_with_channels_last_are_no_features():
    with pytest.raises(
        RecipeError, match=r"expected a backbone with features at strides 8, 16, 32, found torchvision/swin_t"
    ):
        build_detector("ssd:torchvision/swin_t", 2, "none")

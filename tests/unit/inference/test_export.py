from __future__ import annotations

import contextlib
import json
from dataclasses import replace

import cv2
import numpy as np
import onnx
import pytest
import torch
from support import miniatures
from support.commands import call
from support.datasets import classes, learn_colors, learn_squares
from support.training import recipe

from penstock.config import apply
from penstock.datasets import inspect, pack
from penstock.errors import RecipeError
from penstock.extensions.volumes.task import Volumes
from penstock.images import RGB, PixelFormat
from penstock.inference import load_model
from penstock.inference.comparing import Comparison, compared
from penstock.inference.export import export
from penstock.models import TestTimeAugmentation
from penstock.settings import Augment
from penstock.settings.views import PadCrop, ResizedCrop
from penstock.tasks import Classification, Detection, Instances, ReadyModel, Segmentation
from penstock.training import train

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def run(packed, tmp_path_factory):
    folder, _ = train(recipe(packed.folder, steps=4), tmp_path_factory.mktemp("runs"))
    return folder.path


@pytest.mark.parametrize("suffix", [".onnx", ".pt2"])
def test_masks_are_those_of_the_model(run, tmp_path, suffix, capsys):
    file = tmp_path / f"model{suffix}"
    status, out, errors = call("export", run, "-o", file, "--size", 64, 96, capsys=capsys)

    assert (status, errors) == (0, "")
    assert "takes: image, uint8 (n, 64, 96, 3), RGB; gives: classes, probabilities" in out
    assert "compared with the PyTorch model on random images: 100.00 % of 12,288 pixels are equal, " in out
    trained, images = load_model(run, device="cpu"), torch.randint(0, 256, (3, 64, 96, 3), dtype=torch.uint8)
    classes, probabilities = predictions(file, images)
    with torch.inference_mode():
        expected = trained.model(trained.parts.task.inputs({"image": images})).softmax(dim=1)
    assert (classes.dtype, tuple(classes.shape)) == (torch.int32, (3, 64, 96))
    torch.testing.assert_close(probabilities, expected, rtol=1e-4, atol=1e-5)
    assert (classes == expected.argmax(dim=1)).float().mean() > 0.999


def test_masks_are_made_of_all_the_dataset_holds(run, tmp_path, capsys, monkeypatch):
    assert "uint8 (n, 64, 96, 3)" in call("export", run, "-o", tmp_path / "a.pt2", capsys=capsys)[1]
    monkeypatch.setattr("penstock.tasks.dense.MAX_PROBABILITIES", 64 * 96)
    crop = load_model(run, device="cpu").parts.task.augment.crop
    assert crop != (64, 96)
    assert f"uint8 (n, {crop[0]}, {crop[1]}, 3)" in call("export", run, "-o", tmp_path / "a.pt2", capsys=capsys)[1]


def predictions(file, images):
    if file.suffix == ".pt2":
        return torch.export.load(file).module()(images)
    import onnxruntime

    found = onnxruntime.InferenceSession(str(file)).run(["classes", "probabilities"], {"image": images.numpy()})
    return tuple(torch.from_numpy(each) for each in found)


def test_names_and_size_are_in_the_file(run, tmp_path):
    trained = load_model(run, device="cpu")
    export(trained.parts.task, trained.model, tmp_path / "a.onnx", trained.parts.recipe.augment.crop)
    export(trained.parts.task, trained.model, tmp_path / "a.pt2", trained.parts.recipe.augment.crop)
    about = {each.key: json.loads(each.value) for each in onnx.load(tmp_path / "a.onnx").metadata_props}
    files = {"penstock.json": ""}
    torch.export.load(tmp_path / "a.pt2", extra_files=files)

    shown = "images that are not resized, but padded on the right and below to 32 x 32 with 128, 128, 128"
    (image,) = onnx.load(tmp_path / "a.onnx").graph.input
    assert [each.dim_param or each.dim_value for each in image.type.tensor_type.shape.dim] == ["n", 32, 32, 3]
    assert about == {"classes": list(trained.parts.task.classes), "height": 32, "width": 32, "input": shown}
    assert json.loads(files["penstock.json"]) == about
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.onnx", "a.pt2"]


@pytest.mark.soak  # the command is tried in cli/test_export.py
def test_several_looks_are_exported_with_it(run, tmp_path):
    trained = load_model(run, device="cpu").with_tta(TestTimeAugmentation((0.5, 1.0), flip=True))
    found = export(trained.parts.task, trained.model, tmp_path / "a.pt2", (64, 64))

    assert found.comparison.agreement > 0.999
    assert found.comparison.largest < 1e-4


def test_classes_are_exported_too(tmp_path):
    miniatures.folders(tmp_path / "raw")
    dataset = pack(inspect(tmp_path / "raw"), tmp_path / "data")
    folder, _ = train(learn_colors(dataset, steps=1, batch=2), tmp_path / "runs")
    trained = load_model(folder.path, device="cpu")

    for suffix in (".onnx", ".pt2"):
        found = export(trained.parts.task, trained.model, tmp_path / f"a{suffix}", trained.parts.recipe.augment.crop)
        assert (found.comparison.agreement, found.comparison.what) == (1.0, "image")
        assert found.shape == ("n", *map(str, trained.parts.task.augment.crop), "3")
        assert found.input_note == (
            "the middle 87.5 % of the largest centred 32:32 rectangle of an image, resized to 32 x 32"
        )


def test_what_to_show_an_exported_classifier_is_what_predict_shows(tmp_path):
    """The middle, cut out by hand, gives the probabilities that `classify` gives for the whole image."""
    miniatures.folders(tmp_path / "raw")
    chosen = learn_colors(pack(inspect(tmp_path / "raw"), tmp_path / "data"), steps=1, batch=2)
    chosen = replace(chosen, augment=Augment((16, 16), PadCrop(margin=2)))
    folder, _ = train(chosen, tmp_path / "runs")
    trained = load_model(folder.path, device="cpu")
    found = export(trained.parts.task, trained.model, tmp_path / "a.pt2", trained.parts.recipe.augment.crop)
    pixels = np.random.default_rng(0).integers(0, 256, (24, 32, 3), np.uint8)
    _, probabilities = predictions(tmp_path / "a.pt2", torch.from_numpy(pixels[4:20, 8:24].copy()).unsqueeze(0))

    assert found.input_note == "the middle 16 x 16 pixels of an image"
    expected = trained.predict(pixels).probabilities
    assert probabilities[0].detach().numpy() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("name", "size", "message"),
    [
        (
            "a.tflite",
            (64, 64),
            "{}: expected a file that ends in .onnx, .pt2 or .mlpackage, found .tflite. Use .onnx for other programs, .pt2 for "
            "PyTorch.",
        ),
        (
            "a.onnx",
            (65, 90),
            "--size: expected multiples of 32, found 65 x 90. Use --size 64 96, and pad images to it.",
        ),
        ("a.onnx", (-32, 32), "--size: expected sides from 1 to 65536 pixels, found -32 x 32. Use others."),
    ],
)
def test_what_cannot_be_exported_is_refused(run, tmp_path, name, size, message):
    trained = load_model(run, device="cpu")
    with pytest.raises(RecipeError) as error:
        export(trained.parts.task, trained.model, tmp_path / name, size)

    assert str(error.value) == message.format(tmp_path / name)


def test_a_side_of_a_single_multiple_is_refused_with_dynamic(run, tmp_path, capsys):
    assert call("export", run, "-o", tmp_path / "a.onnx", "--dynamic", "--size", 32, 96, capsys=capsys)[2] == (
        "error: --size: expected sides of at least 64 pixels with --dynamic, found 32 x 96. Use --size 64 64 or larger; the "
        "file takes smaller images all the same.\n"
    )


class TestAnySize:
    @pytest.mark.parametrize("suffix", [".onnx", pytest.param(".pt2", marks=pytest.mark.soak)])
    def test_masks_of_images_of_several_sizes(self, run, tmp_path, suffix, capsys):
        file = tmp_path / f"model{suffix}"
        code, out, errors = call("export", run, "-o", file, "--size", 64, 96, "--dynamic", capsys=capsys)
        trained = load_model(run, device="cpu")

        assert (code, errors) == (0, "")
        assert "takes: image, uint8 (n, height, width, 3), RGB; gives: classes, probabilities" in out
        assert (
            "give it images that are not resized, but padded on the right and below to multiples of 32 with 128, 128, "
            "128\n" in out
        )
        for size in ((64, 96), (160, 64), (96, 224)):
            images = torch.randint(0, 256, (1, *size, 3), dtype=torch.uint8)
            classes, probabilities = predictions(file, images)
            with torch.inference_mode():
                expected = trained.model(trained.parts.task.inputs({"image": images})).softmax(dim=1)
            torch.testing.assert_close(probabilities, expected, rtol=1e-4, atol=1e-5)
            assert tuple(classes.shape) == (1, *size)

    def test_a_network_that_pools_to_one_size_is_found_out(self, tmp_path):
        """What is fixed when a graph is made shows at another size."""
        task = Segmentation("unet:test_resnet", ("a", "b"))

        class Fixed(torch.nn.Module):
            def forward(self, images):
                bits = torch.linspace(-1, 1, 64 * 64).view(1, 1, 64, 64)
                coarse = torch.nn.functional.adaptive_avg_pool2d(images[:, :1], 64) + bits
                logits = torch.nn.functional.interpolate(coarse, images.shape[2:])
                return torch.cat([logits, -logits], dim=1)

        found = None
        with contextlib.suppress(Exception):
            found = export(task, Fixed().eval(), tmp_path / "a.onnx", (64, 64), dynamic=True)
        assert found is None or found.comparison.agreement < 1

    def test_classes_take_one_size(self, tmp_path):
        task = Classification("test_resnet", ("a", "b"))
        with pytest.raises(RecipeError) as error:
            export(task, task.model().eval(), tmp_path / "a.onnx", (32, 32), dynamic=True)
        assert str(error.value) == (
            "--dynamic: expected a model that predicts masks or objects, found classification. Remove --dynamic, and "
            "bring images to the size that is printed."
        )


def objects(file, pixels):
    import onnxruntime

    session = onnxruntime.InferenceSession(str(file))
    names = [each.name for each in session.get_outputs()]
    return dict(zip(names, session.run(names, {"image": pixels}), strict=True))


class TestObjects:
    """Boxes are found in noise too, as the networks are new."""

    @pytest.mark.parametrize(
        "name", [*(pytest.param(name, marks=pytest.mark.soak) for name in ("fasterrcnn", "fcos")), "retinanet", "ssd"]
    )
    def test_boxes_are_those_of_the_model(self, tmp_path, name):
        torch.manual_seed(1)
        task = Detection(f"{name}:test_resnet", ("cat", "dog"), 4)
        model = task.model().eval()
        if name == "retinanet":  # new ones score no box above the least score
            torch.nn.init.constant_(model.network.head.classification_head.cls_logits.bias, 0.5)
            torch.nn.init.normal_(model.network.head.classification_head.cls_logits.weight, std=0.3)  # no equal scores
        found = export(task, model, tmp_path / "a.onnx", (64, 96))

        assert found.shape == ("height", "width", "3")
        assert found.outputs == ("boxes", "scores", "labels")
        assert found.comparison.count > 10
        assert found.comparison.agreement > 0.99
        for size in ((64, 96), (150, 70)):
            pixels = np.random.default_rng(0).integers(0, 256, (*size, 3), np.uint8)
            expected = task.predictor.predict(ReadyModel(model), pixels)
            given = objects(tmp_path / "a.onnx", pixels)
            assert len(expected.boxes) > 0
            np.testing.assert_allclose(given["boxes"], expected.boxes, atol=0.05)
            np.testing.assert_allclose(given["scores"], expected.scores, atol=1e-4)
            assert given["labels"].tolist() == expected.labels.tolist()

    def test_pixels_of_instances_are_those_of_the_model(self, tmp_path):
        torch.manual_seed(1)
        task = Instances("maskrcnn:test_resnet", ("cat", "dog"), 4)
        model = task.model().eval()
        found = export(task, model, tmp_path / "a.onnx", (64, 64))
        pixels = np.random.default_rng(0).integers(0, 256, (90, 70, 3), np.uint8)
        expected, given = task.predictor.predict(ReadyModel(model), pixels), objects(tmp_path / "a.onnx", pixels)

        assert found.outputs == ("boxes", "scores", "labels", "masks")
        shapes = {
            each.name: [d.dim_param for d in each.type.tensor_type.shape.dim]
            for each in onnx.load(tmp_path / "a.onnx").graph.output
        }
        assert shapes["masks"] == ["objects", "height", "width"]
        assert found.comparison.agreement > 0.95
        assert given["masks"].shape == expected.masks.shape
        assert (given["masks"] == expected.masks).mean() > 0.999

    def test_images_are_resized_inside(self, tmp_path):
        """A smooth image of twice the size has its boxes at twice the places, as predict finds them."""
        torch.manual_seed(1)
        task = Detection("fcos:test_resnet", ("cat", "dog"), 4, Augment((64, 64), resize_range=(60, 90)))
        model = task.model().eval()
        export(task, model, tmp_path / "a.onnx", (64, 64))
        small = np.random.default_rng(0).integers(0, 256, (12, 18, 3), np.uint8)
        pixels = cv2.resize(small, (120, 80), interpolation=cv2.INTER_CUBIC)
        expected, given = task.predictor.predict(ReadyModel(model), pixels), objects(tmp_path / "a.onnx", pixels)

        assert given["boxes"].max() > 90  # in pixels of the image that was given
        np.testing.assert_allclose(given["boxes"][:5], expected.boxes[:5], atol=1.0)

    def test_an_image_without_objects_has_none(self, tmp_path):
        torch.manual_seed(1)
        task = Detection("fasterrcnn:test_resnet", ("cat",), 4)
        model = task.model().eval()
        torch.nn.init.constant_(model.network.roi_heads.box_predictor.cls_score.bias, 0.0)
        with torch.no_grad():
            model.network.roi_heads.box_predictor.cls_score.bias[0] = 50.0  # all is background
        found = export(task, model, tmp_path / "a.onnx", (64, 64))

        assert (found.comparison.count, found.comparison.agreement) == (0, 1.0)
        assert objects(tmp_path / "a.onnx", np.zeros((40, 50, 3), np.uint8))["boxes"].shape == (0, 4)

    def test_a_size_and_a_program_are_refused(self, squares, tmp_path, capsys):
        folder, _ = train(learn_squares(squares, steps=1), tmp_path / "runs")
        for words in (["--size", 64, 64], ["--dynamic"], ["--any-size"]):
            assert call("export", folder.path, "-o", tmp_path / "a.onnx", *words, capsys=capsys) == (
                2,
                "",
                f"error: {words[0]} has no effect: the exported file takes images of any size. Remove {words[0]}.\n",
            )
        assert call("export", folder.path, "-o", tmp_path / "a.pt2", capsys=capsys)[2] == (
            f"error: {tmp_path}/a.pt2: expected a file that ends in .onnx for images of any size, found .pt2. Use "
            ".onnx: other formats cannot hold graphs of any size.\n"
        )
        code, out, _ = call("export", folder.path, "-o", tmp_path / "a.onnx", capsys=capsys)
        assert code == 0
        assert "takes: image, uint8 (height, width, 3), RGB; gives: boxes, scores, labels\n" in out
        assert "give it one whole image at a time, of any size\n" in out


def test_patches_of_volumes_are_exported(tmp_path):
    task = Volumes("unet3d", ("back", "front"), augment=Augment((16, 24), slices=16))
    model = task.model().eval()
    found = export(task, model, tmp_path / "a.onnx", (16, 24))
    patch = np.random.default_rng(0).integers(0, 256, (1, 16, 16, 24, 1), np.uint8)
    with torch.inference_mode():
        expected = model.network(task.inputs({"image": torch.from_numpy(patch)})).softmax(dim=1)

    assert found.shape == ("n", "16", "16", "24", "1")
    assert found.comparison.agreement > 0.999
    np.testing.assert_allclose(predictions(tmp_path / "a.onnx", torch.from_numpy(patch))[1], expected, atol=1e-5)
    with pytest.raises(RecipeError) as error:
        export(task, model, tmp_path / "a.onnx", (32, 32))
    assert str(error.value) == (
        "--size: expected the size of the patches of training, found 32 x 32. Use --size 16 24, or remove --size."
    )


class TestComparison:
    def arrays(self, boxes, scores=(0.9, 0.8), labels=(0, 1)):
        return torch.tensor(boxes), torch.tensor(scores), torch.tensor(labels)

    def test_objects_differ_by_box_class_and_number(self):
        one = self.arrays([[0.0, 0, 10, 10], [5, 5, 9, 9]])
        names = ("boxes", "scores", "labels")
        assert compared(names, [one], [one]) == Comparison("object", 2, 1.0, 0.0)
        moved = self.arrays([[0.0, 0, 10, 12], [5, 5, 9, 9]])
        assert compared(names, [moved], [one]).agreement == 0.5
        other = self.arrays([[0.0, 0, 10, 10], [5, 5, 9, 9]], labels=(0, 0), scores=(0.9, 0.5))
        found = compared(names, [other], [one])
        assert (found.agreement, round(found.largest, 6)) == (0.5, 0.3)
        fewer = tuple(each[:1] for each in one)
        assert compared(names, [fewer, one], [one, one]) == Comparison("object", 4, 0.75, 0.0)


def test_the_tutorials_network_is_exported(tmp_path, capsys):
    settings = ["model.name=cifar10-tutorial", "augment.crop=[24, 24]", "augment.view=pad-crop"]
    folder, _ = train(apply(classes(tmp_path), settings), tmp_path / "runs")
    code, out, err = call("export", folder.path, "-o", tmp_path / "m.onnx", capsys=capsys)

    assert (code, err) == (0, "")
    assert "takes: image, uint8 (n, 24, 24, 3), RGB" in out


class TestWholeClasses:
    """One image of any size, which is resized inside."""

    SIZES = ((32, 48), (70, 101), (33, 31), (300, 410), (20, 20))

    @pytest.mark.parametrize("pixel_format", [RGB, PixelFormat(5, 16)], ids=str)
    def test_they_are_those_of_predict(self, tmp_path, pixel_format):
        torch.manual_seed(0)
        augment = Augment((32, 48), ResizedCrop())
        task = Classification("test_resnet", ("a", "b", "c"), augment, pixel_format=pixel_format, weights="none")
        model = task.model().eval()
        found = export(task, model, tmp_path / "a.onnx", (32, 48), any_size=True)
        draw, channels = np.random.default_rng(0), pixel_format.channels

        assert (found.shape, found.outputs) == (("height", "width", str(channels)), ("classes", "probabilities"))
        assert found.input_note == "one whole image at a time, of any size"
        for size in self.SIZES:
            pixels = draw.integers(0, pixel_format.highest, (*size, channels)).astype(pixel_format.dtype)
            pixels = cv2.GaussianBlur(pixels, (0, 0), 3)
            given = objects(tmp_path / "a.onnx", pixels.astype(found.dtype))
            expected = task.predictor.predict(ReadyModel(model), pixels)
            assert given["probabilities"].shape == (3,)
            assert np.abs(given["probabilities"] - expected.probabilities).max() < 1e-3
            assert given["classes"] == expected.best[0]


class TestWholeMasks:
    """One image of any size, whose padding is inside."""

    SIZES = ((64, 96), (70, 101), (33, 31), (130, 64))

    @pytest.mark.parametrize("name", ["unet:test_resnet", "deeplabv3plus:resnet10t"])
    def test_they_are_those_of_predict(self, tmp_path, name):
        torch.manual_seed(0)
        task = Segmentation(name, ("a", "b", "c"))
        model = task.model().eval()
        found = export(task, model, tmp_path / "a.onnx", (64, 96), any_size=True)
        draw = np.random.default_rng(0)

        assert (found.shape, found.outputs) == (("height", "width", "3"), ("classes", "probabilities"))
        assert found.input_note == "one whole image at a time, of any size"
        for size in self.SIZES:
            pixels = cv2.GaussianBlur(draw.integers(0, 256, (*size, 3), np.uint8), (0, 0), 3)
            given = objects(tmp_path / "a.onnx", pixels)
            expected = task.predictor.probabilities(ReadyModel(model), pixels)
            assert given["probabilities"].shape == expected.shape == (3, *size)
            assert np.abs(given["probabilities"] - expected).max() < 1e-4
            assert (given["classes"] == expected.argmax(axis=0)).mean() > 0.999

    def test_the_command_and_a_network_that_cannot(self, run, tmp_path, capsys):
        code, out, _ = call("export", run, "-o", tmp_path / "a.onnx", "--any-size", capsys=capsys)
        assert code == 0
        assert "takes: image, uint8 (height, width, 3), RGB; gives: classes, probabilities" in out
        task = Segmentation("upernet:test_resnet", ("a", "b"))
        with pytest.raises(RecipeError) as caught:
            export(task, task.model().eval(), tmp_path / "b.onnx", (64, 64), any_size=True)
        assert "b.onnx: expected a network that can be exported for images of any size, found one that cannot (" in str(
            caught.value
        )

    def test_what_has_no_such_graph_is_refused(self, run, tmp_path, capsys):
        task = Classification("test_resnet", ("a", "b"), Augment((32, 32), PadCrop()))
        with pytest.raises(RecipeError) as caught:
            export(task, task.model().eval(), tmp_path / "a.onnx", (32, 32), any_size=True)
        assert str(caught.value) == (
            "--any-size: expected a model that predicts masks, or classes of resized images, found classification. Remove "
            "--any-size."
        )
        assert call("export", run, "-o", tmp_path / "a.onnx", "--any-size", "--dynamic", capsys=capsys)[2] == (
            "error: --any-size: expected no --dynamic, which is for several images, found both. Remove one of them.\n"
        )

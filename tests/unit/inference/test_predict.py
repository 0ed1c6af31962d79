from __future__ import annotations

import shutil

import cv2
import numpy as np
import pytest
import torch
from support.commands import call
from support.shaking import make_image, normalised, probabilities
from torch.nn import functional

from penstock.datasets import scenes
from penstock.images import drawing, palettes
from penstock.inference import TrainedModel


class TestPredict:
    def test_it_looks_several_times_where_it_is_asked_to(self, shaken_run, raw, tmp_path, capsys):
        task, model = normalised(shaken_run)
        looks = {"plain": [], "sizes": ["--scales", 0.5, 1], "mirror": ["--flip"]}
        for name, words in looks.items():
            out = ["-o", tmp_path / name, "--checkpoint", "last"]
            assert call("predict", shaken_run, raw / "images/val", *out, *words, capsys=capsys)[0] == 0
        differ = dict.fromkeys(looks, 0)
        for path in sorted((raw / "images/val").iterdir()):
            seen = task.inputs({"image": make_image(path)})
            with torch.inference_mode():
                straight = model(seen).softmax(dim=1)
                mirrored = model(seen.flip(3)).softmax(dim=1).flip(3)
                half = functional.interpolate(seen, (32, 64), mode="bilinear", align_corners=False, antialias=True)
                small = functional.interpolate(
                    model(half).softmax(dim=1), (64, 96), mode="bilinear", align_corners=False
                )
            predictions = {"plain": straight, "sizes": straight + small, "mirror": straight + mirrored}
            for name, prediction in predictions.items():
                found = cv2.imread(str(tmp_path / name / f"{path.stem}.png"), cv2.IMREAD_UNCHANGED)
                expected = prediction[0].argmax(dim=0).numpy()
                assert (found != expected).mean() < 0.001, name  # rounding may decide a tie
                differ[name] += (expected != predictions["plain"][0].argmax(dim=0).numpy()).mean() > 0.01
        assert all(differ[name] for name in ("sizes", "mirror"))

    @pytest.mark.parametrize("palette", ["voc", "ade20k", "cityscapes"])
    def test_masks_and_overlays_have_the_colours_that_are_named(self, shaken_run, raw, tmp_path, capsys, palette):
        image = next((raw / "images/val").iterdir())
        words = ["-o", tmp_path, "--palette", palette, "--color"]
        assert call("predict", shaken_run, image, *words, capsys=capsys)[0] == 0
        published = {
            "voc": [(0, 0, 0), (128, 0, 0), (0, 128, 0), (128, 128, 0), (0, 0, 128), (128, 0, 128)],
            "ade20k": palettes.ADE20K[:6],
            "cityscapes": palettes.CITYSCAPES[:6],
        }
        colors = np.array(published[palette], np.uint8)
        mask = cv2.imread(str(tmp_path / f"{image.stem}.png"), cv2.IMREAD_UNCHANGED)
        color = cv2.imread(str(tmp_path / f"{image.stem}-color.png"))[..., ::-1]
        overlay = cv2.imread(str(tmp_path / f"{image.stem}-overlay.png"))[..., ::-1]

        assert (color == colors[mask]).all()
        assert (overlay == drawing.overlay(make_image(image)[0].numpy(), mask, colors)).all()

    def test_images_are_filled_up_with_the_mean(self, shaken_run, tmp_path, capsys):
        """At the right and below, to what the network takes; in windows too."""
        encoded, _ = scenes.encode(scenes.draw(4, "x", 0, (40, 71)))
        (tmp_path / "a.jpg").write_bytes(encoded)
        seen = make_image(tmp_path / "a.jpg")
        task, model = normalised(shaken_run)
        for words, size in (([], (64, 96)), (["--sliding-window", 96], (96, 96))):
            out = ["-o", tmp_path / "out", "--checkpoint", "last"]
            assert call("predict", shaken_run, tmp_path / "a.jpg", *out, *words, capsys=capsys)[0] == 0
            found = cv2.imread(str(tmp_path / "out/a.png"), cv2.IMREAD_UNCHANGED)
            predictions = {}
            for value in (128, 0):
                padded = torch.full((1, *size, 3), value, dtype=torch.uint8)
                padded[:, :40, :71] = seen
                predictions[value] = probabilities(task, model, padded)[0].argmax(dim=0).numpy()[:40, :71]
            wrong = {value: (found != prediction).mean() for value, prediction in predictions.items()}
            assert wrong[128] < 0.01, words  # the mean is half a step from a byte
            assert wrong[0] > 0.03, words


def test_a_recipe_that_was_edited_is_named(shaken_run, raw, tmp_path, capsys, caplog):
    shutil.copytree(shaken_run, tmp_path / "run", symlinks=True)
    recipe = tmp_path / "run/recipe.toml"
    image = next((raw / "images/val").iterdir())
    predict = "predict", tmp_path / "run", image, "-o", tmp_path / "out", "--checkpoint", "last"
    assert call(*predict, capsys=capsys)[0] == 0
    assert caplog.messages == []
    recipe.write_text(recipe.read_text() + "\n# mine\n")
    note = f"note: {recipe} was edited since Penstock wrote it, and is used as it is now"
    for words in (predict, ("evaluate", tmp_path / "run", "--images", 0, "--checkpoint", "last")):
        caplog.clear()
        assert call(*words, capsys=capsys)[0] == 0
        assert caplog.messages == [note]


def test_an_image_that_no_memory_holds_is_left_out(shaken_run, raw, tmp_path, capsys, monkeypatch):
    images = sorted((raw / "images/val").iterdir())
    predict = TrainedModel.predict

    def predicted(self, pixels):
        if (pixels == make_image(images[1])[0].numpy()).all():
            raise RuntimeError(
                "[enforce fail at alloc_cpu.cpp:125] DefaultCPUAllocator: can't allocate memory: you tried"
            )
        return predict(self, pixels)

    monkeypatch.setattr(TrainedModel, "predict", predicted)
    code, out, err = call("predict", shaken_run, raw / "images/val", "-o", tmp_path / "out", capsys=capsys)

    assert f"predicted {len(images) - 1} of {len(images)} images" in out
    assert (
        f"{images[1]}: expected an image that is predicted in the memory of this machine, found a larger one. Use "
        "--sliding-window 512, or make the image smaller."
    ) in out + err
    assert code == 1

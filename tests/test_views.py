"""Several looks at an image: the mean of probabilities, written out."""

from __future__ import annotations

import io
import json
import os

import cv2
import numpy as np
import pytest
import torch
from test_cli import call
from torch.nn import functional
from training import recipe

from penstock.models import TestTimeAugmentation, TTAModel, Window
from penstock.tasks import Segmentation
from penstock.training import train


class Slanted(torch.nn.Module):
    """Logits that depend on the place, so that a mirrored look answers otherwise."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3, padding=1)

    def forward(self, images):
        slope = torch.linspace(-2, 2, images.shape[3]).view(1, 1, 1, -1)
        return self.conv(images) + slope * torch.tensor([1.0, 0.0, -1.0, 2.0]).view(1, 4, 1, 1)


@pytest.fixture
def model():
    torch.manual_seed(3)
    return Slanted().eval()


@pytest.fixture
def images():
    return torch.randn(2, 3, 64, 96, generator=torch.Generator().manual_seed(1))


@torch.no_grad()
def test_a_single_look_is_the_models_own(model, images):
    assert TestTimeAugmentation().single
    assert TestTimeAugmentation().name == ""
    torch.testing.assert_close(TTAModel(model, TestTimeAugmentation())(images), model(images).log_softmax(dim=1))


@torch.no_grad()
def test_the_mirror_counts_with_one_scale_too(model, images):
    """DeepLab ignores the flag there, and still writes it beside the score."""
    expected = (model(images).softmax(dim=1) + model(images.flip(3)).softmax(dim=1).flip(3)) / 2
    found = TTAModel(model, TestTimeAugmentation(flip=True))(images)

    torch.testing.assert_close(found.exp(), expected)
    assert not torch.allclose(found, model(images).log_softmax(dim=1), atol=0.1)


@torch.no_grad()
def test_probabilities_are_averaged_and_not_put_through_a_softmax_again(model, images):
    found = TTAModel(model, TestTimeAugmentation((0.5, 1.0, 1.5), flip=True))(images)
    looks = []
    for height, width in ((32, 64), (64, 96), (96, 128)):  # sides are rounded to multiples of 32
        small = functional.interpolate(
            images, (height, width), mode="bilinear", align_corners=False, antialias=height < 64
        )
        for mirrored in (False, True):
            view = small.flip(3) if mirrored else small
            answer = model(view).softmax(dim=1)
            answer = answer.flip(3) if mirrored else answer
            looks.append(
                functional.interpolate(answer, (64, 96), mode="bilinear", align_corners=False, antialias=height > 64)
            )

    torch.testing.assert_close(found.exp(), torch.stack(looks).mean(dim=0))
    torch.testing.assert_close(found.exp().sum(dim=1), torch.ones(2, 64, 96))
    torch.testing.assert_close(found.log_softmax(dim=1), found)  # so that it can take the place of logits


@torch.no_grad()
def test_moved_looks_weigh_half_as_airbench_has_it(images):
    torch.manual_seed(4)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 64 * 96, 5)).eval()
    moved = functional.pad(images, (1, 1, 1, 1), "reflect")
    expected = 0.0
    for weight, look in ((0.5, images), (0.25, moved[:, :, :-2, :-2]), (0.25, moved[:, :, 2:, 2:])):
        for view in (look, look.flip(3)):
            expected = expected + weight / 2 * model(view).softmax(dim=1)

    torch.testing.assert_close(TTAModel(model, TestTimeAugmentation(flip=True, shift=1))(images).exp(), expected)


def test_names():
    assert TestTimeAugmentation((0.75, 1.0, 1.25), flip=True).name == "x0.75,1,1.25-flip"
    assert TestTimeAugmentation(flip=True, shift=1).name == "x1-flip-shift1"
    assert TestTimeAugmentation((2.0,)).name == "x2"


def test_a_window_that_holds_the_picture_changes_nothing(model):
    task = Segmentation("unet:test_resnet", ("a", "b", "c", "d"))
    pixels = np.random.default_rng(1).integers(0, 255, (64, 64, 3), dtype=np.uint8)
    whole = task.predict(model, pixels, device=torch.device("cpu")).mask
    windowed = task.predict(model, pixels, device=torch.device("cpu"), window=Window(64)).mask

    assert (whole == windowed).all()


@pytest.fixture(scope="module")
def run(packed, tmp_path_factory):
    return train(recipe(packed.folder, steps=4), tmp_path_factory.mktemp("runs"))[0].path


def test_through_the_command_line(run, raw, tmp_path, capsys):
    for words in ([], ["--flip"], ["--scales", 0.5, 1, "--flip"]):
        code, _, err = call("evaluate", run, *words, "--images", 1, capsys=capsys)
        assert code == 0, err
    names = sorted(path.name for path in (run / "evaluations").glob("val-*"))
    step = (run / "checkpoints" / "best").resolve().name.partition("-")[2]
    assert names == [f"val-{step}-x0.5,1-flip.json", f"val-{step}-x1-flip.json", f"val-{step}.json"]
    views = json.loads((run / "evaluations" / names[0]).read_text())["tta"]
    assert views == {"scales": [0.5, 1.0], "flip": True, "shift": 0}
    losses = [json.loads((run / "evaluations" / name).read_text())["loss"] for name in names]
    assert len(set(losses)) == 3
    picture = next((raw / "images" / "val").iterdir())
    for number, words in enumerate(([], ["--scales", 0.5, 1, "--flip"], ["--window", 32, "--flip"])):
        code, _, err = call("predict", run, picture, "-o", tmp_path / str(number), *words, capsys=capsys)
        assert code == 0, err
    assert call("evaluate", run, "--shift", 1, capsys=capsys) == (
        2,
        "",
        "error: Test-time augmentation by shifts is not supported for segmentation. Remove --shift.\n",
    )
    for scales in ([0], [1, 9], [1, "nan"], []):
        code, _, err = call("evaluate", run, "--scales", *scales, capsys=capsys)
        assert code == 2, scales
        assert "expected sizes above 0 and up to 8, found" in err


def film(path, frames=4):
    """A video of plain frames that grow lighter, without loss."""
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*"FFV1"), 10, (64, 48))
    for number in range(frames):
        writer.write(np.full((48, 64, 3), 40 * number, np.uint8))
    writer.release()


def test_lists_films_and_standard_input_are_predicted(packed, raw, tmp_path, capsys, monkeypatch):
    folder, _ = train(recipe(packed.folder, steps=1, evaluate_every=1), tmp_path / "runs")
    pictures = sorted((raw / "images" / "val").iterdir())[:2]
    (tmp_path / "list.txt").write_text(f"{pictures[0]}\n\n{os.path.relpath(pictures[1], tmp_path)}\n")
    film(tmp_path / "video.avi")
    capsys.readouterr()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(pictures[0].read_bytes())))
    code, out, _ = call(
        "predict",
        folder.path,
        tmp_path / "list.txt",
        tmp_path / "video.avi",
        "-",
        "-o",
        tmp_path / "out",
        capsys=capsys,
    )
    written = {path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*.png")}

    assert (code, out.splitlines()[0]) == (0, f"predicted 7 of 7 images into {tmp_path / 'out'}")
    names = [*(picture.stem for picture in pictures), *(f"video/{n:06d}" for n in range(4)), "stdin"]
    assert written == {f"{name}{end}.png" for name in names for end in ("", "-overlay")}
    overlays = [cv2.imread(str(tmp_path / "out" / f"video/{n:06d}-overlay.png")).mean() for n in range(4)]
    assert overlays == sorted(overlays)
    first = (tmp_path / "out" / f"{pictures[0].stem}.png").read_bytes()
    assert (tmp_path / "out" / "stdin.png").read_bytes() == first


def test_a_film_that_cannot_be_read_is_named(packed, tmp_path, capsys):
    folder, _ = train(recipe(packed.folder, steps=1, evaluate_every=1), tmp_path / "runs")
    (tmp_path / "video.mp4").write_bytes(b"no film")
    capsys.readouterr()

    assert call("predict", folder.path, tmp_path / "video.mp4", "-o", tmp_path / "out", capsys=capsys) == (
        2,
        "",
        f"error: {tmp_path}/video.mp4: expected a video that OpenCV can read, found no frames. Convert it, for example with "
        "ffmpeg to H.264 in .mp4.\n",
    )

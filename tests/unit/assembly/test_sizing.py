from __future__ import annotations

import pytest
from support import miniatures, volumes
from support.commands import call

from penstock.assembly import resolve_settings
from penstock.datasets import inspect, pack, scenes
from penstock.images.color import Jitter


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A dataset of images of 70 x 700 pixels."""
    root = tmp_path_factory.mktemp("small")
    scenes.write_folder(root / "raw", {"train": 3, "val": 2}, (70, 700), 0)
    return pack(inspect(root / "raw"), root / "data")


def crop(dataset, **given):
    resolved = resolve_settings({"data.path": str(dataset.folder), **given})
    return resolved.recipe.augment.crop, resolved.origin("augment.crop")


def test_the_default_is_no_larger_than_the_images(small):
    assert crop(small) == ((64, 512), "size of the images")


def test_a_crop_that_was_given_stays(small):
    assert crop(small, **{"augment.crop": [256, 96]}) == ((256, 96), "given")


def test_images_of_classes_are_resized_to_the_crop(tmp_path):
    miniatures.folders(tmp_path / "raw")
    dataset = pack(inspect(tmp_path / "raw"), tmp_path / "data")
    assert crop(dataset) == ((224, 224), "task classification")
    assert crop(dataset, **{"model.name": "cifar10-fast"}) == ((32, 32), "model cifar10-fast")


def test_images_smaller_than_the_stride_are_padded_to_it(tmp_path):
    miniatures.masks(tmp_path / "raw")
    dataset = pack(inspect(tmp_path / "raw"), tmp_path / "data")
    assert crop(dataset) == ((32, 32), "size of the images")


def test_the_run_says_where_its_crop_comes_from(small, tmp_path, capsys):
    words = ("--model", "unet:test_resnet", "--weights", "none", "--device", "cpu", "--fast-dev-run", "--batch", 2)
    code, out, err = call("train", small.folder, *words, "--runs", tmp_path, capsys=capsys)
    assert code == 0, err
    assert "larger than every image" not in out
    assert "crop = [\n    64,\n    512,\n]" in next(tmp_path.glob("*/recipe.toml")).read_text()


class TestColors:
    def jitter(self, dataset, **given):
        resolved = resolve_settings({"data.path": str(dataset.folder), **given})
        return resolved.recipe.augment.jitter, resolved.origin("augment.jitter.hue")

    def test_of_images_in_colour_are_jittered(self, small):
        assert self.jitter(small) == (Jitter(0.2, 0.2, 0.2, 0.02), "images in colour")

    def test_jitter_that_was_given_stays(self, small):
        assert self.jitter(small, **{"augment.jitter": {}})[0] == Jitter()
        assert self.jitter(small, **{"augment.jitter.hue": 0.1}) == (Jitter(hue=0.1), "given")

    def test_slices_of_volumes_have_no_colours(self, tmp_path):
        volumes.write_cases(tmp_path / "raw")
        dataset = pack(inspect(tmp_path / "raw"), tmp_path / "data")
        assert dataset.description.modalities
        assert self.jitter(dataset)[0] == Jitter()


class TestLetterbox:
    def found(self, dataset, **given):
        augment = resolve_settings({"data.path": str(dataset.folder), **given}).recipe.augment
        return augment.crop, augment.resize_range

    def boxes(self, root, size):
        miniatures.write(root / "raw/a.png", miniatures.make_image(size))
        miniatures.write(root / "raw/boxes.csv", "file,class,xmin,ymin,xmax,ymax\na.png,cat,1,1,9,9\n")
        return pack(inspect(root / "raw"), root / "data")

    def test_a_detector_is_shown_whole_images(self, tmp_path):
        large = self.boxes(tmp_path / "large", (720, 1280))
        assert self.found(large) == ((384, 640), (640, 640))
        small = self.boxes(tmp_path / "small", (90, 70))
        assert self.found(small) == ((96, 96), (90, 90))

    def test_what_was_given_stays(self, tmp_path):
        large = self.boxes(tmp_path, (720, 1280))
        assert self.found(large, **{"augment.crop": [64, 64]}) == ((64, 64), None)
        assert self.found(large, **{"augment.resize_range": [360, 1280]}) == ((384, 640), (360, 1280))

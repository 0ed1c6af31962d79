"""Every reader of annotations gives the same hard truth, and every door after it."""

from __future__ import annotations

import numpy as np
import pytest
from support import truth

import penstock as ps
from penstock.datasets import LayoutOptions, inspect, pack
from penstock.errors import DatasetError


def read(form, root, task, to="data"):
    write = truth.CLASSIFIED[form] if task == "classification" else truth.BOXES[form]
    write(root if form == "Object Detection API" else root / "raw")
    found = inspect(root / "raw", how=LayoutOptions(task=task))
    assert [problem.message for problem in found.fatal] == []
    pack(found, root / to)
    return ps.open(root / to)


def photo_of(split, name):
    last = name.rpartition("/")[2]
    return next(photo for photo in truth.photos_of(split) if photo.name == last)


def in_color(image, photo):
    """Whether the middles of the objects of a photograph have their colours in an image, uint8 RGB."""
    middles = [(name, image[(b + d) // 2, (a + c) // 2].astype(int)) for name, a, b, c, d in photo.objects]
    return all(np.abs(pixel - truth.color_of(name)).max() < 12 for name, pixel in middles)


@pytest.mark.parametrize("form", truth.BOXES)
def test_boxes_are_those_of_the_truth(tmp_path, form):
    data = read(form, tmp_path, "detection")

    for split in ("train", "val"):
        seen = []
        for sample in (data[split][n] for n in range(len(data[split]))):
            photo = photo_of(split, sample.name)
            boxes = zip(sample.label["classes"], sample.label["boxes"].tolist(), strict=True)
            assert sorted((name, *map(round, box)) for name, box in boxes) == sorted(photo.objects), photo
            assert sample.image.shape[:2] == photo.size
            assert in_color(sample.image, photo), photo
            seen.append(photo.name)
        unlabelled = {"nothing"} if form == "Open Images" else set()  # it lists no image without boxes
        assert sorted(seen) == sorted({photo.name for photo in truth.photos_of(split)} - unlabelled)


@pytest.mark.parametrize("form", truth.OUTLINES)
@pytest.mark.parametrize("task", ["segmentation", "instances"])
def test_pixels_are_those_of_the_truth(tmp_path, form, task):
    data = read(form, tmp_path, task)
    classes = data.classes

    for split in ("train", "val"):
        for sample in (data[split][n] for n in range(len(data[split]))):
            photo = photo_of(split, sample.name)
            want = np.full(photo.size, "background", object)
            for name, left, top, right, bottom in photo.objects:
                want[top:bottom, left:right] = name
            got = np.full(photo.size, "background", object)
            if task == "segmentation":
                got = np.array(classes, object)[sample.label]
            else:
                for name, mask in zip(sample.label["classes"], sample.label["masks"], strict=True):
                    got[mask] = name
            assert (got == want).all(), photo
            assert in_color(sample.image, photo), photo


def corrected(photo, how):
    """A photograph whose first object is of another class, elsewhere, or left out."""
    (name, left, top, right, bottom), *others = photo.objects
    first = {
        "class": [("sign-30" if name != "sign-30" else "apple", left, top, right, bottom)],
        "place": [(name, left, top, right - 3, bottom)],
        "object": [],
    }[how]
    return photo._replace(objects=(*first, *others))


@pytest.mark.parametrize("form", truth.BOXES)
@pytest.mark.parametrize("how", ["class", "place", "object"])
def test_what_was_corrected_is_packed_again(tmp_path, monkeypatch, form, how):
    task = "segmentation" if form in truth.OUTLINES else "detection"
    before = read(form, tmp_path, task)
    images, digest = files(tmp_path), before.opened.description.content
    monkeypatch.setattr(truth, "write_images", lambda *_: None)
    monkeypatch.setattr(truth, "PHOTOS", tuple(corrected(p, how) if p.name == "c#1" else p for p in truth.PHOTOS))
    with pytest.raises(DatasetError, match="already holds another dataset"):
        read(form, tmp_path, task)
    after = read(form, tmp_path, task, "corrected")
    photo = photo_of("train", "c#1")

    assert files(tmp_path) == images
    assert after.opened.description.content != digest
    (sample,) = (each for n in range(len(after["train"])) if (each := after["train"][n]).name.endswith("c#1"))
    if task == "detection":
        boxes = zip(sample.label["classes"], sample.label["boxes"].tolist(), strict=True)
        assert sorted((name, *map(round, box)) for name, box in boxes) == sorted(photo.objects)
    else:
        want = np.zeros(photo.size, np.uint8)
        for name, left, top, right, bottom in photo.objects:
            want[top:bottom, left:right] = after.classes.index(name)
        assert (sample.label == want).all()


def files(root):
    """The images by path and content: corrections of labels change none of them."""
    return {path: path.read_bytes() for path in root.rglob("*.jpg")}


@pytest.mark.parametrize("form", truth.CLASSIFIED)
def test_classes_are_those_of_the_truth(tmp_path, form):
    data = read(form, tmp_path, "classification")

    for split in ("train", "val"):
        samples = [data[split][n] for n in range(len(data[split]))]
        assert len(samples) == len(truth.photos_of(split))
        for sample in samples:
            photo = photo_of(split, sample.name)
            assert sample.label == truth.class_of(photo), photo
            assert in_color(sample.image, photo), photo


def test_numbers_are_classes_in_their_order(tmp_path):
    """Eleven and more: class 10 comes after class 9, and not after class 1."""
    truth.class_table(tmp_path / "raw", lambda photo: truth.CLASSES.index(truth.class_of(photo)))
    classes = inspect(tmp_path / "raw").labels.classes

    assert list(classes) == sorted(classes, key=int)
    assert "10" in classes or "12" in classes

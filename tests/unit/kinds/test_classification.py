from __future__ import annotations

from support import miniatures
from support.layouts import words

from penstock.datasets import inspect


def test_images_that_all_have_one_class_are_noted(tmp_path):
    for number in range(3):
        miniatures.write(tmp_path / f"new/{number}.jpg", miniatures.make_image(seed=number))
    found = inspect(tmp_path)

    assert [(problem.message, problem.fatal) for problem in found.problems if problem.kind == "only one class"] == [
        (
            "all 3 images have the class new. To train a classifier, sort the images into one folder per class.",
            False,
        )
    ]


def test_two_classes_are_not_noted(tmp_path):
    for name in ("cat", "dog"):
        miniatures.write(tmp_path / f"{name}/1.jpg", miniatures.make_image(seed=len(name) + ord(name[0])))

    assert not [each for each in words(tmp_path) if "have the class" in each]


def test_one_image_in_two_classes_is_noted(tmp_path):
    for name in ("cat", "dog"):
        miniatures.write(tmp_path / f"{name}/1.jpg", miniatures.make_image(seed=1))
        miniatures.write(tmp_path / f"{name}/2.jpg", miniatures.make_image(seed=ord(name[0])))

    assert [(problem.message, problem.fatal) for problem in inspect(tmp_path).problems if "labels" in problem.kind] == [
        (
            "dog/1.jpg: expected an image with one label, found the same bytes as cat/1.jpg with another label. "
            "Remove the wrong one.",
            False,
        )
    ]


def test_many_images_in_two_classes_are_a_problem(tmp_path):
    """A folder inside the data that holds all of it again, as a set of brain scans on Kaggle has one."""
    for name in ("yes", "no", "copy/yes", "copy/no"):
        for number in range(3):
            seed = number + 10 * name.endswith("yes")
            miniatures.write(tmp_path / f"{name}/{number}.jpg", miniatures.make_image(seed=seed))

    assert words(tmp_path)[-1] == (
        "yes/2.jpg: expected an image with one label, found the same bytes as copy/yes/2.jpg with another label. "
        "Remove the wrong one."
    )
    assert len(words(tmp_path)) == 6

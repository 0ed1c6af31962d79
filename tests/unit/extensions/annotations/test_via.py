from __future__ import annotations

import json

import pytest
from support.miniatures import make_image, write

from penstock.datasets import inspect


def boxes(root, *attributes):
    """Two images, and a box in each with its attributes."""
    project = {}
    for number, held in enumerate(attributes):
        write(root / f"{number}.jpg", make_image((24, 32)))
        shape = {"name": "rect", "x": 4, "y": 5, "width": 10, "height": 8}
        regions = [{"shape_attributes": shape, "region_attributes": held}]
        project[f"{number}.jpg1"] = {"filename": f"{number}.jpg", "regions": regions}
    write(root / "via.json", json.dumps(project))
    return inspect(root)


@pytest.mark.parametrize("bad", ["bad", {"bad": True, "good": False}])
def test_of_two_attributes_the_user_says_which_is_the_class(tmp_path, bad):
    found = boxes(tmp_path, {"species": "elm", "health": "good"}, {"species": "oak", "health": bad})
    assert [problem.message for problem in found.fatal] == [
        "via.json: expected one attribute of regions that is their class, found health, species. Call that one class."
    ]
    found = boxes(tmp_path, {"species": "elm", "class": "good"}, {"species": "oak", "class": bad})
    assert not found.fatal
    assert found.labels.classes == ("bad", "good")
    assert "via.json: class is the class of regions. Other attributes are not read: species." in [
        problem.message for problem in found.problems
    ]


def test_an_attribute_without_values_is_no_class(tmp_path):
    found = boxes(tmp_path, {"health": "", "species": "elm"}, {"health": "", "species": "oak"})
    assert found.labels.classes == ("elm", "oak")
    assert "several attributes" not in {problem.kind for problem in found.problems}


def test_regions_may_be_in_a_table(tmp_path):
    """As its first versions wrote them; of boxes that are ticked, the class is the one that is."""
    write(tmp_path / "a.jpg", make_image((24, 32)))
    shape = {"name": "rect", "x": 4, "y": 5, "width": 10, "height": 8}
    regions = {
        str(number): {
            "shape_attributes": {**shape, "x": 4 + number},
            "region_attributes": {"type": {"elm": False, "oak": True}},
        }
        for number in range(2)
    }
    write(tmp_path / "via.json", json.dumps({"a.jpg1": {"filename": "a.jpg", "regions": regions}}))

    found = inspect(tmp_path)
    assert found.labels.classes == ("oak",)
    assert [(box.left, box.right) for box in found.items[0].item.label] == [(4, 14), (5, 15)]

"""Open Images' CSV."""

from __future__ import annotations

from support.miniatures import make_image, write

from penstock.datasets import inspect


def test_images_without_a_row_are_named(tmp_path):
    for number, name in enumerate("ab"):
        write(tmp_path / f"train/{name}.jpg", make_image(seed=number))
    rows = "ImageID,LabelName,XMin,XMax,YMin,YMax\na,/m/1,0.1,0.5,0.2,0.6\n"
    write(tmp_path / "train-annotations-bbox.csv", rows)
    found = inspect(tmp_path)
    assert [(each.fatal, each.message) for each in found.problems] == [
        (False, "train/b.jpg: no annotation names it: it is left out.")
    ]


def test_groups_of_objects_are_crowds(tmp_path):
    write(tmp_path / "train/a.jpg", make_image())
    rows = "ImageID,LabelName,XMin,XMax,YMin,YMax,IsGroupOf\na,/m/1,0.1,0.5,0.2,0.6,1\na,/m/1,0.5,0.9,0.2,0.6,0\n"
    write(tmp_path / "train-annotations-bbox.csv", rows)

    assert [box.crowd for box in inspect(tmp_path).items[0].item.label] == [True, False]

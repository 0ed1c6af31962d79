from __future__ import annotations

import pytest
from support import miniatures
from support.layouts import words
from support.miniatures import make_image, write

from penstock.datasets import inspect


def images(root, *names):
    for number, name in enumerate(names):
        write(root / name, make_image(seed=number))


def labels(found):
    return {each.item.name: found.labels.classes[each.item.label] for each in found.items}


def test_a_column_for_each_class_as_isic_has_them(tmp_path):
    images(tmp_path, "train/ISIC_0.jpg", "train/ISIC_1.jpg", "train/ISIC_2.jpg")
    write(tmp_path / "truth.csv", "image,MEL,NV,BCC\nISIC_0,0.0,1.0,0.0\nISIC_1,1.0,0.0,0.0\nISIC_2,0.0,1.0,0.0\n")
    found = inspect(tmp_path)

    assert found.problems == ()
    assert labels(found) == {"ISIC_0": "NV", "ISIC_1": "MEL", "ISIC_2": "NV"}


def test_rows_of_no_class_or_several_are_named(tmp_path):
    images(tmp_path, "a.jpg", "b.jpg", "c.jpg")
    write(tmp_path / "truth.csv", "image,cat,dog\na.jpg,1,0\nb.jpg,1,1\nc.jpg,0,0\n")
    end = "Fix the row, or leave it out with --skip-bad. Images of several classes are not supported."

    assert words(tmp_path) == [
        f"truth.csv, line 3: expected 1 in the column of one class, found it in cat, dog. {end}",
        f"truth.csv, line 4: expected 1 in the column of one class, found it in none. If rows without a 1 are a class of their "
        f"own, add a column for it. {end}",
    ]
    assert labels(inspect(tmp_path)) == {"a": "cat"}


def test_kaggles_names_without_endings_beside_a_sample_of_what_is_wanted(tmp_path):
    images(tmp_path, "train/00a1.jpg", "train/00b2.jpg", "test/00c3.jpg")
    write(tmp_path / "labels.csv", "id,breed\n00a1,boxer\n00b2,pug\n")
    write(tmp_path / "sample_submission.csv", "id,boxer,pug\n00c3,1,0\n")
    found = inspect(tmp_path)

    assert labels(found) == {"00a1": "boxer", "00b2": "pug"}
    assert found.fatal == []


def test_a_name_that_fits_several_images_is_none(tmp_path):
    images(tmp_path, "one/a.jpg", "two/a.jpg", "b.jpg")
    write(tmp_path / "labels.csv", "file,label\na.jpg,x\nb.jpg,y\n")

    assert words(tmp_path) == [
        "labels.csv: expected the image a.jpg that it names, found 2 files of that name (one/a.jpg, two/a.jpg). Add it, or remove its rows."
    ]


@pytest.mark.parametrize("cells", [("0", "1"), ("0.0", "1.0"), ("False", "True"), ("false", "true")])
def test_cells_of_a_column_for_each_class(tmp_path, cells):
    for number, name in enumerate(("a.jpg", "b.jpg")):
        miniatures.write(tmp_path / name, miniatures.make_image(seed=number))
    no, yes = cells
    miniatures.write(tmp_path / "truth.csv", f"image,cat,dog\na.jpg,{yes},{no}\nb.jpg,{no},{yes}\n")
    found = inspect(tmp_path)
    assert [found.labels.classes[each.item.label] for each in found.items] == ["cat", "dog"]

"""Columns of a CSV file whose names do not say what they hold."""

from __future__ import annotations

import pytest
from support.commands import call
from support.layouts import words
from support.miniatures import make_image, write

from penstock.datasets import LayoutOptions, inspect
from penstock.errors import DatasetError

TABLE = "No;Photo;Animal;Part\n1;0.jpg;cat;train\n2;1.jpg;dog;train\n3;2.jpg;cat;val\n4;3.jpg;dog;val\n"


@pytest.fixture
def raw(tmp_path):
    for number in range(4):
        write(tmp_path / f"{number}.jpg", make_image(seed=number))
    write(tmp_path / "export.csv", TABLE)
    return tmp_path


def test_fields_name_the_columns(raw, capsys):
    fields = {"image": "Photo", "label": "animal", "split": "PART"}
    found = inspect(raw, how=LayoutOptions(fields=fields))
    assert [(each.item.split, each.item.name, found.labels.classes[each.item.label]) for each in found.items] == [
        ("train", "0", "cat"), ("train", "1", "dog"), ("val", "2", "cat"), ("val", "3", "dog"),
    ]  # fmt: skip
    out = call(
        "inspect", raw, *(word for each in fields.items() for word in ("--field", "=".join(each))), capsys=capsys
    )[1]
    assert "because export.csv with columns no, photo, animal, part, of which no is not read\n" in out
    assert "because images are named by the column photo, classes by animal\n" in out


def test_the_column_of_images_is_found_by_its_cells(raw):
    found = inspect(raw, how=LayoutOptions(fields={"label": "Animal"}))
    assert [(each.item.name, each.item.label) for each in found.items] == [("0", 0), ("1", 1), ("2", 0), ("3", 1)]


def test_it_is_found_beside_a_known_column_of_labels_too(raw):
    write(raw / "export.csv", TABLE.replace("Animal", "label"))
    assert inspect(raw).labels.classes == ("cat", "dog")


def test_another_column_of_that_name_is_not_used(raw):
    """A column `label` that holds something else than the classes."""
    write(raw / "export.csv", TABLE.replace("No;", "label;"))
    assert inspect(raw).labels.classes == ("1", "2", "3", "4")
    assert inspect(raw, how=LayoutOptions(fields={"label": "Animal"})).labels.classes == ("cat", "dog")


def test_boxes_too(raw):
    write(raw / "export.csv", "Photo,Kind,L,T,R,B\n0.jpg,cat,1,2,9,8\n1.jpg,dog,3,2,9,8\n")
    fields = {"label": "Kind", "xmin": "L", "ymin": "T", "xmax": "R", "ymax": "B"}
    found = inspect(raw, how=LayoutOptions(fields=fields))
    assert [[(box.left, box.top, box.right, box.bottom) for box in each.item.label] for each in found.items] == [
        [(1, 2, 9, 8)], [(3, 2, 9, 8)],
    ]  # fmt: skip


@pytest.mark.parametrize("fields", [{"label": "Animl"}, {"mask": "Photo"}])
def test_columns_that_are_not_there(raw, fields):
    ((name, column),) = fields.items()
    with pytest.raises(DatasetError) as caught:
        inspect(raw, how=LayoutOptions(fields=fields))
    assert str(caught.value) == (
        f"{raw}: --field: expected columns of a CSV file for image, label, split, box, xmin, ymin, xmax, ymax, found "
        f"{name}={column}. export.csv has the columns No, Photo, Animal, Part."
    )


def test_a_column_that_names_folders_names_no_images(raw):
    """The class is also the name of a folder: only files are images."""
    for number, name in enumerate(("cat", "dog")):
        write(raw / name / f"{number}x.jpg", make_image(seed=10 + number))
    write(raw / "export.csv", "Place;Photo;label\ncat;0;a\ndog;1;b\ncat;2;a\ndog;3;b\n")
    assert [each.item.name for each in inspect(raw).items] == ["0", "1", "2", "3"]


def test_a_table_without_any_images_is_not_taken(raw):
    write(raw / "export.csv", "city;label\nRome;cat\n")
    assert words(raw)[0].startswith(f"{raw}: expected a known layout, found ")

from __future__ import annotations

import pytest
from support.layouts import boxes, words
from support.miniatures import make_image, write

from penstock.datasets import LayoutOptions, inspect, pack


def xml(*objects, size=(24, 32)):
    parts = "".join(
        f"<object><name>{name}</name><bndbox><xmin>{a}</xmin><ymin>{b}</ymin><xmax>{c}</xmax><ymax>{d}</ymax></bndbox></object>"
        for name, a, b, c, d in objects
    )
    return f"<annotation><size><width>{size[1]}</width><height>{size[0]}</height></size>{parts}</annotation>"


ARRANGEMENTS = {
    "two folders": ("images/{name}.png", "annotations/{name}.xml", False),
    "two folders with splits": ("images/{split}/{name}.png", "annotations/{split}/{name}.xml", True),
    "splits of the XML alone": ("images/{name}.png", "annotations/{split}/{name}.xml", True),
    "one folder of XML": ("images/{split}/{name}.png", "annotations/{name}.xml", True),
    "beside, as Roboflow exports it": ("{split}/{name}.jpg", "{split}/{name}.xml", True),
    "beside in one folder": ("{name}.jpg", "{name}.xml", False),
    "folders in the splits": ("{split}/images/{name}.jpg", "{split}/annotations/{name}.xml", True),
}


@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
def test_each_arrangement_is_packed_with_its_boxes(tmp_path, arrangement):
    image, text, divided = ARRANGEMENTS[arrangement]
    for number, (name, split) in enumerate((("a", "train"), ("b", "train"), ("c", "valid" if divided else "train"))):
        write(tmp_path / "raw" / image.format(name=name, split=split), make_image(seed=number))
        write(
            tmp_path / "raw" / text.format(name=name, split=split),
            xml(("dog", 3, 4, 12, 14), ("cat", 1, 1, 5 + number, 6)),
        )
    found = inspect(tmp_path / "raw")
    pack(found, tmp_path / "data")

    assert (found.layout.name, found.labels.classes, found.problems) == ("Pascal VOC XML", ("cat", "dog"), ())
    train = boxes(tmp_path)
    assert train.keys() == ({"a", "b"} if divided else {"a", "b", "c"})
    assert train["b"] == [(1, 2, 3, 12, 14), (0, 0, 0, 6, 6)]  # counted from 1
    assert not divided or boxes(tmp_path, "val") == {"c": [(1, 2, 3, 12, 14), (0, 0, 0, 7, 6)]}


def test_what_does_not_fit_is_named(tmp_path):
    for number, name in enumerate("abcd"):
        write(tmp_path / f"images/{name}.jpg", make_image(seed=number))
    write(tmp_path / "annotations/a.xml", xml(("dog", 3, 4, 12, 14)))
    write(tmp_path / "annotations/b.xml", "<annotation><object>")
    write(tmp_path / "annotations/c.xml", xml(("dog", 3, 4, "x", 14)))
    write(tmp_path / "annotations/e.xml", xml(("dog", 3, 4, 12, 14)))

    damaged, box, missing, lonely = words(tmp_path)
    assert damaged.startswith(f"{tmp_path}/annotations/b.xml: expected XML, found ")
    assert box == (
        f"{tmp_path}/annotations/c.xml: expected a class name and numbers xmin, ymin, xmax, ymax for every object, found "
        "dog: xmin 3, ymin 4, xmax x, ymax 14. Fix the file."
    )
    assert missing == (
        "images/d.jpg: expected annotations/d.xml, found none. Add it, or leave the image out with --skip-bad."
    )
    assert (
        lonely
        == "annotations/e.xml: expected an image of the same name, found none. Add the image, or remove the file."
    )


def test_xml_of_another_kind_is_not_taken(tmp_path):
    write(tmp_path / "images/a.jpg", make_image())
    write(tmp_path / "annotations/a.xml", "<svg></svg>")

    assert words(tmp_path, LayoutOptions("labelimg"))[0] == (
        f"{tmp_path}: expected the layout labelimg, found annotations/, images/. Do one of these: pass the folder that "
        "holds all of the data, if this is a part of it or more than it; describe the layout in a file of your own with --layout FILE.py:NAME. The layout labelimg "
        "has these files: images/a.jpg  annotations/a.xml, or train/a.jpg  train/a.xml."
    )


def test_an_xml_that_names_another_image_is_noted(tmp_path):
    for number, name in enumerate("ab"):
        write(tmp_path / f"images/{name}.jpg", make_image(seed=number))
        text = xml(("dog", 3, 4, 12, 14)).replace("<size>", "<filename>b.jpg</filename><size>")
        write(tmp_path / f"annotations/{name}.xml", text)

    (note,) = inspect(tmp_path).problems
    assert (note.fatal, note.message) == (
        False,
        "images/a.jpg: its XML names b.jpg as its image. The boxes are those of a.jpg, as the XML file is called.",
    )


@pytest.mark.parametrize(
    ("inside", "called"),
    [
        ("<robndbox><cx>9</cx></robndbox>", "a rotated box in <robndbox>, as roLabelImg writes it"),
        (
            "<polygon><pt><x>1</x></pt></polygon>",
            "an outline in <polygon>, as LabelMe's website and CVAT's LabelMe 3.0 write it",
        ),
    ],
)
def test_what_is_no_upright_box_is_refused_by_its_name(tmp_path, inside, called):
    write(tmp_path / "a.jpg", make_image(seed=0))
    write(tmp_path / "b.jpg", make_image(seed=1))
    write(tmp_path / "a.xml", xml(("dog", 3, 4, 12, 14)))
    write(tmp_path / "b.xml", f"<annotation><object><name>ship</name>{inside}</object></annotation>")

    assert words(tmp_path) == [
        f"{tmp_path}/b.xml: expected upright boxes in <bndbox>, found ship: {called}. "
        "Write the upright box around it, or leave the image out with --skip-bad."
    ]


def test_a_box_that_begins_at_0_is_noted(tmp_path):
    for number, name in enumerate("ab"):
        write(tmp_path / f"{name}.jpg", make_image(seed=number))
        write(tmp_path / f"{name}.xml", xml(("dog", number, 4, 12, 14)))
    (note,) = inspect(tmp_path).problems
    assert (note.fatal, note.message) == (
        False,
        "a.jpg: a box begins at 0, so that edges may be counted from 0. They are taken as Pascal VOC counts them, from 1: "
        "then all boxes lie a pixel too far left and up.",
    )


@pytest.mark.parametrize(
    ("images", "texts"),
    [
        ("images/{n}.png", "annotations/b{half}/{n}.xml"),
        ("images/b{half}/{n}.png", "annotations/b{half}/{n}.xml"),
        ("images/b{half}/{part}.png", "annotations/b{half}/{part}.xml"),
        ("b{half}/{part}.png", "b{half}/{part}.xml"),
    ],
)
def test_xml_may_lie_further_below(tmp_path, images, texts):
    for n in range(4):
        name = {"n": n, "half": n // 2, "part": n % 2}
        write(tmp_path / "raw" / images.format(**name), make_image(seed=n))
        write(tmp_path / "raw" / texts.format(**name), xml(("dog", 3, 4, 12 + n, 14)))
    found = inspect(tmp_path / "raw")

    assert (found.layout.name, found.fatal) == ("Pascal VOC XML", [])
    assert [each.item.label[0].right for each in found.items] == [12, 13, 14, 15]


def test_equal_names_in_folders_of_their_own_are_told_apart(tmp_path):
    for place in ("day", "night"):
        for number in range(2):
            write(tmp_path / f"{place}/JPEGImages/{number}.jpg", make_image(seed=number + 10 * len(place)))
            write(tmp_path / f"{place}/Annotations/{number}.xml", xml((f"{place}car", 2, 3, 12, 20)))
    found = inspect(tmp_path)
    assert found.fatal == []
    assert {each.item.name: found.labels.classes[each.item.label[0].label] for each in found.items} == {
        f"{place}/JPEGImages/{number}": f"{place}car" for place in ("day", "night") for number in range(2)
    }

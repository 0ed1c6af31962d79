from __future__ import annotations

import pytest
from support import miniatures
from support.commands import call
from support.layouts import words

from penstock.datasets import FolderDataset, LayoutOptions, inspect
from penstock.errors import DatasetError


def test_a_layout_of_ones_own_may_have_dataclasses(tmp_path):
    miniatures.folders(tmp_path / "raw")
    (tmp_path / "own.py").write_text(
        "from __future__ import annotations\nfrom dataclasses import dataclass\n"
        "from penstock.datasets.layouts import folders\n@dataclass\nclass Thing:\n    x: int\n"
        "def recognise(folder):\n    return folders.recognise(folder)\n"
    )

    assert words(tmp_path / "raw", LayoutOptions(f"{tmp_path / 'own.py'}:recognise")) == []


def test_items_without_a_label_are_named(tmp_path):
    miniatures.write(tmp_path / "raw" / "a.png", miniatures.make_image())
    (tmp_path / "own.py").write_text(
        "from penstock import Item, Labels, Layout\n"
        "def recognise(folder):\n"
        "    return Layout('classification', 'own', (), (Item('train', 'a', folder / 'a.png'),), Labels(('x', 'y')))\n"
    )

    assert words(tmp_path / "raw", LayoutOptions(f"{tmp_path / 'own.py'}:recognise")) == [
        "a.png: expected a label, a mask or boxes, found None for a label. Give it a class id, or leave it out."
    ]


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ("segmentation", "a.png: expected a mask, found none, but the layout is for segmentation."),
        (
            "detection",
            "a.png: expected boxes, perhaps an empty tuple of them, found none, but the layout is for detection.",
        ),
    ],
)
def test_items_without_a_mask_or_boxes_are_named(tmp_path, task, message):
    miniatures.write(tmp_path / "raw" / "a.png", miniatures.make_image())
    (tmp_path / "own.py").write_text(
        "from penstock import Item, Labels, Layout\n"
        "def recognise(folder):\n"
        f"    return Layout('{task}', 'own', (), (Item('train', 'a', folder / 'a.png', label=1),), Labels(('x', 'y')))\n"
    )

    assert words(tmp_path / "raw", LayoutOptions(f"{tmp_path / 'own.py'}:recognise")) == [
        f"{message} Give it some, or leave it out."
    ]


def test_a_label_that_is_a_word_in_a_layout_of_ones_own_is_named(tmp_path):
    from penstock.datasets.checks import check_item, check_together
    from penstock.datasets.layout import Layout
    from penstock.kinds.items import Item, Labels

    for name in "ab":
        miniatures.write(tmp_path / f"{name}.jpg", miniatures.make_image(seed=ord(name)))
    labels = Labels(("cat", "dog"))
    items = (Item("train", "a", tmp_path / "a.jpg", label="cat"), Item("train", "b", tmp_path / "b.jpg", label=0))
    layout = Layout("classification", "own", ("because",), items, labels)
    items = [check_item(tmp_path, item, labels, layout.kind) for item in items]

    assert [problem.message for each in items for problem in each.problems] == [
        "a.jpg: expected a label, a mask or boxes, found 'cat' for a label. Give it a class id, or leave it out."
    ]
    assert [problem for problem in check_together(layout, items, labels, tmp_path, stated=True) if problem.fatal] == []


OWN = '''
"""Images whose class is the first letter of their name."""

from penstock import Item, Labels, Layout


def recognise(folder):
    images = sorted(folder.glob("*.jpg"))
    classes = tuple(sorted({path.name[0] for path in images}))
    items = [Item("train", path.stem, path, label=classes.index(path.name[0])) for path in images]
    return Layout("classification", "first letters", ("I say so",), tuple(items), Labels(classes))
'''


def test_a_layout_of_ones_own_is_a_file(tmp_path, capsys):
    for number, name in enumerate(("ada.jpg", "anna.jpg", "bob.jpg")):
        miniatures.write(tmp_path / "raw" / name, miniatures.make_image(seed=number))
    (tmp_path / "letters.py").write_text(OWN)
    code, out, _ = call(
        "pack",
        tmp_path / "raw",
        "-o",
        tmp_path / "data",
        "--layout",
        f"{tmp_path / 'letters.py'}:recognise",
        capsys=capsys,
    )

    assert (code, len(OWN.splitlines()) < 40) == (0, True)
    assert FolderDataset.open(tmp_path / "data").description.classes == ("a", "b")
    assert "train: 3 records in 1 shard" in out


def test_an_unknown_layout_is_refused(tmp_path):
    with pytest.raises(DatasetError) as caught:
        inspect(tmp_path, how=LayoutOptions("vok"))

    assert str(caught.value) == (
        "--layout vok: expected FILE.py:NAME, or one of voc, voc-boxes, cifar10, cifar100, mnist, cityscapes, ade20k, "
        "camvid, oxford-pets, penn-fudan, labelimg, coco, coco-classes, coco-masks, coco-instances, cvat, supervisely, "
        "label-studio, createml, via, fiftyone, hugging-face, open-images, labelme, nifti, nifti-volumes, yolo, "
        "run-lengths, run-lengths-instances, csv, mattes, numbered-masks, masks, named-masks, tfrecords, folders, "
        "cifar100-coarse, found vok. Choose one of them, or leave it out."
    )

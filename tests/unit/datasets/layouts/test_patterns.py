from __future__ import annotations

import pytest
from support import miniatures
from support.commands import call
from support.layouts import names_of, pack_skipping, words

from penstock.datasets import LayoutOptions, inspect
from penstock.kinds.fields import decode_classification


def test_labels_in_names(tmp_path, capsys):
    for number, name in enumerate(("cat_1.jpg", "cat_2.jpg", "dog_1.jpg", "odd.jpg")):
        miniatures.write(tmp_path / name, miniatures.make_image(seed=number))
    code, out, _ = call("inspect", tmp_path, "--pattern", r"(?P<label>[a-z]+)_\d", capsys=capsys)

    assert code == 1
    assert "classes (2): cat, dog" in out
    assert (
        r"odd.jpg: expected a name that fits (?P<label>[a-z]+)_\d, found another. Rename it, or leave it out with "
        "--skip-bad."
    ) in out


def test_a_pattern_without_a_label_is_refused(tmp_path, capsys):
    assert call("inspect", tmp_path, "--pattern", r"([a-z]+)_\d", capsys=capsys) == (
        2,
        "",
        "error: --pattern: expected a regular expression with a group named label, such as (?P<label>[a-z]+)_, found "
        r"([a-z]+)_\d. Name the group. A group named split is optional." + "\n",
    )


@pytest.mark.parametrize("name", ["latest", "retrieval", "interval"])
def test_a_splits_name_is_a_word(tmp_path, name):
    miniatures.coco(tmp_path)
    (tmp_path / "annotations/instances_val2017.json").unlink()
    (tmp_path / "annotations/instances_train2017.json").rename(tmp_path / f"annotations/{name}.json")
    (tmp_path / "train2017").rename(tmp_path / "images")

    assert list(inspect(tmp_path, how=LayoutOptions(task="detection")).splits) == ["train"]


def test_names_that_fit_no_pattern(tmp_path, capsys):
    for number, name in enumerate(("cat_1", "dog_1", "7")):
        miniatures.write(tmp_path / f"raw/{name}.jpg", miniatures.make_image(seed=number))
    pack_skipping(tmp_path, capsys, "--pattern", "(?P<label>[a-z]+)_")

    assert names_of(tmp_path, decode_classification) == ["cat_1", "dog_1"]


def test_a_pattern_says_all(tmp_path):
    miniatures.folders(tmp_path)

    assert words(tmp_path, LayoutOptions("voc", pattern="(?P<label>[a-z]+)")) == [
        "--pattern: expected no --layout and no other --task, as the pattern determines both, found voc. Remove one of the two options."
    ]
    assert words(tmp_path, LayoutOptions(pattern="(?P<label>q)?"))[0].startswith(
        f"{tmp_path}: the layout is labels in names"
    )


def test_without_a_group_for_splits_the_folders_divide_the_images(tmp_path):
    """And names are compared in composed Unicode."""
    for number, name in enumerate(("train/a/café", "valid/b/cafe\u0301", "valid/dog", "loose/dog")):
        miniatures.write(tmp_path / name / "0.jpg", miniatures.make_image(seed=number))
    pattern = "(?P<label>[^/]+)/[^/]+$"
    found = inspect(tmp_path, how=LayoutOptions(pattern=pattern))
    assert found.labels.classes == ("café", "dog")
    assert [(each.item.split, each.item.label, each.item.image.parent.name) for each in found.items] == [
        ("train", 1, "dog"), ("train", 0, "café"), ("val", 0, "cafe\u0301"), ("val", 1, "dog"),
    ]  # fmt: skip
    assert found.layout.reasons == (f"2 classes in the names of files, by {pattern}", "splits: train, val")


def test_with_such_a_group_the_pattern_alone_does(tmp_path):
    for number, name in enumerate(("train/val_cat_0", "val/train_cat_1")):
        miniatures.write(tmp_path / f"{name}.jpg", miniatures.make_image(seed=number))
    found = inspect(tmp_path, how=LayoutOptions(pattern="(?P<split>train|val)_(?P<label>[a-z]+)_"))
    assert [(each.item.split, each.item.image.name) for each in found.items] == [
        ("val", "val_cat_0.jpg"), ("train", "train_cat_1.jpg"),
    ]  # fmt: skip

from __future__ import annotations

import json

import numpy as np
import pytest
from support import miniatures
from support.datasets import records
from support.layouts import names_of, pack_miniature, pack_skipping, words

from penstock.datasets import LayoutOptions, inspect, pack
from penstock.images import decode_mask
from penstock.kinds import Labels
from penstock.kinds.fields import decode_detection, decode_segmentation


def test_voc_masks_are_indices_of_their_palette(tmp_path):
    dataset = pack_miniature("voc", tmp_path)
    found = {r.name: r for r in map(decode_segmentation, records(dataset, "train"))}
    raw = np.random.default_rng(1).choice([0, 8, 12, 255], (24, 32)).astype(np.uint8)

    assert (decode_mask(found["2007_000002"].mask, "m") == raw).all()
    assert dataset.description.classes[8] == "cat"


def test_the_augmented_training_split_does_not_leak_into_val(tmp_path):
    miniatures.voc_(tmp_path, augmented=True)
    found = inspect(tmp_path)

    assert [each.item.name for each in found.splits["train"]] == ["2007_000001", "2007_000002", "2008_000009"]
    assert found.layout.reasons[1] == "train is train_aug.txt: 3 images, 1 of val left out"


def test_voc_boxes_are_counted_from_one(tmp_path):
    dataset = pack_miniature("voc", tmp_path, LayoutOptions(task="detection"))
    record = next(r for r in map(decode_detection, records(dataset, "train")) if r.name == "2007_000001")
    cat, dog = record.objects

    assert dataset.description.splits["train"].objects == 2
    assert (cat.text, dog.text, cat.difficult, dog.difficult) == ("cat", "dog", False, True)
    assert [cat.left, cat.top, cat.right, cat.bottom] == pytest.approx([2, 4, 12, 20], abs=1e-5)
    assert [dog.left, dog.top, dog.right, dog.bottom] == pytest.approx([0, 0, 32, 24], abs=1e-5)


@pytest.mark.parametrize(
    ("box", "message"),
    [
        (
            [8, 4, -3, 12],
            "train2017/000000000000.jpg: expected box 1 from its left top to its right bottom corner, found 8, 4 to 5, 16 "
            "(x, y). Fix it; in a CSV, columns of a corner and a size must be named x, y, width, height, or bbox_xywh.",
        ),
        (
            [8, 4, 40, 12],
            "train2017/000000000000.jpg: expected box 1 inside the image of 24 x 32 (height x width), found 8, 4 to "
            "48, 16 (x, y). Fix it, cut boxes at the edges with --clip-boxes, or leave the image out with --skip-bad.",
        ),
    ],
)
def test_boxes_that_are_wrong_are_named(tmp_path, box, message):
    miniatures.coco(tmp_path)
    path = tmp_path / "annotations/instances_train2017.json"
    tree = json.loads(path.read_text())
    tree["annotations"][0]["bbox"] = box
    path.write_text(json.dumps(tree))

    assert message in [problem.message for problem in inspect(tmp_path).fatal]


def test_a_box_may_lie_a_pixel_outside(tmp_path):
    miniatures.csv_boxes(tmp_path / "raw", box="-1,-0.5,32.5,25")
    dataset = pack(inspect(tmp_path / "raw"), tmp_path / "data")
    (record,) = map(decode_detection, records(dataset, "train"))
    (box,) = record.objects

    assert (box.left, box.top, box.right, box.bottom) == (0, 0, 32, 24)


@pytest.mark.parametrize(
    ("val", "said"),
    [
        (True, "expected the 10,582 images of the published list, found 3."),
        (False, "expected val.txt beside it, whose images are left out of it, found none."),
    ],
)
def test_another_list_than_the_published_train_aug_is_noted(tmp_path, val, said):
    miniatures.voc_(tmp_path, augmented=True)
    if not val:
        (tmp_path / "ImageSets/Segmentation/val.txt").unlink()
    notes = [problem.message for problem in inspect(tmp_path).problems if not problem.fatal]

    assert f"ImageSets/Segmentation/train_aug.txt: {said}" in notes


def test_the_published_train_aug_has_10_582_images_without_those_of_val(tmp_path):
    """The lists alone: of 12,031 names, 1,449 are val's, as DeepLab's README counts them."""
    names = [f"2008_{number:06d}" for number in range(12_031)]
    miniatures.voc_(tmp_path, augmented=True)
    lists = tmp_path / "ImageSets/Segmentation"
    (lists / "train_aug.txt").write_text("\n".join(names) + "\n")
    (lists / "val.txt").write_text("\n".join(names[:1449]) + "\n")
    for name in names:
        (tmp_path / f"JPEGImages/{name}.jpg").touch()
        (tmp_path / f"SegmentationClassAug/{name}.png").touch()
    from penstock.datasets.layouts import voc

    layout = voc.recognise_masks(tmp_path)
    train = {item.name for item in layout.items if item.split == "train"}

    assert (len(train), train & set(names[:1449])) == (10_582, set())
    assert layout.reasons[1] == "train is train_aug.txt: 10,582 images, 1,449 of val left out"
    assert "another train_aug" not in {problem.kind for problem in layout.problems}


def test_xml_of_voc(tmp_path, capsys):
    raw = tmp_path / "raw"
    miniatures.voc_(raw)
    miniatures.write(raw / "Annotations/2007_000001.xml", miniatures.voc_xml("a", [("cat", "x", 5, 12, 20)]))

    assert [problem.file for problem in inspect(raw, how=LayoutOptions("voc-boxes")).fatal] == [
        "JPEGImages/2007_000001.jpg"
    ]
    (raw / "Annotations/2007_000003.xml").write_text("<annotation")
    out = pack_skipping(tmp_path, capsys, "--layout", "voc-boxes")
    assert "skipped: Annotations/2007_000003.xml (damaged XML)\n" in out
    assert "skipped 1 of 3 images, and 1 other entry\n" in out
    assert names_of(tmp_path, decode_detection) == ["2007_000002"]


def test_images_of_voc_without_a_mask(tmp_path, capsys):
    raw = tmp_path / "raw"
    miniatures.voc_(raw)
    (raw / "SegmentationClass/2007_000002.png").unlink()

    assert words(raw) == [
        "SegmentationClass/2007_000002.png: expected it, as the list of train names it, found nothing. Add it, or fix the "
        "list."
    ]
    assert "skipped 0 of 2 images, and 1 other entry\n" in pack_skipping(tmp_path, capsys)
    assert names_of(tmp_path, decode_segmentation) == ["2007_000001"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("<svg><g/></svg>", "<svg> with g"),
        ("<annotation><annotation/></annotation>", "<annotation> with annotation"),
        ("<annotation><image/><label/></annotation>", "<annotation> with image, label"),
    ],
)
@pytest.mark.parametrize("beside", [False, True])
def test_xml_of_another_sort_is_no_image_without_objects(tmp_path, beside, text, found):
    for number in range(2):
        folders = ("x", "x") if beside else ("JPEGImages", "Annotations")
        miniatures.write(tmp_path / folders[0] / f"{number}.jpg", miniatures.make_image())
        good = miniatures.voc_xml(str(number), [("cat", 2, 5, 12, 20)])
        miniatures.write(tmp_path / folders[1] / f"{number}.xml", text if number else good)
    path = tmp_path / folders[1] / "1.xml"
    message = (
        f"{path}: expected an annotation of Pascal VOC, with one of filename, folder, object, path, segmented, size, source, "
        f"found {found}. Fix or remove the file."
    )
    assert message in words(tmp_path / "x" if beside else tmp_path, LayoutOptions(task="detection"))


@pytest.mark.parametrize("head", ['<?xml version="1.0" encoding="GBK"?>', '<?xml version="1.0" encoding="foo"?>'])
def test_xml_that_cannot_be_read_is_named(tmp_path, head):
    miniatures.voc_(tmp_path)
    path = tmp_path / "Annotations/2007_000001.xml"
    path.write_text(head + path.read_text())

    assert words(tmp_path, LayoutOptions(task="detection"))[0].startswith(f"{path}: expected XML, found ")


def sized(root, width, height, box=(5, 5, 30, 20)):
    """An image of 32 x 24 whose XML states another size."""
    miniatures.write(root / "images/a.jpg", miniatures.make_image())
    edges = "".join(f"<{n}>{v}</{n}>" for n, v in zip(("xmin", "ymin", "xmax", "ymax"), box, strict=True))
    size = f"<size><width>{width}</width><height>{height}</height></size>"
    text = f"<annotation>{size}<object><name>cat</name><bndbox>{edges}</bndbox></object></annotation>"
    miniatures.write(root / "annotations/a.xml", text)


class TestStatedSize:
    SAID = (
        "images/a.jpg: expected an image of {} (height x width), which its annotations were made for, found 24 x 32, as "
        "viewers show it (EXIF orientation counts). {}"
    )

    def test_off_by_one_with_all_boxes_inside_it_may_be_trusted(self, tmp_path):
        sized(tmp_path, 33, 24)
        fix = "All objects lie inside it. If it is the image that was annotated, use --trust-image-size."
        assert words(tmp_path) == [self.SAID.format("24 x 33", fix)]
        found = inspect(tmp_path, Labels(trust_size=True))
        assert (found.fatal, len(found.items[0].item.label)) == ([], 1)

    def test_of_a_larger_original_is_said(self, tmp_path):
        sized(tmp_path, 96, 72)
        fix = "The annotations are of an image 3 times as large. Use that image."
        assert words(tmp_path) == [self.SAID.format("72 x 96", fix)]

    def test_with_a_box_outside_it_is_another_image(self, tmp_path):
        sized(tmp_path, 50, 24, (5, 5, 45, 20))
        assert words(tmp_path)[0] == self.SAID.format("24 x 50", "Use the image that was annotated.")


@pytest.mark.parametrize("task", ["segmentation", "detection"])
def test_trainval_is_train_where_there_is_no_other_list_as_voc_2007_has_it(tmp_path, task):
    miniatures.voc_(tmp_path)
    for lists in (tmp_path / "ImageSets").iterdir():
        names = [(lists / f"{split}.txt").read_text() for split in ("train", "val")]
        (lists / "trainval.txt").write_text("".join(names))
        for split in ("train", "val"):
            (lists / f"{split}.txt").unlink()
    found = inspect(tmp_path, how=LayoutOptions(task=task))
    assert [each.item.name for each in found.splits["train"]] == ["2007_000001", "2007_000002", "2007_000003"]


@pytest.mark.parametrize(("task", "kind"), [("segmentation", "Segmentation"), ("detection", "Main")])
def test_images_with_labels_in_no_list_are_noted(tmp_path, task, kind):
    miniatures.voc_(tmp_path)
    lists = tmp_path / "ImageSets" / kind
    names = (lists / "train.txt").read_text().split()
    (lists / "train.txt").write_text(names[0])
    found = inspect(tmp_path, how=LayoutOptions(task=task))
    said = [problem.message for problem in found.problems if problem.kind == "image in no list"]
    assert said == [
        f"JPEGImages/{name}.jpg: no list of train, val or test names it. It is left out." for name in names[1:]
    ]
    assert said

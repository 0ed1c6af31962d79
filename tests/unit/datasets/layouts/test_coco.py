from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from faster_coco_eval import mask as run_lengths
from PIL import Image
from support import miniatures
from support.commands import call
from support.datasets import records
from support.layouts import boxes, changed_coco, notes, pack_miniature, pack_skipping, words

from penstock.datasets import LayoutOptions, inspect, pack
from penstock.datasets.layouts import coco, coco_runs
from penstock.images import decode_mask
from penstock.kinds.fields import decode_detection, decode_segmentation


def test_coco_boxes_and_crowds(tmp_path):
    miniatures.coco(tmp_path / "raw")
    found = inspect(tmp_path / "raw")
    dataset = pack(found, tmp_path / "data")
    by_name = {r.name: r for r in map(decode_detection, records(dataset, "train"))}
    date, fig = by_name["000000000000"].objects

    assert dataset.description.classes == ("fig", "date")
    assert (date.label, fig.label) == (1, 0)
    assert [date.left, date.top, date.right, date.bottom] == pytest.approx([8, 4, 18, 16], abs=1e-5)
    assert [each.crowd for each in by_name["000000000001"].objects] == [True]
    assert by_name["000000000002"].objects == ()
    assert [problem.message for problem in found.problems][:1] == [
        "train2017/000000000001.jpg: box 1 is a crowd: it is not learnt, and predictions in it do not count as wrong."
    ]


@pytest.mark.parametrize("task", ["detection", "segmentation", "instances"])
def test_images_that_no_annotation_names_are_noted(tmp_path, task):
    miniatures.coco(tmp_path)
    miniatures.write(tmp_path / "train2017/more.jpg", miniatures.make_image(seed=77))
    miniatures.write(tmp_path / "thumbnails/000000000000.jpg", miniatures.make_image(seed=78))
    found = [problem for problem in inspect(tmp_path, how=LayoutOptions(task=task)).problems if not problem.fatal]

    assert [problem.message for problem in found if problem.kind == "image without annotations"] == [
        "train2017/more.jpg: no annotation names it: it is left out."
    ]


def test_coco_shapes_become_masks_with_small_things_on_top(tmp_path):
    dataset = pack_miniature("coco", tmp_path, LayoutOptions(task="segmentation"))
    found = {r.name: decode_mask(r.mask, "m") for r in map(decode_segmentation, records(dataset, "train"))}
    first = np.zeros((24, 32), np.uint8)
    first[4:16, 8:18] = 2
    first[6:10, 10:14] = 1
    crowd = np.zeros((24, 32), np.uint8)
    crowd[:, :4] = 1  # area of its class

    assert dataset.description.classes == ("background", "fig", "date")
    assert (found["000000000000"] == first).all()
    assert (found["000000000001"] == crowd).all()
    assert not found["000000000002"].any()


def test_coco_objects_without_an_area_are_measured(tmp_path):
    found = []
    for number, order in enumerate((1, -1)):
        tree = miniatures.coco_tree()
        tree["annotations"] = tree["annotations"][:2][::order]
        for each in tree["annotations"]:
            each.pop("area")
        for each in tree["images"]:
            miniatures.write(tmp_path / str(number) / each["file_name"], miniatures.make_image(seed=each["id"]))
        miniatures.write(tmp_path / str(number) / "train.json", json.dumps(tree))
        dataset = pack(
            inspect(tmp_path / str(number), how=LayoutOptions(task="segmentation")), tmp_path / f"data{number}"
        )
        found.append({r.name: decode_mask(r.mask, "m") for r in map(decode_segmentation, records(dataset, "train"))})

    for masks in found:
        assert (masks["000000000000"][6:10, 10:14] == 1).all()
        assert (masks["000000000000"] == 2).sum() == 120 - 16


def test_coco_run_lengths_may_be_packed_into_text(tmp_path):
    found = []
    for number in range(2):
        tree = miniatures.coco_tree()
        if number:
            runs = tree["annotations"][2]["segmentation"]
            runs["counts"] = run_lengths.frPyObjects(dict(runs), *runs["size"])["counts"].decode()
        for each in tree["images"]:
            miniatures.write(tmp_path / str(number) / each["file_name"], miniatures.make_image(seed=each["id"]))
        miniatures.write(tmp_path / str(number) / "train.json", json.dumps(tree))
        dataset = pack(
            inspect(tmp_path / str(number), how=LayoutOptions(task="segmentation")), tmp_path / f"data{number}"
        )
        found.append(sorted(r.mask for r in map(decode_segmentation, records(dataset, "train"))))

    assert found[0] == found[1]


def test_coco_run_lengths_of_another_size_are_named(tmp_path):
    tree = miniatures.coco_tree()
    tree["annotations"][2]["segmentation"]["counts"] = [0, 24 * 4, 1]
    for each in tree["images"]:
        miniatures.write(tmp_path / each["file_name"], miniatures.make_image(seed=each["id"]))
    miniatures.write(tmp_path / "train.json", json.dumps(tree))
    found = inspect(tmp_path, how=LayoutOptions(task="segmentation"))

    assert [problem.message for problem in found.fatal] == [
        f"{tmp_path / 'train.json'}, image 8 (annotation 3): expected outlines of at least three points, or run lengths of an "
        "image of 24 x 32, found run lengths of 24 x 32 that sum to 97, the smallest 0. Fix the file."
    ]


@pytest.mark.parametrize("inside", [True, False])
def test_images_may_be_named_by_their_whole_path(tmp_path, monkeypatch, inside):
    place = tmp_path / ("raw" if inside else "elsewhere")
    for number in range(2):
        miniatures.write(place / f"{number}.png", miniatures.make_image(seed=number))
    rows = [f"{place / f'{number}.png'},{'ab'[number]}" for number in range(2)]
    miniatures.write(tmp_path / "raw" / "labels.csv", "\n".join(["file,label", *rows]) + "\n")
    monkeypatch.chdir(tmp_path)
    dataset = pack(inspect(Path("raw")), tmp_path / "data")

    assert dataset.description.splits["train"].per_class == (1, 1)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # pycocotools and numpy 2
def test_coco_masks_are_those_of_pycocotools(real_data):
    coco = pytest.importorskip("pycocotools.coco")
    source = real_data("fruits_nuts_coco")
    truth = coco.COCO(str(source / "trainval.json"))
    found = inspect(source, how=LayoutOptions(task="segmentation"))

    assert len(found.items) == 18
    for each in found.items:
        ids = decode_mask(each.item.label.read_bytes(), "m")
        (number,) = (i for i, image in truth.imgs.items() if image["file_name"] == f"{each.item.name}.jpg")
        expected = np.zeros(ids.shape, np.uint8)
        for annotation in sorted(truth.imgToAnns[number], key=lambda each: -each["area"]):
            expected[truth.annToMask(annotation) > 0] = annotation["category_id"]
        assert (ids == expected).all()


def test_a_coco_image_that_is_missing_is_named(tmp_path):
    miniatures.coco(tmp_path)
    (tmp_path / "val2017/000000000001.jpg").unlink()

    assert [problem.message for problem in inspect(tmp_path).fatal] == [
        "annotations/instances_val2017.json: expected the image 000000000001.jpg that it names, found only "
        "train2017/000000000001.jpg. Add it, or remove its entry."
    ]


def test_cocos_files_may_lie_beside_their_images(tmp_path):
    for place, split in enumerate(("train", "valid")):
        tree = miniatures.coco_tree()
        for number, image in enumerate(tree["images"]):
            miniatures.write(tmp_path / split / image["file_name"], miniatures.make_image(seed=number + 10 * place))
        miniatures.write(tmp_path / split / "_annotations.coco.json", json.dumps(tree))
    found = inspect(tmp_path)

    assert (found.layout.name, found.fatal) == ("COCO", [])
    assert {split: len(items) for split, items in found.splits.items()} == {"train": 3, "val": 3}


def test_of_coco_with_corners(tmp_path, capsys):
    miniatures.coco(tmp_path)
    for path in (tmp_path / "annotations").glob("instances_*.json"):
        tree = json.loads(path.read_bytes())
        for each in tree["annotations"]:
            x, y, width, height = each["bbox"]
            each["bbox"] = [x, y, x + width, y + height]
        path.write_text(json.dumps(tree))
    found = inspect(tmp_path, how=LayoutOptions(task="detection", boxes="xyxy"))
    date = found.splits["train"][0].item.label[0]

    assert not found.fatal
    assert (date.left, date.top, date.right, date.bottom) == (8, 4, 18, 16)
    code, out, _ = call("pack", tmp_path, "--task", "detection", "--boxes", "xyxy", "-o", tmp_path / "d", capsys=capsys)
    assert (code, "--boxes says so" in out) == (0, True)


def test_boxes_that_leave_their_images_may_be_meant_otherwise(tmp_path):
    for number in range(2):
        miniatures.write(tmp_path / f"images/{number}.jpg", miniatures.make_image(seed=number))
    tree = {
        "images": [{"id": n, "file_name": f"{n}.jpg", "height": 24, "width": 32} for n in range(2)],
        "categories": [{"id": 1, "name": "cat"}],
        "annotations": [{"id": n, "image_id": n, "category_id": 1, "bbox": [10, 8, 30, 20]} for n in range(2)],
    }
    miniatures.write(tmp_path / "annotations.json", json.dumps(tree))

    assert [each.message for each in inspect(tmp_path).problems if not each.fatal] == [
        f"{tmp_path}: boxes are read as a corner and a size, and some of 2 images reach outside. If they are corners, use "
        "--boxes xyxy."
    ]
    assert [each for each in inspect(tmp_path, how=LayoutOptions(boxes="xyxy")).problems if "box" in each.kind] == []


def test_of_what_names_its_edges_are_as_they_are(tmp_path, capsys):
    miniatures.voc_(tmp_path)
    assert call("inspect", tmp_path, "--task", "detection", "--boxes", "xywh", capsys=capsys)[2] == (
        "error: --boxes: expected boxes of four numbers without names: a CSV's column bbox, or COCO's JSON, found "
        "Pascal VOC boxes. Remove --boxes.\n"
    )


@pytest.mark.parametrize("layout", ["coco", "coco-masks"])
def test_annotations_of_no_category(tmp_path, layout):
    changed_coco(tmp_path, lambda tree: tree["annotations"][0].update(category_id=5))
    message = words(tmp_path, LayoutOptions(layout))[0]
    place = tmp_path / "annotations/instances_train2017.json"

    assert message == (
        f"{place}{', image 7' if layout == 'coco-masks' else ''} (annotation 1): expected the id of a category (3, 90), found "
        "category_id 5. Fix the file."
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda tree: tree["categories"][1].update(id=3),
            "{path}: expected every category once, found two of id 3. Give each an id of its own, and its annotations too.",
        ),
        (
            lambda tree: tree.update(categories=[{"id": n, "name": f"c{n}"} for n in range(256)]),
            "{root}: expected up to 254 categories, as masks hold bytes, found 256. Merge some, or pack it for detection.",
        ),
        (
            lambda tree: tree["images"][0].update(height=10**6, width=10**6),
            "{path}, image 7: expected an image with its height and width, of at most 268,435,456 pixels, found 1000000 x 1000000. "
            "Fix the file.",
        ),
    ],
)
def test_categories_and_sizes_that_cannot_be(tmp_path, change, message):
    miniatures.coco(tmp_path)
    (tmp_path / "annotations/instances_val2017.json").unlink()
    path = tmp_path / "annotations/instances_train2017.json"
    tree = json.loads(path.read_text())
    change(tree)
    path.write_text(json.dumps(tree))

    assert words(tmp_path, LayoutOptions("coco-masks"))[0] == message.format(path=path, root=tmp_path)


@pytest.mark.parametrize(
    ("counts", "found"),
    [
        ("garbage", "expected run lengths, found 'garbage'"),
        ("", "expected run lengths, found ''"),
        ("\u00e9", "expected run lengths, found '\u00e9'"),
        ("o" * 20 + "0", "expected run lengths, found a number of 21 letters"),
        ("1", "run lengths of an image of 24 x 32, found run lengths of 24 x 32 that sum to 1, the smallest 1"),
        ([2**62] * 4 + [768], "that sum to 18,446,744,073,709,552,384, the smallest 768"),  # in numbers of 64 bits
    ],
)
def test_damaged_run_lengths_are_named(tmp_path, counts, found):
    shape = {"size": [24, 32], "counts": counts}
    path = changed_coco(tmp_path, lambda tree: tree["annotations"][0].update(segmentation=shape))
    message = words(tmp_path, LayoutOptions("coco-masks"))[0]

    assert message.startswith(f"{path}, image 7 (annotation 1): expected ")
    assert message.endswith(f"{found}. Fix the file.")


def test_a_image_that_is_listed_twice_is_one(tmp_path):
    miniatures.voc_(tmp_path)
    path = tmp_path / "ImageSets/Segmentation/train.txt"
    path.write_text(path.read_text() * 2)

    assert len(inspect(tmp_path).splits["train"]) == 2


def test_cocos_json_may_lie_in_them(tmp_path):
    miniatures.coco(tmp_path)
    for split in ("train2017", "val2017"):
        (tmp_path / f"annotations/instances_{split}.json").rename(tmp_path / split / "_annotations.coco.json")
    found = inspect(tmp_path)

    assert (found.layout.name, list(found.splits), found.fatal) == ("COCO", ["train", "val"], [])


class TestObjects:
    def test_two_images_of_one_file_are_put_together(self, tmp_path):
        def twice(tree):
            tree["images"].append({**tree["images"][0], "id": 99})
            tree["annotations"].append(
                {**tree["annotations"][1], "id": 9, "image_id": 99, "bbox": [1, 2, 3, 4], "segmentation": []}
            )

        changed_coco(tmp_path / "raw", twice)
        found = inspect(tmp_path / "raw")
        pack(found, tmp_path / "data")

        assert (
            "annotations/instances_train2017.json: images 7 and 99 are both 000000000000.jpg: their annotations are put "
            "together."
        ) in [problem.message for problem in found.problems]
        assert len(boxes(tmp_path)["000000000000"]) == 3

    def test_a_box_that_is_said_twice_is_taken_once(self, tmp_path):
        def again(tree):
            tree["annotations"].append({**tree["annotations"][0], "id": 9})

        changed_coco(tmp_path / "raw", again)
        found = inspect(tmp_path / "raw")
        pack(found, tmp_path / "data")

        assert "train2017/000000000000.jpg: box 3 is box 1 again, of the same class: it is taken once." in [
            problem.message for problem in found.problems
        ]
        assert len(boxes(tmp_path)["000000000000"]) == 2

    def test_an_object_without_an_outline_is_told_of(self, tmp_path):
        changed_coco(tmp_path, lambda tree: tree["annotations"][1].update(segmentation=[]))

        note = "train2017/000000000000.jpg: annotation 2 has no outline: its object is background in the mask."
        assert note in notes(tmp_path, "coco-masks")


COCO = {
    "a category without a name": (
        lambda t: t["categories"][0].pop("name"),
        "expected COCO's JSON, found another structure (Object missing required field `name` - at `$.categories[0]`). Fix or remove it.",
    ),
    "a category's id as text": (
        lambda t: t["categories"][0].update(id="3"),
        "expected COCO's JSON, found another structure (Expected `int`, got `str` - at `$.categories[0].id`). Fix or remove it.",
    ),
    "no annotations": (
        lambda t: t.update(annotations=None),
        "expected COCO's JSON, found another structure (Expected `array`, got `null` - at `$.annotations`). Fix or remove it.",
    ),
    "an image without a file": (
        lambda t: t["images"][0].pop("file_name"),
        "expected COCO's JSON, found another structure (Object missing required field `file_name` - at `$.images[0]`). Fix or remove it.",
    ),
    "a box that is no number": (
        lambda t: t["annotations"][0].update(bbox=[float("nan"), 0, 1, 1]),
        "expected COCO's JSON, found another structure (JSON is malformed: invalid character (byte",
    ),
}


@pytest.mark.parametrize("case", COCO)
def test_cocos_json_is_checked_before_it_is_read(tmp_path, case):
    change, message = COCO[case]
    path = changed_coco(tmp_path, change)

    assert words(tmp_path)[0].startswith(f"{path}: {message}")


def test_annotations_of_another_structure_are_named_and_the_others_read(tmp_path, capsys):
    def change(tree):
        tree["annotations"][0].pop("image_id")
        tree["annotations"][1].update(bbox=[0, 1, 1])
        tree["annotations"].append("nothing")

    changed_coco(tmp_path / "raw", change)
    messages = [problem.message for problem in inspect(tmp_path / "raw").fatal]
    name = "annotations/instances_train2017.json"

    assert messages == [
        f"{name}: expected COCO's structure in annotation 1, found another (Object missing required field `image_id`). Fix "
        "it, or leave it out.",
        f"{name}: expected COCO's structure in annotation 4 of the list, found another (Expected `object`, got `str`). Fix "
        "it, or leave it out.",
        f"{name}: expected COCO's structure in annotation 2, found another (Expected `array` of length 4, got 3 - at "
        "`$.bbox`). Fix it, or leave it out.",
    ]
    out = pack_skipping(tmp_path, capsys)
    assert "skipped: train2017/000000000000.jpg (damaged annotation)" in out
    assert sorted(map(len, boxes(tmp_path).values())) == [0, 1]
    assert "000000000000" not in boxes(tmp_path)


def test_images_annotations_and_files_that_do_not_belong_together_are_named(tmp_path):
    def change(tree):
        tree["images"][1]["id"] = 7
        tree["annotations"][2]["image_id"] = 99

    changed_coco(tmp_path, change)
    miniatures.write(tmp_path / "annotations/more_train.json", json.dumps(miniatures.coco_tree()))
    problems = {problem.kind: problem.message for problem in inspect(tmp_path).problems}

    assert problems["two images of one id"] == (
        "annotations/instances_train2017.json: expected every image id once, found 7 twice (000000000001.jpg). Give it one "
        "of its own."
    )
    assert problems["annotation without an image"] == (
        "annotations/instances_train2017.json: expected image 99 of annotation 3, found none of that id. It is left out."
    )
    assert problems["two files of one split"] == (
        "annotations/more_train.json: expected one file for train, found instances_train2017.json too, which is read. Join "
        "them, with ids of their own for images, or rename this one by its split (train, val, test)."
    )


@pytest.mark.parametrize("shape", [[[1, 2, 3]], [[0, 0, 1e9, 0, 1e9, 1e9]], {"size": [9, 9], "counts": [81]}])
def test_outlines_that_are_none_are_named(tmp_path, shape):
    path = changed_coco(tmp_path, lambda tree: tree["annotations"][0].update(segmentation=shape))
    message = words(tmp_path, LayoutOptions(task="segmentation"))[0]

    assert message.startswith(
        f"{path}, image 7 (annotation 1): expected outlines of at least three points, or run lengths of an image of 24 x 32, found "
    )


def test_masks_need_no_boxes(tmp_path):
    changed_coco(tmp_path, lambda tree: [each.pop("bbox") for each in tree["annotations"]])

    assert words(tmp_path, LayoutOptions("coco-masks")) == []
    assert coco.recognise_masks(tmp_path).task == "segmentation"


@pytest.mark.parametrize("layout", ["coco", "voc"])
def test_boxes_of_a_image_that_is_turned_or_of_another_size_are_named(tmp_path, layout):
    miniatures.MINIATURES[layout](tmp_path)
    name = {"coco": "train2017/000000000000.jpg", "voc": "JPEGImages/2007_000001.jpg"}[layout]
    image = Image.open(tmp_path / name)
    exif = image.getexif()
    exif[0x0112] = 6
    image.save(tmp_path / name, exif=exif)
    found = words(tmp_path, LayoutOptions(task="detection"))

    assert found[0] == (
        f"{name}: expected an image of 24 x 32 (height x width), which its annotations were made for, found 32 x 24, as viewers show "
        "it (EXIF orientation counts). If they were drawn on the image as it is stored, remove the orientation from the file, "
        "for example with exiftool -Orientation= FILE. If only height and width were exchanged, use --trust-image-size."
    )
    del exif[0x0112]
    image.save(tmp_path / name, exif=exif)
    assert words(tmp_path, LayoutOptions(task="detection")) == []


@pytest.mark.parametrize(
    ("layout", "file", "text"),
    [
        ("voc", "Annotations/2007_000001.xml", miniatures.voc_xml("a", [("cat", "nan", 5, 12, 20)])),
    ],
)
def test_boxes_that_are_no_numbers_are_named(tmp_path, layout, file, text):
    miniatures.MINIATURES[layout](tmp_path)
    (tmp_path / file).write_text(text)

    assert words(tmp_path, LayoutOptions(task="detection"))[0].endswith(
        "expected four numbers for box 1, found one that is none (NaN or infinite). Fix it."
    )


def test_json_that_is_not_cocos_is_no_matter(tmp_path):
    """Settings of an editor, and COCO's panoptic annotations, whose segments lie in images of their own."""
    miniatures.coco(tmp_path / "coco")
    tree = miniatures.coco_tree()
    segments = [{"image_id": 7, "file_name": "a.png", "segments_info": []}]
    panoptic = json.dumps({**tree, "annotations": segments})
    miniatures.write(tmp_path / "coco/annotations/panoptic_val2017.json", panoptic)
    miniatures.write(tmp_path / "coco/settings.json", "{ // no JSON\n}")
    miniatures.folders(tmp_path / "folders")
    miniatures.write(tmp_path / "folders/settings.json", "{ // no JSON\n}")

    assert (words(tmp_path / "coco"), words(tmp_path / "folders")) == ([], [])
    assert inspect(tmp_path / "coco").layout.name == "COCO"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # pycocotools and numpy 2
def test_decoded_boxes_are_those_of_pycocotools(tmp_path):
    """Through packing and back: in pixels, with class and crowd, image by image."""
    coco = pytest.importorskip("pycocotools.coco")
    miniatures.coco(tmp_path / "raw")
    rng = np.random.default_rng(0)
    path = tmp_path / "raw/annotations/instances_train2017.json"
    tree = json.loads(path.read_bytes())
    for number in range(40):
        image = tree["images"][int(rng.integers(len(tree["images"])))]
        x, y = rng.uniform(0, 0.6, 2) * (image["width"], image["height"])
        width, height = rng.uniform(0.1, 0.4, 2) * (image["width"], image["height"])
        tree["annotations"].append(
            {"id": 1000 + number, "image_id": image["id"], "category_id": tree["categories"][number % 2]["id"],
             "bbox": [x, y, width, height], "area": width * height, "iscrowd": int(number % 5 == 0),
             "segmentation": [[x, y, x + width, y, x + width, y + height]]}
        )  # fmt: skip
    path.write_text(json.dumps(tree))
    dataset = pack(inspect(tmp_path / "raw", how=LayoutOptions(task="detection")), tmp_path / "data")
    truth = coco.COCO(str(path))
    names = {image["file_name"].rpartition(".")[0]: number for number, image in truth.imgs.items()}
    order = {number: label for label, number in enumerate(sorted(truth.cats))}
    seen = 0
    source = dataset.source("train")
    for partition in source.snapshot().partitions:
        for record in map(decode_detection, source.read(partition.name, 0, len(partition))):
            mine = sorted((o.label, o.crowd, o.left, o.top, o.right, o.bottom) for o in record.objects)
            theirs = sorted(
                (order[a["category_id"]], bool(a["iscrowd"]), x, y, x + w, y + h)
                for a in truth.imgToAnns[names[record.name]]
                for x, y, w, h in [a["bbox"]]
            )
            assert [m[:2] for m in mine] == [t[:2] for t in theirs]
            np.testing.assert_allclose([m[2:] for m in mine], [t[2:] for t in theirs], atol=1e-4)
            seen += len(mine)
    assert seen >= 40


def test_image_ids_that_begin_otherwise_are_a_problem(tmp_path):
    """Each image would have the boxes of the next one, and the first ones would be left out."""

    def shift(tree):
        tree["annotations"] = [
            {"id": n, "image_id": image["id"] - 1, "category_id": 3, "bbox": [2 + n, 3, 8, 9], "area": 72, "iscrowd": 0}
            for n, image in enumerate(tree["images"])
        ]

    changed_coco(tmp_path, shift)
    assert (
        "annotations/instances_train2017.json: expected the ids of the 3 images in the annotations, found as many of which 6 is "
        "no image's, as where the ids of one are counted from another number. Correct the image_id of the annotations, or the "
        "ids of the images."
    ) in words(tmp_path, LayoutOptions(task="detection"))


class TestOutlines:
    def change(self, root, **values):
        def set_first(tree):
            tree["annotations"][0] |= values

        changed_coco(root, set_first)

    def test_a_box_of_one_pixel_is_compared_too(self, tmp_path):
        self.change(tmp_path, bbox=[1, 17, 1, 1])
        assert words(tmp_path)[0].startswith(
            "train2017/000000000000.jpg: expected the box and the outline of annotation 1"
        )

    @pytest.mark.parametrize("task", ["detection", "segmentation", "instances"])
    def test_a_box_elsewhere_is_a_problem(self, tmp_path, task):
        self.change(tmp_path, bbox=[1, 17, 4, 4])
        assert words(tmp_path, LayoutOptions(task=task)) == [
            "train2017/000000000000.jpg: expected the box and the outline of annotation 1 in one place, found 1, 17 to 5, 21 "
            "and 8, 4 to 18, 16 (x, y). Fix it, or leave the image out with --skip-bad."
        ]

    def test_corners_that_fit_the_outline_are_suggested(self, tmp_path):
        self.change(tmp_path, bbox=[8, 4, 18, 16])
        assert "Read the box as corners with --boxes xyxy" in words(tmp_path)[0]

    @pytest.mark.parametrize("form", ["as they are", "along rows", "inverted", "turned"])
    @pytest.mark.parametrize("compressed", [False, True])
    def test_run_lengths_elsewhere_than_their_box_are_a_problem(self, tmp_path, form, compressed):
        pixels = np.zeros((24, 32), np.uint8)
        pixels[4:16, 8:18] = 1
        drawn = {"along rows": pixels.reshape(32, 24).T, "inverted": 1 - pixels, "turned": pixels[::-1, ::-1]}.get(
            form, pixels
        )
        encoded = run_lengths.encode(np.asfortranarray(drawn))["counts"]
        counts = encoded.decode() if compressed else coco_runs.counts_of(encoded).tolist()
        self.change(tmp_path, segmentation={"size": [24, 32], "counts": counts})

        found = words(tmp_path, LayoutOptions(task="segmentation"))
        start = "train2017/000000000000.jpg: expected the box and the outline of annotation 1 in one place, found 8, 4 to 18, 16 and "
        assert [line.startswith(start) for line in found] == ([] if form == "as they are" else [True])

    @pytest.mark.parametrize("box", [None, [], [0, 0, 0, 0]])
    def test_without_a_box_it_is_the_one_around_the_outline(self, tmp_path, box):
        self.change(tmp_path / "raw", bbox=box)
        pack(inspect(tmp_path / "raw", how=LayoutOptions(task="detection")), tmp_path / "data")
        assert [8, 4, 18, 16] in [each[1:] for each in map(list, boxes(tmp_path)["000000000000"])]

    def test_without_a_box_it_is_the_one_around_run_lengths(self, tmp_path):
        counts = [3 * 24 + 5, 6, 18, 6, 24 * 32 - 3 * 24 - 35]
        self.change(tmp_path / "raw", bbox=None, segmentation={"size": [24, 32], "counts": counts}, iscrowd=0)
        pack(inspect(tmp_path / "raw", how=LayoutOptions(task="detection")), tmp_path / "data")
        assert [3, 5, 5, 11] in [each[1:] for each in map(list, boxes(tmp_path)["000000000000"])]


def test_categories_are_joined_by_name(tmp_path):
    """Files whose ids were numbered anew: val lacks a class, and its first id is another one."""

    def renumber(tree):
        tree["categories"] = [{"id": 1, "name": "zebra"}, {"id": 2, "name": tree["categories"][1]["name"]}]
        for each in tree["annotations"]:
            each["category_id"] = 2

    miniatures.coco(tmp_path / "raw")
    path = tmp_path / "raw/annotations/instances_val2017.json"
    tree = json.loads(path.read_text())
    train = [each["name"] for each in sorted(tree["categories"], key=lambda each: each["id"])]
    renumber(tree)
    path.write_text(json.dumps(tree))
    found = inspect(tmp_path / "raw")
    pack(found, tmp_path / "data")

    assert found.labels.classes == (*train, "zebra")
    second = train.index(tree["categories"][1]["name"])
    assert {label for each in boxes(tmp_path, "val").values() for label, *_ in each} == {second}
    assert (
        f"instances_val2017.json: its categories (zebra, {tree['categories'][1]['name']}) are not those of "
        f"instances_train2017.json ({', '.join(train)}). They are joined by name: {', '.join(found.labels.classes)}."
    ) in [each.message for each in found.problems]


def test_a_category_called_background_is_class_0_of_masks(tmp_path):
    def rename(tree):
        tree["categories"][0]["name"] = "Background"

    for split in ("train2017", "val2017"):
        path = tmp_path / f"raw/annotations/instances_{split}.json"
        if split == "train2017":
            miniatures.coco(tmp_path / "raw")
        tree = json.loads(path.read_text())
        rename(tree)
        path.write_text(json.dumps(tree))
    dataset = pack(inspect(tmp_path / "raw", how=LayoutOptions(task="segmentation")), tmp_path / "data")
    assert dataset.description.classes.count("background") == 1
    assert len(dataset.description.classes) == 2
    assert max(decode_mask(decode_segmentation(each).mask, "m").max() for each in records(dataset, "train")) == 1


class TestClasses:
    def test_annotations_with_neither_boxes_nor_outlines_are_of_whole_images(self, tmp_path):
        pairs = [(0, 90), (1, 3), (2, 3), (2, 90)]  # the last image has two
        for split in ("train", "val"):
            tree = miniatures.coco_tree()
            tree["annotations"] = [
                {"id": n, "image_id": 7 + image, "category_id": category} for n, (image, category) in enumerate(pairs)
            ]
            miniatures.write(tmp_path / f"annotations/labels_{split}.json", json.dumps(tree))
            for number in range(3):
                miniatures.write(
                    tmp_path / f"images/{split}/{number:012d}.jpg", miniatures.make_image(seed=number + len(split))
                )
        found = inspect(tmp_path)

        assert (found.layout.name, found.layout.kind.name) == ("COCO classes", "classification")
        assert found.labels.classes == ("fig", "date")
        assert words(tmp_path, LayoutOptions(task="detection"))[0].startswith(
            f"{tmp_path}: expected data for detection, found data for classification (COCO classes)."
        )
        assert [(each.item.split, each.item.label) for each in found.items] == [
            ("train", 1), ("train", 0), ("val", 1), ("val", 0)
        ]  # fmt: skip
        assert [problem.message for problem in found.fatal] == [
            f"images/{split}/000000000002.jpg: expected one category, found fig, date. Images of several classes are not "
            "supported: leave one, or leave the image out with --skip-bad."
            for split in ("train", "val")
        ]


def test_crowds_may_be_counted_in_numbers_with_a_point(tmp_path):
    changed_coco(tmp_path, lambda tree: [each.update(iscrowd=0.0) for each in tree["annotations"]])
    assert inspect(tmp_path).fatal == []


def test_a_file_that_lists_images_alone_is_no_second_one(tmp_path):
    changed_coco(tmp_path, lambda tree: None)
    tree = {**miniatures.coco_tree(), "annotations": []}
    for name in ("a_info_train", "image_info_train"):
        miniatures.write(tmp_path / f"annotations/{name}.json", json.dumps(tree))
    found = inspect(tmp_path)
    assert found.fatal == []
    assert "info" not in found.layout.reasons[0]


def test_ids_of_images_may_be_text(tmp_path):
    """COCO Camera Traps."""

    def worded(tree):
        for image in tree["images"]:
            image["id"] = f"id-{image['id']}"
        for each in tree["annotations"]:
            each["image_id"] = f"id-{each['image_id']}"

    changed_coco(tmp_path / "a", lambda tree: None)
    changed_coco(tmp_path / "b", worded)
    plain, text = (inspect(tmp_path / name, how=LayoutOptions(task="detection")) for name in "ab")

    assert text.fatal == plain.fatal == []
    assert [(each.item.name, each.item.label) for each in text.items] == [
        (each.item.name, each.item.label) for each in plain.items
    ]


def test_a_crowd_without_a_box_stays_a_crowd(tmp_path):
    changed_coco(tmp_path / "raw", lambda tree: tree["annotations"][0].update(bbox=None, iscrowd=1))
    data = pack(inspect(tmp_path / "raw", how=LayoutOptions(task="detection")), tmp_path / "data")
    found = {each.name: [box.crowd for box in each.objects] for each in map(decode_detection, records(data, "train"))}
    assert found["000000000000"] == [True, False]


@pytest.mark.parametrize("place", ["out/train.json", "images/a.json", "export/labels/instances.json"])
def test_a_file_may_lie_in_any_folder(tmp_path, place):
    for number in range(2):
        miniatures.write(tmp_path / f"images/{number}.jpg", miniatures.make_image(seed=number))
    tree = {
        "images": [{"id": number, "file_name": f"{number}.JPG", "height": 24, "width": 32} for number in range(2)],
        "annotations": [{"id": 1, "image_id": 1, "category_id": 4, "bbox": [1, 2, 3, 4]}],
        "categories": [{"id": 4, "name": "cat"}],
    }
    miniatures.write(tmp_path / place, json.dumps(tree))
    found = inspect(tmp_path)

    assert (found.layout.name, found.labels.classes, found.fatal) == ("COCO", ("cat",), [])
    assert [len(each.item.label) for each in found.items] == [0, 1]


@pytest.mark.parametrize(
    ("text", "count"), [('{"images": [', 1), ('{"images": 1, "annotations": 2, "categories": 3}', 17)]
)
def test_json_further_below_that_is_of_something_else_does_no_harm(tmp_path, text, count):
    """It is damaged, and names one of the keys; or there are as many as have an image each."""
    for number in range(4):
        miniatures.write(tmp_path / f"{('cat', 'dog')[number % 2]}/{number}.jpg", miniatures.make_image(seed=number))
    for number in range(count):
        miniatures.write(tmp_path / f"cat/more/{number}.json", text)

    assert words(tmp_path) == []


def test_areas_show_that_boxes_are_corners(tmp_path):
    def corners(tree):
        for number, each in enumerate(tree["annotations"]):
            each.pop("segmentation", None)
            each["bbox"] = [2 + number, 3, 8 + number, 10]
            each["area"] = 6 * 7
            each["iscrowd"] = 0

    changed_coco(tmp_path, corners)
    count = len(json.loads((tmp_path / "annotations/instances_train2017.json").read_text())["annotations"])
    assert words(tmp_path)[0] == (
        "annotations/instances_train2017.json: expected boxes as a corner and a size (left, top, width, height), found the "
        f"areas of corners (left, top, right, bottom) in {count} of {count}. Read them as corners with --boxes xyxy."
    )
    assert not [one for one in words(tmp_path, LayoutOptions(boxes="xyxy")) if "areas of corners" in one]


@pytest.mark.parametrize("field", ["seq_id", "location", "video_id"])
@pytest.mark.parametrize("task", ["detection", "segmentation", "instances"])
def test_images_say_their_split_and_what_they_belong_to(tmp_path, field, task):
    """As those of camera traps do; places and sequences stay together."""
    miniatures.coco(tmp_path)
    (tmp_path / "annotations/instances_val2017.json").unlink()
    path = tmp_path / "annotations/instances_train2017.json"
    tree = json.loads(path.read_bytes())
    for number, each in enumerate(tree["images"]):
        each |= {field: number // 2, "split": "train" if number else "Test"}
    path.write_text(json.dumps(tree))
    found = inspect(tmp_path, how=LayoutOptions(task=task))
    groups = {each.item.name: (each.item.split, each.item.group) for each in found.items}
    first, second, third = (Path(each["file_name"]).stem for each in tree["images"])
    assert groups == {first: ("test", ""), second: ("train", "0"), third: ("train", "1")}

from __future__ import annotations

import base64
import json

import cv2
import numpy as np
import pytest
from support import annotations as tools
from support.datasets import records
from support.layouts import notes, pack_skipping, words
from support.miniatures import gray, make_image, write

from penstock.datasets import FolderDataset, LayoutOptions, inspect, pack
from penstock.datasets.layouts import fill
from penstock.images import codecs
from penstock.kinds import Labels
from penstock.kinds.fields import decode_segmentation


def packed_mask(root, name="a"):
    """The ids of the mask of an image, as they are packed."""
    decoded = (decode_segmentation(record) for record in records(FolderDataset.open(root / "data"), "train"))
    return next(codecs.decode_mask(each.mask, "mask") for each in decoded if each.name.endswith(name))


def labelme_shapes(root, *shapes, **more):
    """One image, and the JSON of LabelMe beside it."""
    write(root / "a.jpg", make_image(tools.SIZE))
    tree = {"shapes": list(shapes), "imagePath": "a.jpg", "imageHeight": 24, "imageWidth": 32, **more}
    write(root / "a.json", json.dumps(tree))


def around(middle, radius):
    y, x = np.mgrid[0:24, 0:32] + 0.5
    return (x - middle[0]) ** 2 + (y - middle[1]) ** 2 <= radius**2


class TestInside:
    @pytest.mark.parametrize("seed", range(5))
    def test_is_what_opencv_says_of_every_centre(self, seed):
        points = np.random.default_rng(seed).uniform(-5, 30, (7, 2)).astype(np.float32)
        expected = [
            [cv2.pointPolygonTest(cv2.convexHull(points), (x + 0.5, y + 0.5), measureDist=False) > 0 for x in range(32)]
            for y in range(24)
        ]
        hull = cv2.convexHull(points)[:, 0].astype(np.float64)
        assert np.array_equal(fill.inside([hull], (24, 32)).whole((24, 32)), expected)

    def test_an_outline_inside_another_is_a_hole(self):
        outer, hole = (np.array([(a, a), (b, a), (b, b), (a, b)], float) for a, b in ((2, 12), (4, 7)))
        expected = np.zeros((16, 16), bool)
        expected[2:12, 2:12] = True
        expected[4:7, 4:7] = False
        assert np.array_equal(fill.inside([outer, hole], (16, 16)).whole((16, 16)), expected)

    def test_neighbours_share_no_pixel_and_leave_none(self):
        left = np.array([(0, 0), (10.3, 0), (6.1, 16), (0, 16)])
        right = np.array([(10.3, 0), (16, 0), (16, 16), (6.1, 16)])
        one, other = (fill.inside([points], (16, 16)).whole((16, 16)) for points in (left, right))
        assert not (one & other).any()
        assert (one | other).all()


class TestLabelMe:
    def test_rectangles_are_boxes(self, tmp_path):
        tools.labelme(tmp_path, rectangles=True)
        found = inspect(tmp_path)
        assert (found.layout.kind.name, found.layout.others, found.problems) == ("detection", (), ())
        assert [(box.left, box.top, box.right, box.bottom) for box in found.items[0].item.label] == [(3, 4, 12, 14)]

    def test_circles_and_painted_masks_are_drawn_and_lines_are_not(self, tmp_path):
        painted = gray(np.pad(np.full((3, 4), 255, np.uint8), 1))
        labelme_shapes(
            tmp_path / "raw",
            {"label": "ball", "shape_type": "circle", "points": [(10, 10), (10, 16)]},
            {
                "label": "patch",
                "shape_type": "mask",
                "points": [(20, 3), (25, 7)],
                "mask": base64.b64encode(painted).decode(),
            },
            {"label": "road", "shape_type": "linestrip", "points": [(0, 0), (9, 9)]},
        )
        found = inspect(tmp_path / "raw")
        pack(found, tmp_path / "data")
        assert found.labels.classes == ("background", "ball", "patch")
        assert [problem.message for problem in found.problems] == [
            "a.jpg: 1 shape without an inside, as points and lines. It is left out."
        ]
        mask = packed_mask(tmp_path)
        assert np.array_equal(mask[:, :18] == 1, around((10, 10), 6)[:, :18])
        expected = np.zeros((24, 32), bool)
        expected[4:7, 21:25] = True
        assert np.array_equal(mask == 2, expected)

    @pytest.mark.parametrize(
        ("entry", "found"),
        [
            ({"label": None, "points": tools.DOG}, "no label"),
            ({"label": " ", "points": tools.DOG}, "no label"),
            (
                {"label": "dog", "shape_type": "circle", "points": tools.DOG[:3]},
                "a circle of 3 points, which needs two",
            ),
            ({"label": "dog", "points": 7}, "`int` instead of `array` in points"),
            ({"label": "dog", "points": [(1, 2), (3, 10**30)]}, "no `float` < 1000000.0 in points[1][1]"),
            ("dog", "`str` instead of `object`"),
        ],
    )
    def test_what_is_no_shape_is_named(self, tmp_path, entry, found):
        labelme_shapes(tmp_path / "raw", {"label": "dog", "points": tools.DOG}, entry)
        inspected = inspect(tmp_path / "raw")
        assert inspected.labels.classes == ("background", "dog")
        assert [problem.message for problem in inspected.problems] == [
            f"a.json, shape 2: expected a label and its points, found {found}. Fix it, or remove it."
        ]

    def test_smaller_objects_lie_on_larger_ones(self, tmp_path):
        small, large = ([(a, a), (b, a), (b, b), (a, b)] for a, b in ((8, 10), (4, 16)))
        labelme_shapes(tmp_path / "raw", {"label": "small", "points": small}, {"label": "large", "points": large})
        pack(inspect(tmp_path / "raw"), tmp_path / "data")
        mask = packed_mask(tmp_path)
        assert (mask[9, 9], mask[5, 5], mask[0, 0]) == (2, 1, 0)

    def test_an_image_inside_the_json_is_used_where_there_is_no_file(self, tmp_path):
        image = make_image(tools.SIZE, seed=3)
        labelme_shapes(
            tmp_path / "raw", {"label": "dog", "points": tools.DOG}, imageData=base64.b64encode(image).decode()
        )
        write(tmp_path / "raw/other.jpg", make_image(seed=9))
        (tmp_path / "raw/a.jpg").unlink()
        pack(inspect(tmp_path / "raw"), tmp_path / "data")
        (record,) = records(FolderDataset.open(tmp_path / "data"), "train")
        assert decode_segmentation(record).image == image

    def test_records_are_named_for_their_image_wherever_its_json_is(self, tmp_path):
        write(tmp_path / "raw/a.jpg", make_image(tools.SIZE))
        write(tmp_path / "b.jpg", make_image(tools.SIZE, 1))
        for name, image in {"a": "../a.jpg", "b": "../../b.jpg"}.items():
            shapes = [{"label": "dog", "points": tools.DOG}]
            tree = {"shapes": shapes, "imagePath": image, "imageHeight": 24, "imageWidth": 32}
            write(tmp_path / f"raw/annotations/{name}.json", json.dumps(tree))
        assert [each.item.name for each in inspect(tmp_path / "raw").items] == ["a", "annotations/b"]

    @pytest.mark.parametrize(("suffix", "found"), [(".jpg", 1), (".txt", 0)])
    def test_a_copy_that_names_another_image_is_refused(self, tmp_path, suffix, found):
        """b.json was copied from a.json; where no image has the name of b.json, its imagePath alone counts."""
        labelme_shapes(tmp_path, {"label": "dog", "points": tools.DOG})
        write(tmp_path / f"b{suffix}", make_image(tools.SIZE, 1))
        write(tmp_path / "b.json", (tmp_path / "a.json").read_bytes())

        named = [sentence for sentence in words(tmp_path) if "imagePath" in sentence]
        assert named == found * [
            "b.json: expected the image of its own name, b.jpg, found a.jpg in its imagePath. Correct the imagePath, "
            "or give the JSON file the name of its image."
        ]

    def test_what_is_wrong_is_named_and_left_out(self, tmp_path, capsys):
        tools.labelme(tmp_path / "raw")
        write(tmp_path / "raw/train/d.json", '{"shapes": [], "imagePath": "d.jpg"}')
        write(tmp_path / "raw/train/e.json", '{"shapes": [')
        for name, shape in {"f": {"label": "dog", "points": [(1, 2)]}, "g": {"points": tools.DOG}}.items():
            write(tmp_path / f"raw/train/{name}.jpg", make_image(seed=ord(name)))
            tree = {"shapes": [shape], "imagePath": f"{name}.jpg", "imageHeight": 24, "imageWidth": 32}
            write(tmp_path / f"raw/train/{name}.json", json.dumps(tree))

        missing, damaged, few, nameless = sorted(words(tmp_path / "raw"))
        assert missing == (
            "train/d.json: expected the image d.jpg that it names, found nothing. Add it, or remove its annotations."
        )
        assert damaged.startswith("train/e.json: expected LabelMe's JSON, found ")
        assert few == (
            "train/f.json, shape 1: expected a label and its points, found a polygon of 1 point, which needs three. Fix it, or remove it."
        )
        assert (
            nameless == "train/g.json, shape 1: expected a label and its points, found no label. Fix it, or remove it."
        )
        pack_skipping(tmp_path, capsys)
        assert sum(1 for _ in records(FolderDataset.open(tmp_path / "data"), "train")) == 2


def test_ellipses_and_rectangles_of_via(tmp_path):
    write(tmp_path / "raw/a.jpg", make_image(tools.SIZE))
    shapes = [
        {"name": "rect", "x": 2, "y": 3, "width": 4, "height": 5},
        {"name": "circle", "cx": 20, "cy": 12, "r": 6},
        {"name": "ellipse", "cx": 8, "cy": 18, "rx": 3, "ry": 3, "theta": 0.5},
        {"name": "point", "cx": 1, "cy": 1},
    ]
    regions = [{"shape_attributes": shape, "region_attributes": {}} for shape in shapes]
    project = {"_via_settings": {}, "_via_img_metadata": {"a.jpg1": {"filename": "a.jpg", "regions": regions}}}
    write(tmp_path / "raw/via_project.json", json.dumps(project))
    found = inspect(tmp_path / "raw")
    pack(found, tmp_path / "data")
    assert found.labels.classes == ("background", "object")
    assert [problem.message for problem in found.problems] == [
        "a.jpg: 1 shape without an inside, as points and lines. It is left out.",
        "a.jpg: 1 object without an outline, only a box: its pixels are background in the mask.",
    ]
    expected = around((20, 12), 6) | around((8, 18), 3)
    assert np.array_equal(packed_mask(tmp_path) == 1, expected)


@pytest.mark.parametrize(
    ("mask", "found"),
    [
        ('rle="1,2,3" left="0" top="0" width="4" height="2"', "runs of 6 pixels for 2 x 4"),
        (
            f'rle="{",".join(["268435456"] * 16)}" left="0" top="0" width="65536" height="65536"',
            "runs of 4294967296 pixels for 65536 x 65536",
        ),
        ('rle="-1,9" left="0" top="0" width="4" height="2"', "no `int` >= 0 in [0]"),
        ('rle="8" left="x" top="0" width="4" height="2"', "`str` instead of `int` in left"),
        ('left="0" top="0" width="4" height="2"', "no rle"),
    ],
)
def test_a_mask_of_cvat_that_is_none_is_named(tmp_path, mask, found):
    write(tmp_path / "a.jpg", make_image(tools.SIZE))
    shapes = f'<mask label="patch" {mask}/><ellipse label="ball" cx="10" cy="10" rx="6" ry="6"/>'
    image = f'<image name="a.jpg" width="32" height="24">{shapes}</image>'
    write(tmp_path / "annotations.xml", f"<annotations>{image}</annotations>")
    assert words(tmp_path) == [
        f"annotations.xml (a.jpg), shape 1: expected a label and its points, found {found}. Fix it, or remove it."
    ]


def test_masks_ellipses_turned_boxes_and_tags_of_cvat(tmp_path):
    write(tmp_path / "raw/a.jpg", make_image(tools.SIZE))
    write(tmp_path / "raw/b.jpg", make_image(tools.SIZE, 1))
    shapes = (
        '<mask label="patch" rle="1,2,3,2" left="20" top="3" width="4" height="2"/>'
        '<ellipse label="ball" cx="10" cy="10" rx="6" ry="6"/>'
        '<box label="door" xtl="20" ytl="12" xbr="28" ybr="16" rotation="90"/>'
    )
    image = f'<image name="a.jpg" width="32" height="24">{shapes}</image>'
    write(tmp_path / "raw/annotations.xml", f"<annotations>{image}</annotations>")
    found = inspect(tmp_path / "raw")
    pack(found, tmp_path / "data")
    assert found.labels.classes == ("background", "ball", "door", "patch")
    mask = packed_mask(tmp_path)
    expected = np.zeros((24, 32), bool)
    expected[3, 21:23] = expected[4, 22:24] = True  # runs of 1, 2, 3, 2 in rows of four
    assert np.array_equal(mask == 3, expected)
    assert np.array_equal(mask == 1, around((10, 10), 6))
    expected = np.zeros((24, 32), bool)
    expected[10:18, 22:26] = True
    assert np.array_equal(mask == 2, expected)

    tags = '<image name="{}" width="32" height="24"><tag label="{}"/></image>'
    pair = tags.format("a.jpg", "day") + tags.format("b.jpg", "night")
    write(tmp_path / "raw/annotations.xml", f"<annotations>{pair}</annotations>")
    found = inspect(tmp_path / "raw")
    assert (found.layout.kind.name, found.labels.classes) == ("classification", ("day", "night"))
    assert [each.item.label for each in found.items] == [0, 1]


def test_a_damaged_brush_is_named(tmp_path):
    write(tmp_path / "a.jpg", make_image(tools.SIZE))
    size = {"original_width": 32, "original_height": 24}
    brush = {"type": "brushlabels", **size, "value": {"format": "rle", "rle": [1, 2], "brushlabels": ["dog"]}}
    task = {"id": 7, "data": {"image": "/data/upload/1/a.jpg"}, "annotations": [{"result": [brush]}]}
    write(tmp_path / "export.json", json.dumps([task]))

    assert [problem.message for problem in inspect(tmp_path).fatal] == [
        "export.json (task 7), shape 1: expected a brush's pixels, found run lengths that end early. Draw it again, or "
        "export as COCO."
    ]


@pytest.mark.parametrize("make", [tools.brushes, tools.fiftyone_samples])
def test_painted_pixels_are_masks_boxes_and_instances(tmp_path, make):
    make(tmp_path / "raw")
    expected = np.zeros(tools.SIZE, np.uint8)
    for value, (_, points) in enumerate(sorted(tools.SHAPES), 1):
        expected[tools.bits_of(points)] = value
    names = {
        t: inspect(tmp_path / "raw", how=LayoutOptions(task=t)) for t in ("segmentation", "detection", "instances")
    }
    assert all(found.fatal == [] for found in names.values())
    pack(names["segmentation"], tmp_path / "data")
    boxes = names["detection"].items[0].item.label
    objects = names["instances"].items[0].item.label
    dog, cat = (points for _, points in tools.SHAPES)

    assert np.array_equal(packed_mask(tmp_path), expected)
    assert sorted((b.left, b.top, b.right, b.bottom) for b in boxes) == sorted(
        tuple(map(float, tools.box_of_bits(tools.bits_of(points)))) for points in (dog, cat)
    )
    assert sorted(each.pixels(tools.SIZE).sum() for each in objects) == sorted(
        tools.bits_of(p).sum() for p in (dog, cat)
    )


def test_masks_of_fiftyone_are_taken_from_files_and_from_the_json(tmp_path):
    tools.fiftyone_samples(tmp_path / "raw", objects=False)
    found = inspect(tmp_path / "raw")
    expected = {0: tools.HEIGHT * tools.WIDTH}
    for value, (_, points) in enumerate(tools.SHAPES, 1):
        expected[value] = int(tools.bits_of(points).sum())
        expected[0] -= expected[value]

    assert (found.layout.name, found.fatal) == ("FiftyOne, masks", [])
    assert [dict(each.pixels) for each in found.items] == [expected] * 3


def test_a_damaged_mask_of_fiftyone_is_named(tmp_path):
    tools.fiftyone_samples(tmp_path / "raw", objects=False)
    (tmp_path / "raw/fields/ground_truth/b.png").unlink()
    (problem,) = inspect(tmp_path / "raw").fatal

    assert problem.message.startswith("fields/ground_truth/b.png: expected a mask of FiftyOne, found ")
    assert problem.message.endswith("Export the dataset again.")


@pytest.mark.parametrize("short", [True, False])
def test_choices_of_label_studio_are_classes(tmp_path, short):
    tasks = []
    for number, choice in enumerate(("day", "night", "day")):
        write(tmp_path / f"{number}.jpg", make_image(seed=number))
        image = f"/data/upload/3/0a1b2c3d-{number}.jpg"
        result = [{"type": "choices", "value": {"choices": [choice]}}]
        whole = {"id": number, "data": {"image": image}, "annotations": [{"result": result}]}
        brief = {"image": image, "id": number, "choice": choice, "annotator": 1, "annotation_id": 2}
        tasks.append(brief if short else whole)
    write(tmp_path / "export.json", json.dumps(tasks))
    found = inspect(tmp_path)
    assert (found.layout.kind.name, found.labels.classes, found.problems) == ("classification", ("day", "night"), ())
    assert [each.item.label for each in found.items] == [0, 1, 0]


def test_classes_and_samples_of_fiftyone(tmp_path):
    for name in "abc":
        write(tmp_path / f"one/data/{name}.jpg", make_image(seed=ord(name)))
        write(tmp_path / f"two/data/{name}.jpg", make_image(seed=ord(name)))
    write(tmp_path / "one/labels.json", json.dumps({"classes": ["cat", "dog"], "labels": {"a": 1, "b": 0, "c": 1}}))
    found = inspect(tmp_path / "one")
    assert (found.layout.kind.name, [each.item.label for each in found.items]) == ("classification", [1, 0, 1])

    detections = [{"label": "dog", "bounding_box": [0.25, 0.5, 0.5, 0.25]}]
    samples = [{"filepath": f"data/{name}.jpg", "ground_truth": {"detections": detections}} for name in "abc"]
    write(tmp_path / "two/samples.json", json.dumps({"samples": samples}))
    found = inspect(tmp_path / "two")
    assert found.layout.kind.name == "detection"
    assert [(box.left, box.top, box.right, box.bottom) for box in found.items[2].item.label] == [(8, 12, 24, 18)]


def test_classes_and_masks_of_hugging_face(tmp_path):
    lines = {"label": [], "mask": []}
    for number, name in enumerate("abc"):
        for root in ("one", "two"):
            write(tmp_path / root / f"train/{name}.jpg", make_image(tools.SIZE, number))
        write(tmp_path / f"two/train/masks/{name}.png", gray(np.eye(24, 32, dtype=np.uint8)))
        lines["label"].append(json.dumps({"file_name": f"{name}.jpg", "label": number % 2}))
        lines["mask"].append(json.dumps({"file_name": f"{name}.jpg", "mask_file_name": f"masks/{name}.png"}))
    write(tmp_path / "one/train/metadata.jsonl", "\n".join(lines["label"]))
    write(tmp_path / "two/train/metadata.jsonl", "\n".join(lines["mask"]))
    found = inspect(tmp_path / "one")
    assert (found.layout.kind.name, [each.item.label for each in found.items]) == ("classification", [0, 1, 0])
    found = inspect(tmp_path / "two")
    assert (found.layout.kind.name, found.fatal, found.items[0].pixels) == ("segmentation", [], ((0, 744), (1, 24)))


def test_holes_of_supervisely_are_not_the_object(tmp_path):
    write(tmp_path / "raw/ds/img/a.png", gray(np.zeros((24, 32), np.uint8)))
    square, hole = ([(a, a), (b, a), (b, b), (a, b)] for a, b in ((2, 12), (4, 7)))
    objects = [{"classTitle": "ring", "geometryType": "polygon", "points": {"exterior": square, "interior": [hole]}}]
    tree = {"size": {"height": 24, "width": 32}, "objects": objects}
    write(tmp_path / "raw/ds/ann/a.png.json", json.dumps(tree))
    pack(inspect(tmp_path / "raw"), tmp_path / "data")
    expected = np.zeros((24, 32), np.uint8)
    expected[2:12, 2:12] = 1
    expected[4:7, 4:7] = 0
    assert np.array_equal(packed_mask(tmp_path), expected)


def test_yolo_outlines_are_boxes_unless_masks_are_asked_for(tmp_path):
    tools.yolo_outlines(tmp_path)
    found = inspect(tmp_path)
    assert found.layout.kind.name == "detection"
    assert [other.kind.name for other in found.layout.others] == ["segmentation", "instances"]
    assert notes(tmp_path) == []


def test_names_that_a_project_states_keep_their_order(tmp_path):
    tools.cvat(tmp_path)
    path = tmp_path / "annotations.xml"
    path.write_text(
        path.read_text()
        .replace("<label><name>cat</name></label>", "", 1)
        .replace("<label><name>dog</name></label>", "<label><name>dog</name></label><label><name>cat</name></label>")
    )
    assert inspect(tmp_path, how=LayoutOptions(task="detection")).labels.classes == ("dog", "cat")


@pytest.mark.parametrize("size", [{"a": 1}, "x", -3, [24], None])
def test_a_size_that_is_none_gives_way_to_that_of_the_image(tmp_path, size):
    square = {"label": "cat", "points": [(4, 4), (20, 4), (20, 12), (4, 12)], "shape_type": "polygon"}
    labelme_shapes(tmp_path / "raw", square, imageHeight=size)
    pack(inspect(tmp_path / "raw"), tmp_path / "data")
    expected = np.zeros((24, 32), np.uint8)
    expected[4:12, 4:20] = 1

    assert np.array_equal(packed_mask(tmp_path), expected)


@pytest.mark.parametrize("text", ["twelve", "12.5", ""])
def test_a_size_in_xml_that_is_none_does_no_harm(tmp_path, text):
    tools.cvat(tmp_path)
    path = tmp_path / "annotations.xml"
    path.write_text(path.read_text().replace(f'height="{tools.HEIGHT}"', f'height="{text}"'))

    assert inspect(tmp_path, how=LayoutOptions(task="segmentation")).problems == ()


@pytest.mark.parametrize("tool", ["LabelMe", "CVAT", "VGG Image Annotator", "Label Studio", "Supervisely"])
@pytest.mark.parametrize("task", ["detection", "segmentation"])
def test_images_without_annotations_are_noted(tmp_path, tool, task):
    tools.OUTLINES[tool](tmp_path)
    write(tmp_path / "train/new/z.jpg", make_image(tools.SIZE, seed=99))
    found = inspect(tmp_path, how=LayoutOptions(task=task))

    assert [problem.message for problem in found.problems] == [
        "train/new/z.jpg: no annotation names it: it is left out."
    ]
    assert found.fatal == []


@pytest.mark.parametrize(
    "names", [("train", "val"), ("instances_train", "instances_valid"), ("job_Training", "job_Validation")]
)
def test_files_of_many_images_are_called_for_their_splits(tmp_path, names):
    """CVAT as Datumaro exports it: the images of all splits lie together."""
    for file, images in zip(names, ("ab", "c"), strict=True):
        for name in images:
            write(tmp_path / f"images/{name}.png", make_image(seed=ord(name)))
        entries = "".join(
            f'<image name="{name}.png" width="32" height="24"><box label="cat" xtl="2" ytl="3" xbr="9" ybr="8"/></image>'
            for name in images
        )
        write(tmp_path / f"{file}.xml", f"<annotations>{entries}</annotations>")
    found = inspect(tmp_path)
    assert found.fatal == []
    assert {split: [each.item.name for each in items] for split, items in found.splits.items()} == {
        "train": [*"ab"],
        "val": ["c"],
    }


ANGLES = (30, 75, -20)
BOX = (10, 6, 24, 14)  # left, top, right, bottom, before it is turned
AXES = ((16, 11), (9, 4))  # the middle and the radii of an ellipse


def corners_turned(angle, around):
    """The corners of the box, clockwise around a point as numbers of the complex plane whose second axis points down."""
    left, top, right, bottom = BOX
    turn = np.exp(1j * np.deg2rad(angle))
    corners = [complex(x, y) for x, y in ((left, top), (right, top), (right, bottom), (left, bottom))]
    return [(p.real, p.imag) for p in (complex(*around) + (corner - complex(*around)) * turn for corner in corners)]


def ellipse_turned(angle):
    """The pixels whose centres lie in the ellipse."""
    y, x = np.mgrid[0:24, 0:32] + 0.5
    (cx, cy), (rx, ry) = AXES
    back = ((x - cx) + 1j * (y - cy)) * np.exp(-1j * np.deg2rad(angle))
    return (back.real / rx) ** 2 + (back.imag / ry) ** 2 <= 1


def cvat_turned(angle):
    left, top, right, bottom = BOX
    (cx, cy), (rx, ry) = AXES
    shapes = {
        "box": f'<box label="thing" xtl="{left}" ytl="{top}" xbr="{right}" ybr="{bottom}" rotation="{angle}"/>',
        "ellipse": f'<ellipse label="thing" cx="{cx}" cy="{cy}" rx="{rx}" ry="{ry}" rotation="{angle}"/>',
    }
    image = '<image name="a.jpg" width="32" height="24">{}</image>'
    return "annotations.xml", {
        kind: f"<annotations>{image.format(shape)}</annotations>" for kind, shape in shapes.items()
    }


def label_studio_turned(angle):
    left, top, right, bottom = BOX
    (cx, cy), (rx, ry) = AXES
    sizes = {"original_width": 32, "original_height": 24}
    place = {"x": left / 0.32, "y": top / 0.24, "width": (right - left) / 0.32, "height": (bottom - top) / 0.24}
    middle = {"x": cx / 0.32, "y": cy / 0.24, "radiusX": rx / 0.32, "radiusY": ry / 0.24}
    found = {
        "box": {"type": "rectanglelabels", "value": {**place, "rotation": angle, "rectanglelabels": ["thing"]}},
        "ellipse": {"type": "ellipselabels", "value": {**middle, "rotation": angle, "ellipselabels": ["thing"]}},
    }
    return "export.json", {
        kind: json.dumps([{"id": 1, "data": {"image": "a.jpg"}, "annotations": [{"result": [{**sizes, **each}]}]}])
        for kind, each in found.items()
    }


def via_turned(angle):
    (cx, cy), (rx, ry) = AXES
    shape = {"name": "ellipse", "cx": cx, "cy": cy, "rx": rx, "ry": ry, "theta": np.deg2rad(angle)}
    region = {"shape_attributes": shape, "region_attributes": {"type": "thing"}}
    entry = {"filename": "a.jpg", "size": 1, "regions": [region], "file_attributes": {}}
    return "via_region_data.json", {"ellipse": json.dumps({"a.jpg1": entry})}


@pytest.mark.parametrize("angle", ANGLES)
@pytest.mark.parametrize(
    ("tool", "kind"),
    [
        (cvat_turned, "box"),
        (cvat_turned, "ellipse"),
        (label_studio_turned, "box"),
        (label_studio_turned, "ellipse"),
        (via_turned, "ellipse"),
    ],
)
def test_what_was_turned_lies_as_it_was_drawn(tmp_path, tool, kind, angle):
    name, texts = tool(angle)
    write(tmp_path / "raw/a.jpg", make_image(tools.SIZE))
    write(tmp_path / "raw" / name, texts[kind])
    pack(inspect(tmp_path / "raw", Labels(clip_boxes=True), how=LayoutOptions(task="segmentation")), tmp_path / "data")
    left, top, right, bottom = BOX
    around = (left, top) if tool is label_studio_turned else ((left + right) / 2, (top + bottom) / 2)
    wanted = ellipse_turned(angle) if kind == "ellipse" else tools.bits_of(corners_turned(angle, around))

    assert (packed_mask(tmp_path) != wanted).sum() <= 6  # pixels that an outline goes through


def test_a_line_of_hugging_face_that_is_damaged_costs_itself_alone(tmp_path):
    lines = [
        '{"file_name": "0.jpg", "objects": [null]}',
        "{",
        '{"file_name": "2.jpg", "objects": {"bbox": [[1, 2, 9, 9]], "categories": ["cat"]}}',
    ]
    for number in range(3):
        write(tmp_path / f"train/{number}.jpg", make_image(tools.SIZE, number))
    write(tmp_path / "train/metadata.jsonl", "\n".join(lines))
    found = inspect(tmp_path)

    assert [problem.message.partition(", found")[0] for problem in found.fatal] == [
        "train/metadata.jsonl, line 1, shape 1: expected a label and its points",
        "train/metadata.jsonl, line 2: expected JSON",
    ]
    assert [item.item.name for item in found.sound().items] == ["2"]


def test_a_mask_of_hugging_face_whose_name_is_none_is_named(tmp_path):
    write(tmp_path / "train/0.jpg", make_image(tools.SIZE, 0))
    write(tmp_path / "train/metadata.jsonl", json.dumps({"file_name": "0.jpg", "mask_file_name": "a\0b"}))
    (problem,) = (each for each in inspect(tmp_path).problems if each.kind == "unreadable mask")

    assert "a\N{REPLACEMENT CHARACTER}b" in problem.message


def test_two_annotations_of_label_studio_that_differ_are_refused(tmp_path):
    def said(label, time):
        value = {"choices": [label]}
        return {"lead_time": time, "result": [{"id": str(time), "type": "choices", "from_name": "l", "value": value}]}

    tasks = []
    for number, labels in enumerate((["cat"], ["cat", "cat"], ["dog", "cat"], ["dog"])):
        write(tmp_path / f"{number}.jpg", make_image(tools.SIZE, number))
        annotations = [said(label, time) for time, label in enumerate(labels)]
        tasks.append({"id": number, "data": {"image": f"/data/upload/1/{number}.jpg"}, "annotations": annotations})
    write(tmp_path / "project.json", json.dumps(tasks))
    found = inspect(tmp_path)

    assert [problem.message for problem in found.fatal] == [
        "2.jpg: expected one annotation, found 2 in project.json (task 2) that differ. Cancel or delete all but one of them and "
        "export again, or leave the image out with --skip-bad."
    ]
    assert len(found.sound().items) == 3


@pytest.mark.parametrize("short", [True, False])
def test_tasks_of_label_studio_without_an_annotation_are_left_out(tmp_path, short):
    """What nobody annotated, or cancelled, may hold anything; an annotation without a result says that nothing is there."""
    box = {"original_width": 32, "original_height": 24, "x": 25, "y": 50, "width": 50, "height": 25}
    whole = {"type": "rectanglelabels", "original_width": 32, "original_height": 24}
    result = [{**whole, "value": {"x": 25, "y": 50, "width": 50, "height": 25, "rectanglelabels": ["dog"]}}]
    done = (
        {"label": [{**box, "rectanglelabels": ["dog"]}], "annotator": 1, "annotation_id": 1}
        if short
        else {"annotations": [{"result": result}]}
    )
    empty = {"annotator": 1, "annotation_id": 2} if short else {"annotations": [{"result": []}]}
    others = [{}] if short else [{"annotations": []}, {"annotations": [{"was_cancelled": True, "result": result}]}]
    tasks = []
    for number, more in enumerate([done, empty, *others]):
        write(tmp_path / f"{number}.jpg", make_image(tools.SIZE, number))
        image = f"/data/upload/1/{number}.jpg"
        tasks.append({"id": number, **({"image": image} if short else {"data": {"image": image}}), **more})
    write(tmp_path / "project.json", json.dumps(tasks))
    found = inspect(tmp_path)

    assert {each.item.name: len(each.item.label) for each in found.items} == {"0": 1, "1": 0}
    assert [problem.message for problem in found.problems] == [
        f"{number}.jpg: no annotation names it: it is left out." for number in range(2, len(tasks))
    ]


def test_masks_of_cvat_are_run_lengths_with_blanks(tmp_path):
    for number in range(2):
        write(tmp_path / f"images/{number}.png", gray(np.full((24, 32), number, np.uint8)))
    mask = '<mask label="car" rle="1, 4, 1, 0" left="5" top="6" width="3" height="2"/>'
    parts = [f'<image id="{n}" name="{n}.png" width="32" height="24">{mask}</image>' for n in range(2)]
    write(tmp_path / "annotations.xml", f"<annotations>{''.join(parts)}</annotations>")
    pack(inspect(tmp_path), tmp_path / "data")
    expected = np.zeros((24, 32), np.uint8)
    expected[6, 6:8], expected[7, 5:7] = 1, 1

    assert np.array_equal(packed_mask(tmp_path, "0"), expected)


def test_tags_of_cvat_are_no_shapes(tmp_path):
    for number in range(2):
        write(tmp_path / f"images/{number}.jpg", make_image(tools.SIZE, number))
    parts = [f'<image id="{n}" name="{n}.jpg"><tag label="{name}"/></image>' for n, name in enumerate(("cat", "dog"))]
    write(tmp_path / "annotations.xml", f"<annotations>{''.join(parts)}</annotations>")
    found = inspect(tmp_path)

    assert (found.labels.classes, found.problems) == (("cat", "dog"), ())


class TestBoxesOfHuggingFace:
    def metadata(self, root, boxes, labels):
        for number, (box, label) in enumerate(zip(boxes, labels, strict=True)):
            write(root / f"train/{number}.jpg", make_image(tools.SIZE, number))
            line = {"file_name": f"{number}.jpg", "objects": {"bbox": [box], "category": [label]}}
            with (root / "train/metadata.jsonl").open("a") as file:
                file.write(json.dumps(line) + "\n")

    def test_corners_are_offered_and_read(self, tmp_path):
        self.metadata(tmp_path, [[20, 12, 30, 20], [4, 6, 8, 9]], ["cat", "dog"])
        found = inspect(tmp_path)
        read = inspect(tmp_path, how=LayoutOptions(boxes="xyxy"))

        assert [problem.message for problem in found.problems if "--boxes" in problem.message] == [
            f"{tmp_path}: boxes are read as a corner and a size, and some of 1 image reach outside. If they are corners, use "
            "--boxes xyxy."
        ]
        assert [(box.left, box.top, box.right, box.bottom) for box in read.items[0].item.label] == [(20, 12, 30, 20)]

    def test_numbers_of_classes_are_in_their_order(self, tmp_path):
        self.metadata(tmp_path, 3 * [[1, 2, 3, 4]], [10, 9, 1])

        assert inspect(tmp_path).labels.classes == ("1", "9", "10")


@pytest.mark.parametrize(("orders", "leaf"), [((0, 1), 0), ((1, 0), 16), ((0, 0), 16)])
def test_shapes_of_cvat_lie_on_each_other_as_it_says(tmp_path, orders, leaf):
    shapes = "".join(
        f'<polygon label="{label}" points="{left},4;{right},4;{right},{low};{left},{low}" z_order="{order}"/>'
        for label, left, right, low, order in (("leaf", 6, 10, 8, orders[0]), ("cloud", 2, 20, 20, orders[1]))
    )
    image = f'<image id="0" name="a.jpg" width="32" height="24">{shapes}</image>'
    write(tmp_path / "images/a.jpg", make_image())
    write(tmp_path / "annotations.xml", f"<annotations><version>1.1</version>{image}</annotations>")
    found = inspect(tmp_path)
    assert found.fatal == []
    assert dict(found.items[0].pixels).get(found.labels.classes.index("leaf"), 0) == leaf


def tagged(root, tool):
    """Four images with a box each, the last one in val by what the tool says of the image, and two patients."""
    for number in range(4):
        write(root / f"{'data/' if tool == 'FiftyOne' else ''}{number}.jpg", make_image(tools.SIZE, number))
    splits, box = ["train", "train", "train", "val"], [[2, 3], [20, 15]]
    said = [{"split": split, "patient_id": f"p{number // 2}"} for number, split in enumerate(splits)]
    if tool == "LabelMe":
        for number, split in enumerate(splits):
            shape = {"label": "cat", "points": box, "shape_type": "rectangle"}
            flags = {name: name == split for name in ("train", "val")}
            tree = {
                "shapes": [shape],
                "imagePath": f"{number}.jpg",
                "imageHeight": 24,
                "imageWidth": 32,
                "flags": flags,
            }
            write(root / f"{number}.json", json.dumps(tree))
    if tool == "VIA":
        shape = {"name": "rect", "x": 2, "y": 3, "width": 18, "height": 12}
        regions = [{"shape_attributes": shape, "region_attributes": {"class": "cat"}}]
        entry = {f"{n}.jpg": {"filename": f"{n}.jpg", "regions": regions, "file_attributes": said[n]} for n in range(4)}
        write(root / "via.json", json.dumps(entry))
    if tool == "Label Studio":
        value = {"x": 10, "y": 10, "width": 50, "height": 40, "rectanglelabels": ["cat"]}
        result = [{"type": "rectanglelabels", "value": value, "original_width": 32, "original_height": 24}]
        tasks = [{"data": {"image": f"{n}.jpg", **said[n]}, "annotations": [{"result": result}]} for n in range(4)]
        write(root / "export.json", json.dumps(tasks))
    if tool == "FiftyOne":
        boxes = {"detections": [{"label": "cat", "bounding_box": [0.1, 0.1, 0.5, 0.4]}]}
        samples = [{"filepath": f"data/{n}.jpg", "tags": [splits[n]], "ground_truth": boxes} for n in range(4)]
        write(root / "samples.json", json.dumps({"samples": samples}))
    if tool == "Hugging Face":
        objects = {"bbox": [[2, 3, 18, 12]], "categories": ["cat"]}
        lines = (json.dumps({"file_name": f"{n}.jpg", "objects": objects, **said[n]}) for n in range(4))
        write(root / "metadata.jsonl", "\n".join(lines))


@pytest.mark.parametrize("tool", ["LabelMe", "VIA", "Label Studio", "FiftyOne", "Hugging Face"])
def test_what_a_tool_says_of_images_divides_them(tmp_path, tool):
    tagged(tmp_path, tool)
    found = inspect(tmp_path, how=LayoutOptions(task="detection"))
    assert found.fatal == []
    assert {split: [each.item.image.stem for each in items] for split, items in found.splits.items()} == {
        "train": ["0", "1", "2"], "val": ["3"],
    }  # fmt: skip
    if tool not in {"LabelMe", "FiftyOne"}:
        assert [each.item.group for each in found.splits["train"]] == ["p0", "p0", "p1"]


def test_a_region_of_several_labels_is_a_problem(tmp_path):
    tagged(tmp_path, "Label Studio")
    text = (tmp_path / "export.json").read_text()
    (tmp_path / "export.json").write_text(text.replace('["cat"]', '["cat", "dog"]', 1))
    assert words(tmp_path) == [
        "0.jpg: expected one label of each region, found cat, dog in export.json (task ?). Leave one, or leave the image out "
        "with --skip-bad."
    ]


@pytest.mark.parametrize("samples", [7, "x", [3], [{"filepath": "data/0.jpg", "tags": 5}]])
def test_labels_of_fiftyone_may_have_anything_beside_them(tmp_path, samples):
    write(tmp_path / "data/0.jpg", make_image(tools.SIZE))
    write(tmp_path / "labels.json", json.dumps({"classes": ["cat"], "labels": {"0": "cat"}, "samples": samples}))
    found = inspect(tmp_path)
    assert (found.fatal, found.labels.classes) == ([], ("cat",))

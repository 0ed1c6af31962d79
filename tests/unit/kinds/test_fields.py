from __future__ import annotations

import pytest

from penstock.errors import SchemaError
from penstock.kinds.fields import (
    ClassificationRecord,
    DetectionRecord,
    SegmentationRecord,
    decode_classification,
    decode_detection,
    decode_name,
    decode_segmentation,
    encode_classification,
    encode_detection,
    encode_segmentation,
)
from penstock.records import open_shard
from penstock.records.example import Fields, encode
from penstock.values import Object, Record


class TestSchema:
    def test_segmentation_has_deeplabs_eight_keys(self):
        payload = encode_segmentation(SegmentationRecord(b"img", b"msk", "name", "jpeg", 3, 4))

        assert Fields(payload, "x").names() == [
            "image/channels",
            "image/encoded",
            "image/filename",
            "image/format",
            "image/height",
            "image/segmentation/class/encoded",
            "image/segmentation/class/format",
            "image/width",
        ]
        assert decode_segmentation(Record("x", payload)) == SegmentationRecord(b"img", b"msk", "name", "jpeg", 3, 4)

    def test_segmentation_reads_records_with_the_two_images_only(self):
        payload = encode({"image/encoded": b"img", "image/segmentation/class/encoded": b"msk"})

        assert decode_segmentation(Record("x", payload)) == SegmentationRecord(b"img", b"msk", "", "", 0, 0)

    def test_classification_round_trips_and_needs_its_label(self):
        record = ClassificationRecord(b"img", 3, "name", "png", 3, 4, "cat")

        assert decode_classification(Record("x", encode_classification(record))) == record
        with pytest.raises(SchemaError) as caught:
            decode_classification(Record("x#1", encode({"image/encoded": b"img"})))
        assert str(caught.value) == (
            "x#1: expected field image/class/label (int64_list), found only image/encoded. The record is not of this "
            "task, or was written by another program."
        )

    def test_volumes_say_how_many_slices_they_have(self):
        record = SegmentationRecord(b"img", b"msk", "name", "png", 12, 4, 3)

        assert decode_segmentation(Record("x", encode_segmentation(record))) == record
        assert "image/slices" in Fields(encode_segmentation(record), "x").names()

    def test_detection_round_trips_with_the_object_detection_apis_keys(self):
        objects = (Object(1, 8, 4, 16, 20, "fig", True, False), Object(0, 0, 0, 64, 32, "", False, True))
        record = DetectionRecord(b"img", objects, "a", "jpeg", 32, 64)
        read = Fields(encode_detection(record), "x")

        assert decode_detection(Record("x", encode_detection(record))) == record
        assert decode_name(Record("x", encode_detection(record))) == "a"
        assert read.first_bytes("image/source_id") == read.first_bytes("image/filename") == b"a"
        assert read.floats("image/object/bbox/xmin") == [0.125, 0.0]
        assert read.floats("image/object/bbox/ymax") == [0.625, 1.0]
        assert read.ints("image/object/class/label") == [2, 1]
        alone = DetectionRecord(b"img", (), "a", "jpeg", 24, 32)
        assert decode_detection(Record("x", encode_detection(alone))) == alone

    @pytest.mark.parametrize("lists", [{}, {"text": [b"fig"], "is_crowd": [1], "difficult": [1, 0, 1]}])
    def test_what_is_not_said_of_every_object_is_not_said(self, lists):
        edges = {
            f"bbox/{edge}": [0.0, 0.5] if edge[1:] == "min" else [0.5, 1.0] for edge in ("xmin", "ymin", "xmax", "ymax")
        }
        objects = {f"image/object/{name}": value for name, value in {**edges, "class/label": [1, 2], **lists}.items()}
        if texts := objects.pop("image/object/text", []):
            objects["image/object/class/text"] = texts
        found = decode_detection(
            Record("x", encode({"image/encoded": b"i", "image/height": 4, "image/width": 8, **objects}))
        )

        assert found.objects == (
            Object(0, 0, 0, 4, 2, "fig" if lists else "", False, False), Object(1, 4, 2, 8, 4, "", False, False)
        )  # fmt: skip
        assert (found.name, found.format) == ("", "")

    @pytest.mark.parametrize(
        ("fields", "said"),
        [
            ({"image/height": 0, "image/width": 8}, "0 x 8, 0, 0, 0, 0 edges and 0 labels"),
            ({"image/height": 4, "image/width": 0}, "4 x 0, 0, 0, 0, 0 edges and 0 labels"),
            (
                {"image/height": 4, "image/width": 8, "image/object/class/label": [1, 2]},
                "4 x 8, 0, 0, 0, 0 edges and 2 labels",
            ),
        ],
    )
    def test_more_said_of_some_objects_than_of_others_is_named(self, fields, said):
        with pytest.raises(SchemaError) as caught:
            decode_detection(Record("x#4", encode({"image/encoded": b"i", **fields})))
        assert str(caught.value) == (
            "x#4: expected a size, and for every object four edges (image/object/bbox/...) and a label, found "
            f"{said}. Correct the program that wrote the record."
        )

    def test_names_that_are_no_text_are_refused(self):
        payload = encode({"image/encoded": b"i", "image/segmentation/class/encoded": b"m", "image/filename": b"\xff"})
        with pytest.raises(SchemaError) as caught:
            decode_segmentation(Record("x#2", payload))
        assert str(caught.value) == (
            "x#2: expected field image/filename as UTF-8 text, found bytes that are not (invalid start byte at byte "
            "0). Correct the program that wrote the record."
        )


def test_deeplabs_own_file_is_read(real_data):
    from penstock.images import decode_image, decode_mask

    shard = open_shard(real_data("deeplab_tfrecord") / "val-00000-of-00001.tfrecord")
    records = [decode_segmentation(record) for record in shard.read(0, len(shard))]

    assert len(records) == 3
    for record in records:
        image = decode_image(record.image, record.name)
        assert image.shape == (record.height, record.width, 3)
        assert decode_mask(record.mask, record.name, palette=True).shape == image.shape[:2]

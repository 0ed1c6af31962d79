from __future__ import annotations

import gzip
import os
import struct
import zlib

import google_crc32c
import pytest
from google.protobuf import descriptor_pb2, text_format
from hypothesis import given
from hypothesis import strategies as st
from strategies import fields, payloads

from penstock.errors import CorruptRecord, SchemaError, SourceError
from penstock.records import SegmentationRecord, ShardWriter, example, framing, open_shard, read_all
from penstock.records import index as indexing
from penstock.records.example import Fields, encode
from penstock.records.framing import frame, masked_crc
from penstock.records.schema import (
    ClassificationRecord,
    DetectionRecord,
    Object,
    decode_classification,
    decode_detection,
    decode_name,
    decode_segmentation,
    encode_classification,
    encode_detection,
    encode_segmentation,
)
from penstock.values import Record

GOLDEN_FRAME = bytes.fromhex("0300000000000000b099490e6162636e57f121")
"""tf.io.TFRecordWriter(...).write(b"abc"), TensorFlow 2.21."""


def write(path, items):
    with ShardWriter(path) as writer:
        for item in items:
            writer.write(item)
    return path


def payloads_of(path):
    shard = open_shard(path)
    return [record.payload for record in shard.read(0, len(shard))]


def test_framing_is_tensorflows():
    assert frame(b"abc") == GOLDEN_FRAME


def test_crc_is_castagnoli_masked():
    """RFC 3720, B.4: 32 bytes of zeros have CRC32C 8a9136aa."""
    assert google_crc32c.value(bytes(32)) == 0x8A9136AA
    assert masked_crc(bytes(32)) == (((0x8A9136AA >> 15) | (0x8A9136AA << 17)) + 0xA282EAD8) & 0xFFFFFFFF


@given(st.lists(payloads, min_size=1, max_size=8), st.data())
def test_what_is_written_is_read_from_any_record_to_any_other(tmp_path_factory, items, data):
    path = write(tmp_path_factory.mktemp("shard") / "a.tfrecord", items)
    start = data.draw(st.integers(0, len(items)))
    stop = data.draw(st.integers(start, len(items)))
    shard = open_shard(path)

    assert [r.payload for r in shard.read(start, stop)] == items[start:stop]
    assert [r.origin for r in shard.read(start, stop)] == [f"a.tfrecord#{i}" for i in range(start, stop)]
    assert [r.payload for r in read_all(path)] == items


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress])
def test_compressed_shards_are_read_at_random(tmp_path, pack):
    path = tmp_path / "a.tfrecord.gz"
    path.write_bytes(pack(frame(b"one") + frame(b"two") + frame(b"three")))
    shard = open_shard(path)

    assert [r.payload for r in shard.read(1, 3)] == [b"two", b"three"]
    assert not indexing.path_of(path).exists()


def test_compressed_damage_is_named(tmp_path):
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(frame(b"one"))[:-4])
    with pytest.raises(CorruptRecord) as caught:
        open_shard(path)
    assert str(caught.value) == (
        f"{path}: expected a whole GZIP or ZLIB stream, found a damaged one (Compressed file ended before the "
        "end-of-stream marker was reached). Restore the shard from a copy, or pack it again."
    )


class TestIndex:
    def test_is_rebuilt_when_missing_stale_or_damaged(self, tmp_path):
        path = write(tmp_path / "a.tfrecord", [b"x", b"yy"])
        sidecar = indexing.path_of(path)
        good = sidecar.read_bytes()

        sidecar.unlink()
        assert payloads_of(path) == [b"x", b"yy"]
        assert sidecar.read_bytes() == good
        for bad in (good[:-3], good[:40], b"", good[:-1] + bytes([good[-1] ^ 1]), b"nonsense"):
            sidecar.write_bytes(bad)
            assert payloads_of(path) == [b"x", b"yy"]
            assert sidecar.read_bytes() == good
        path.write_bytes(frame(b"other") + frame(b"z"))
        assert payloads_of(path) == [b"other", b"z"]

    def test_is_not_needed_in_a_read_only_folder(self, tmp_path, monkeypatch):
        path = tmp_path / "a.tfrecord"
        path.write_bytes(frame(b"x"))
        if os.geteuid() == 0:  # root may write anywhere: take the folder's place by a name that cannot be made
            monkeypatch.setattr(indexing.tempfile, "NamedTemporaryFile", refuse)
        else:
            tmp_path.chmod(0o500)

        assert payloads_of(path) == [b"x"]
        assert not indexing.path_of(path).exists()

    def test_digest_follows_content_not_place(self, tmp_path):
        a = open_shard(write(tmp_path / "a.tfrecord", [b"x", b"y"])).index.digest
        (tmp_path / "sub").mkdir()
        b = open_shard(write(tmp_path / "sub" / "b.tfrecord", [b"x", b"y"])).index.digest
        c = open_shard(write(tmp_path / "c.tfrecord", [b"x", b"z"])).index.digest

        assert a == b != c


def refuse(*_, **__):
    raise PermissionError(13, "Permission denied")


@pytest.mark.parametrize("length", [0x8B1F, 0x9C78, 0x0178])
def test_a_length_may_begin_as_compressed_files_do(tmp_path, length):
    path = write(tmp_path / "a.tfrecord", [bytes(length)])

    assert path.read_bytes()[:2] in (b"\x1f\x8b", b"\x78\x9c", b"\x78\x01")
    assert payloads_of(path) == [bytes(length)]


@pytest.mark.parametrize("kind", ["gzip", "zlib"])
def test_a_compressed_shard_may_be_as_large_as_is_said(tmp_path, monkeypatch, kind):
    path, content = tmp_path / "a.tfrecord", frame(bytes(100)) + frame(bytes(3))
    path.write_bytes(gzip.compress(content) if kind == "gzip" else zlib.compress(content))
    monkeypatch.setattr(framing, "MOST_UNPACKED", len(content))
    assert len(open_shard(path)) == 2
    monkeypatch.setattr(framing, "MOST_UNPACKED", len(content) - 1)
    with pytest.raises(CorruptRecord, match=r"expected at most 0 MiB in a compressed shard, .*, found more\. "):
        open_shard(path)


class TestDamage:
    """Every message names shard, record and byte."""

    @pytest.fixture
    def shard(self, tmp_path):
        return write(tmp_path / "a.tfrecord", [b"first", b"second", b"third"])

    def message(self, path):
        """The same, whether a shard is indexed and read, or read from its beginning to its end."""
        with pytest.raises(CorruptRecord) as caught:
            payloads_of(path)
        with pytest.raises(CorruptRecord) as other:
            list(read_all(path))
        assert str(other.value) == str(caught.value)
        return str(caught.value)

    def damage(self, path, position, bit=0):
        data = bytearray(path.read_bytes())
        data[position] ^= 1 << bit
        path.write_bytes(data)

    def test_a_flipped_payload_bit(self, shard):
        self.damage(shard, 21 + 12)
        message = self.message(shard)

        assert message.startswith(f"{shard}#1 (byte 21): expected a payload of 6 bytes with checksum ")
        assert message.endswith(". Some bit of the record is wrong. Restore the shard from a copy, or pack it again.")

    def test_a_flipped_length_bit(self, shard):
        self.damage(shard, 21)

        message = self.message(shard)
        assert message.startswith(f"{shard}#1 (byte 21): expected a record length with checksum ")
        assert message.endswith(". The file is damaged. Restore the shard from a copy, or pack it again.")

    def test_a_wrong_length_with_a_right_checksum(self, shard):
        data = bytearray(shard.read_bytes())
        length = struct.pack("<Q", 10**9)
        data[:12] = length + struct.pack("<I", masked_crc(length))
        shard.write_bytes(data)

        assert self.message(shard) == (
            f"{shard}#0 (byte 0): expected a payload of 1,000,000,000 bytes and its checksum, found the end of the "
            f"file after {len(data) - 12} bytes of them. The shard was cut short. Restore the shard from a copy, or "
            "pack it again."
        )

    def test_a_cut_in_a_payload(self, shard):
        shard.write_bytes(shard.read_bytes()[:-7])

        assert self.message(shard) == (
            f"{shard}#2 (byte 43): expected a payload of 5 bytes and its checksum, found the end of the file after 2 "
            "bytes of them. The shard was cut short. Restore the shard from a copy, or pack it again."
        )

    def test_a_cut_in_a_header(self, shard):
        shard.write_bytes(shard.read_bytes()[:26])

        assert self.message(shard) == (
            f"{shard}#1 (byte 21): expected a record header of 12 bytes, found the end of the file after 5 bytes of "
            "it. The shard was cut short. Restore the shard from a copy, or pack it again."
        )

    def test_an_empty_file(self, tmp_path):
        path = tmp_path / "empty.tfrecord"
        path.touch()

        assert self.message(path) == (
            f"{path}: expected a TFRecord with at least one record, found an empty file. Remove the file, or pack it "
            "again."
        )

    def test_no_tfrecord_at_all(self, tmp_path):
        path = tmp_path / "notes.txt"
        path.write_text("these are only some notes")
        message = self.message(path)

        assert message.startswith(f"{path}#0 (byte 0): expected a record length with checksum ")
        assert message.endswith(
            ". The file is not a TFRecord, or its start is damaged. Restore the shard from a copy, or pack it again."
        )

    def test_a_change_behind_a_fresh_index(self, shard):
        opened = open_shard(shard)
        shard.write_bytes(frame(b"f") + frame(b"second") + frame(b"third"))
        with pytest.raises(CorruptRecord) as caught:
            list(opened.read(0, 1))
        assert str(caught.value) == (
            f"{shard}#0 (byte 0): expected a record of 5 bytes, as the index says, found one of 1 byte. The shard "
            "changed after it was indexed. Restore the shard from a copy, or pack it again."
        )

    def test_a_shard_that_is_gone(self, shard):
        opened = open_shard(shard)
        shard.unlink()
        with pytest.raises(SourceError) as caught:
            list(opened.read(0, 1))
        assert str(caught.value) == (
            f"{shard}: expected a readable file, found no such file or directory. Check the path and its permissions."
        )
        for opening in (open_shard, indexing.of):
            with pytest.raises(SourceError) as other:
                opening(shard)
            assert str(other.value) == str(caught.value)


def test_a_shard_is_on_disk_before_it_has_its_name(tmp_path, monkeypatch):
    path, synced = tmp_path / "a.tfrecord", []
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append((os.fstat(handle).st_size, path.exists())))
    with ShardWriter(path) as writer:
        assert [writer.write(payload) for payload in (b"first", b"second", b"third")] == [0, 1, 2]

    assert synced == [(path.stat().st_size, False)]
    assert indexing.path_of(path).stat().st_mode & 0o777 == 0o644


@given(st.lists(st.integers(0, 60), min_size=1, max_size=12), st.integers(1, 200), st.data())
def test_runs_of_records_are_as_long_as_their_bytes_allow(tmp_path_factory, lengths, limit, data):
    path = write(tmp_path_factory.mktemp("spans") / "a.tfrecord", [bytes(length) for length in lengths])
    start = data.draw(st.integers(0, len(lengths)))
    stop = data.draw(st.integers(start, len(lengths)))
    runs = list(indexing.spans(indexing.of(path), start, stop, limit))
    framed = [length + 16 for length in lengths]

    assert [number for first, last in runs for number in range(first, last)] == list(range(start, stop))
    for first, last in runs:
        assert last - first == 1 or sum(framed[first:last]) <= limit
        assert last == stop or sum(framed[first : last + 1]) > limit


def test_a_failed_write_leaves_nothing(tmp_path):
    def fail():
        with ShardWriter(tmp_path / "a.tfrecord") as writer:
            writer.write(b"x")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert list(tmp_path.iterdir()) == []


class TestExample:
    @given(fields)
    def test_what_is_encoded_is_decoded(self, values):
        read = Fields(encode(values), "here#0")

        assert read.names() == sorted(values)
        for name, value in values.items():
            if isinstance(value, bytes):
                assert read.first_bytes(name) == value
            elif isinstance(value, int):
                assert read.first_int(name) == value
            elif isinstance(value[0], float):
                assert read.floats(name) == value

    def test_bytes_are_tensorflows(self):
        """tf.train.Example(...).SerializeToString(deterministic=True), TensorFlow 2.21."""
        assert encode({"i": [1, -2], "f": [0.5, 1.5], "b": [b"x", b"yz"], "s": "text"}) == GOLDEN_EXAMPLE

    def test_errors_name_record_and_field(self):
        read = Fields(encode({"a": 1, "e": b"x"}), "here#7")
        with pytest.raises(SchemaError) as caught:
            read.first_bytes("b")
        assert str(caught.value) == (
            "here#7: expected field b (bytes_list), found only a, e. The record is not of this task, or was written "
            "by another program."
        )
        with pytest.raises(SchemaError) as caught:
            read.first_bytes("a")
        assert str(caught.value) == (
            "here#7: expected field a as bytes_list, found int64_list. Check which program wrote the record."
        )
        with pytest.raises(SchemaError) as caught:
            Fields(b"\xff\xff\xff", "here#8")
        assert str(caught.value) == (
            "here#8: expected a tf.train.Example, found 3 bytes that do not parse as one. Check which program wrote "
            "the record."
        )

    def test_messages_are_described_as_tensorflow_does(self):
        """tensorflow/core/example/feature.proto and example.proto."""
        assert example._describe() == text_format.Parse(PROTO, descriptor_pb2.FileDescriptorProto())
        built = example._build().FromString(GOLDEN_EXAMPLE)
        assert built.DESCRIPTOR.full_name == "tensorflow.Example"
        assert list(built.features.feature["i"].int64_list.value) == [1, -2]

    def test_a_record_without_fields_says_so(self):
        with pytest.raises(SchemaError, match=r"x#1: expected field a \(bytes_list\), found only no fields at all\. "):
            Fields(encode({}), "x#1").first_bytes("a")

    def test_values_of_other_types_are_refused(self):
        with pytest.raises(TypeError, match=r"field a: a dict does not fit a tf\.train\.Example"):
            encode({"a": [{}]})


GOLDEN_EXAMPLE = bytes.fromhex(
    "0a480a0e0a016212090a070a01780a02797a0a110a0166120c120a0a080000003f0000c03f0a140a0169120f1a0d0a0b01feffffffffffff"
    "ffff010a0d0a017312080a060a0474657874"
)


PROTO = """
name: "penstock/example.proto" package: "tensorflow" syntax: "proto3"
message_type {
  name: "BytesList" field { name: "value" number: 1 label: LABEL_REPEATED type: TYPE_BYTES json_name: "value" }
}
message_type {
  name: "FloatList" field { name: "value" number: 1 label: LABEL_REPEATED type: TYPE_FLOAT json_name: "value" }
}
message_type {
  name: "Int64List" field { name: "value" number: 1 label: LABEL_REPEATED type: TYPE_INT64 json_name: "value" }
}
message_type {
  name: "Feature"
  field { name: "bytes_list" number: 1 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".tensorflow.BytesList" oneof_index: 0 }
  field { name: "float_list" number: 2 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".tensorflow.FloatList" oneof_index: 0 }
  field { name: "int64_list" number: 3 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".tensorflow.Int64List" oneof_index: 0 }
  oneof_decl { name: "kind" }
}
message_type {
  name: "Features"
  field { name: "feature" number: 1 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: ".tensorflow.Features.FeatureEntry" }
  nested_type {
    name: "FeatureEntry"
    field { name: "key" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
    field { name: "value" number: 2 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".tensorflow.Feature" }
    options { map_entry: true }
  }
}
message_type {
  name: "Example"
  field { name: "features" number: 1 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".tensorflow.Features" }
}
"""


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
            f"{said}. Check which program wrote the record."
        )

    def test_names_that_are_no_text_are_refused(self):
        payload = encode({"image/encoded": b"i", "image/segmentation/class/encoded": b"m", "image/filename": b"\xff"})
        with pytest.raises(SchemaError) as caught:
            decode_segmentation(Record("x#2", payload))
        assert str(caught.value) == (
            "x#2: expected field image/filename as UTF-8 text, found bytes that are not (invalid start byte at byte "
            "0). Check which program wrote the record."
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

from __future__ import annotations

import gc
import weakref

import pytest
from google.protobuf import descriptor_pb2, text_format
from hypothesis import given
from support.strategies import fields

from penstock.errors import SchemaError
from penstock.records import example
from penstock.records.example import Fields, encode

_KINDS = (("f", "float"), ("i", "int64"), ("b", "bytes"))


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

    def test_a_collection_leaves_the_classes_of_messages(self):
        """Where it cleared one while a thread of a feed was given it, the process died of a segmentation fault."""
        features = example.Example.FromString(encode({"f": 0.5, "i": 1, "b": b"x"})).features
        lists = [getattr(features.feature[name], f"{kind}_list") for name, kind in _KINDS]
        classes = [weakref.ref(type(message)) for message in (features, features.feature["f"], *lists)]
        del features, lists

        gc.collect()

        assert [found().__name__ for found in classes] == ["Features", "Feature", "FloatList", "Int64List", "BytesList"]

    def test_errors_name_record_and_field(self):
        read = Fields(encode({"a": 1, "e": b"x"}), "here#7")
        with pytest.raises(SchemaError) as caught:
            read.first_bytes("b")
        assert str(caught.value) == (
            "here#7: expected field b (bytes_list), found only a, e. The record is not of this task, or was written "
            "by another program."
        )
        assert (read.first_int("b", 3), read.floats("b")) == (3, [])
        with pytest.raises(SchemaError) as caught:
            read.first_bytes("a")
        assert str(caught.value) == (
            "here#7: expected field a as bytes_list, found int64_list. Correct the program that wrote the record."
        )
        with pytest.raises(SchemaError) as caught:
            Fields(b"\xff\xff\xff", "here#8")
        assert str(caught.value) == (
            "here#8: expected a tf.train.Example, found 3 bytes that do not parse as one. Correct the program that "
            "wrote the record."
        )

    def test_messages_are_described_as_tensorflow_does(self):
        """tensorflow/core/example/feature.proto and example.proto."""
        assert example._describe() == text_format.Parse(PROTO, descriptor_pb2.FileDescriptorProto())
        built = example._build()["Example"].FromString(GOLDEN_EXAMPLE)
        assert built.DESCRIPTOR.full_name == "tensorflow.Example"
        assert list(built.features.feature["i"].int64_list.value) == [1, -2]

    def test_a_record_without_fields_says_so(self):
        with pytest.raises(SchemaError, match=r"x#1: expected field a \(bytes_list\), found no fields\. "):
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

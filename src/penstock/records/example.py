"""`tf.train.Example` without TensorFlow: the same protobuf messages, built from their description.

Source: tensorflow/core/example/{example,feature}.proto. The messages live in a pool of their own, so that TensorFlow
may be imported in the same process.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from penstock.errors import SchemaError
from penstock.progress import counted

Value = bytes | str | int | float | Sequence[bytes] | Sequence[int] | Sequence[float]
_Field = descriptor_pb2.FieldDescriptorProto
_LISTS: Final = (("bytes_list", "BytesList"), ("float_list", "FloatList"), ("int64_list", "Int64List"))
_TYPES: Final = {"BytesList": _Field.TYPE_BYTES, "FloatList": _Field.TYPE_FLOAT, "Int64List": _Field.TYPE_INT64}


def _describe() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(name="penstock/example.proto", package="tensorflow", syntax="proto3")
    for name, kind in _TYPES.items():
        file.message_type.add(name=name).field.add(
            name="value", number=1, type=kind, label=_Field.LABEL_REPEATED, json_name="value"
        )
    feature = file.message_type.add(name="Feature")
    feature.oneof_decl.add(name="kind")
    for number, (name, kind_name) in enumerate(_LISTS, 1):
        _message(feature, name, number, kind_name).oneof_index = 0
    features = file.message_type.add(name="Features")
    entry = features.nested_type.add(name="FeatureEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=_Field.TYPE_STRING, label=_Field.LABEL_OPTIONAL)
    _message(entry, "value", 2, "Feature")
    _message(features, "feature", 1, "Features.FeatureEntry").label = _Field.LABEL_REPEATED
    _message(file.message_type.add(name="Example"), "features", 1, "Features")
    return file


def _message(parent: descriptor_pb2.DescriptorProto, name: str, number: int, kind: str) -> _Field:
    return parent.field.add(
        name=name, number=number, type=_Field.TYPE_MESSAGE, type_name=f".tensorflow.{kind}", label=_Field.LABEL_OPTIONAL
    )


def _build() -> dict[str, type[Any]]:
    pool = descriptor_pool.DescriptorPool()
    pool.Add(_describe())
    names = ("Example", "Features", "Feature", *_TYPES)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"tensorflow.{name}")) for name in names}


# protobuf finds the classes of nested messages by weak references, and makes them anew for the first message after a
# collection. While the collector clears one, a thread of a feed may be given it, and the process dies of a segmentation
# fault. What is held here is never collected.
_MESSAGES: Final = _build()
Example: Final = _MESSAGES["Example"]


def encode(fields: Mapping[str, Value]) -> bytes:
    """Serialise fields as a `tf.train.Example`, the keys in sorted order so that equal fields give equal bytes.

    A `bytes` or `str` value becomes a bytes list of one, an `int` an int64 list, a `float` a float list; sequences
    become lists of the type of their first item.

    Raises:
        TypeError: a value has another type.
    """
    example = Example()
    feature = example.features.feature
    for name, value in sorted(fields.items()):
        items = [value] if isinstance(value, bytes | str | int | float) else list(value)
        first = items[0] if items else b""
        if isinstance(first, bytes | str):
            feature[name].bytes_list.value.extend(v.encode() if isinstance(v, str) else v for v in items)
        elif isinstance(first, int):
            feature[name].int64_list.value.extend(items)
        elif isinstance(first, float):
            feature[name].float_list.value.extend(items)
        else:
            message = f"field {name}: a {type(first).__name__} does not fit a tf.train.Example"
            raise TypeError(message)
    return bytes(example.SerializeToString(deterministic=True))


class Fields:
    """The fields of one record, read by name and type; errors name the record."""

    def __init__(self, payload: bytes, origin: str) -> None:
        try:
            self._feature = Example.FromString(payload).features.feature
        except DecodeError as error:
            raise SchemaError(
                origin,
                expected="a tf.train.Example",
                found=f"{counted(len(payload), 'byte')} that do not parse as one",
                remedy="Correct the program that wrote the record",
            ) from error
        self.origin = origin

    def names(self) -> list[str]:
        """All field names, sorted."""
        return sorted(self._feature)

    def digest(self, names: Sequence[str]) -> str:
        """A hash of some fields, of 16 hexadecimal digits."""
        found = hashlib.blake2b(digest_size=8)
        for name in names:
            found.update(f"{name}\n".encode() + self._feature[name].SerializeToString(deterministic=True))
        return found.hexdigest()

    def first_bytes(self, name: str, default: bytes | None = None) -> bytes:
        """The first value of a bytes field.

        Raises:
            SchemaError: there is none and no default was given, or the field is of another type.
        """
        values = self._list(name, "bytes_list")
        if not values and default is None:
            raise self._missing(name, "bytes_list")
        return bytes(values[0]) if values else default or b""

    def first_int(self, name: str, default: int | None = None) -> int:
        """The first value of an int64 field; raises as `first_bytes` does."""
        values = self._list(name, "int64_list")
        if not values and default is None:
            raise self._missing(name, "int64_list")
        return int(values[0]) if values else default or 0

    def floats(self, name: str) -> list[float]:
        """All values of a float field, empty when it is missing."""
        return list(self._list(name, "float_list"))

    def ints(self, name: str) -> list[int]:
        """All values of an int64 field, empty when it is missing."""
        return list(self._list(name, "int64_list"))

    def all_bytes(self, name: str) -> list[bytes]:
        """All values of a bytes field, empty when it is missing."""
        return list(self._list(name, "bytes_list"))

    def _list(self, name: str, kind: str) -> Sequence[Any]:
        if name not in self._feature:
            return ()
        feature = self._feature[name]
        found = feature.WhichOneof("kind")
        if found is None:
            return ()
        if found != kind:
            raise SchemaError(
                self.origin,
                expected=f"field {name} as {kind}",
                found=str(found),
                remedy="Correct the program that wrote the record",
            )
        values: Sequence[Any] = getattr(feature, kind).value
        return values

    def _missing(self, name: str, kind: str) -> SchemaError:
        return SchemaError(
            self.origin,
            expected=f"field {name} ({kind})",
            found=f"only {', '.join(self.names())}" if self.names() else "no fields",
            remedy="The record is not of this task, or was written by another program",
        )

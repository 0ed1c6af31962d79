from __future__ import annotations

import base64
import zlib
from typing import Any

import pytest

from penstock.datasets.layouts import typed


@pytest.mark.parametrize(
    ("entry", "kind", "found"),
    [
        ({}, typed.Points, "no points"),
        ({"points": None}, typed.Points, "no points"),
        ({"points": 7}, typed.Points, "`int` instead of `array` in points"),
        ({"points": [[1, 2], [3]]}, typed.Points, "1 instead of `array` of length 2 in points[1]"),
        ({"points": [[1, "x"]]}, typed.Points, "`str` instead of `float` in points[0][1]"),
        ({"points": [[1, 2e6]]}, typed.Points, "no `float` < 1000000.0 in points[0][1]"),
        ({"points": [[1, 10**400]]}, typed.Points, "a number out of range in points[0][1]"),
        ([], typed.Points, "`array` instead of `object`"),
        (None, typed.Points, "`null` instead of `object`"),
    ],
)
def test_what_is_there_instead_is_said(entry, kind, found):
    with pytest.raises(ValueError, match=r".") as caught:
        typed.get(entry, "points", kind)
    assert str(caught.value) == found


@pytest.mark.parametrize(
    ("value", "kind", "read"),
    [
        ("1.5", typed.Coordinate, 1.5), (3, typed.Coordinate, 3.0), ("7", typed.Count, 7), (7.0, typed.Count, 7),
        (None, typed.Entries, None), ([1, "a"], typed.Entries, [1, "a"]), ("a", typed.Name, "a"), (4, typed.Name, 4),
    ],
)  # fmt: skip
def test_numbers_may_be_text(value, kind, read):
    found = typed.get({"it": value}, "it", kind)
    assert (found, type(found)) == (read, type(read))


def test_coordinates_are_read_by_their_names():
    assert typed.numbers({"y": "2", "x": 1, "z": "no"}, ("x", "y")) == [1.0, 2.0]
    with pytest.raises(ValueError, match=r"^no w$"):
        typed.numbers({"x": 1}, ("x", "w"))


@pytest.mark.parametrize(
    ("sides", "size"),
    [
        (("24", 32), (24, 32)), ((24.0, "32"), (24, 32)), ((0, 32), (0, 0)), ((-1, 32), (0, 0)), ((None, 32), (0, 0)),
        (("", "x"), (0, 0)), ((1 << 29, 2), (0, 0)), ((10**400, 2), (0, 0)), (([], {}), (0, 0)),
    ],
)  # fmt: skip
def test_a_size_that_is_none_is_not_stated(sides: tuple[Any, Any], size):
    assert typed.size(*sides) == size


def test_compressed_bytes_are_unpacked_so_far_as_an_image_has_them(monkeypatch):
    packed = base64.b64encode(zlib.compress(bytes(1000))).decode()
    assert typed.unpacked(packed) == bytes(1000)
    monkeypatch.setattr(typed, "_LARGEST", 999)
    for text, found in (
        (packed, "more than 999 bytes"),
        (base64.b64encode(zlib.compress(b"abc")[:-1]).decode(), "compressed bytes that end early"),
        (base64.b64encode(b"abcdef").decode(), "Error -3 while decompressing data: incorrect header check"),
        ("é", "string argument should contain only ASCII characters"),
        ("a", "Invalid base64-encoded string"),
    ):
        with pytest.raises(ValueError, match=r".") as caught:
            typed.unpacked(text)
        assert str(caught.value).startswith(found)

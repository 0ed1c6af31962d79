from __future__ import annotations

import pytest
from support.errors import refused

from penstock.datasets.layouts import jsons

TEXT = '{"shapes": [], "name": "Zürich"}'
TREE = {"shapes": [], "name": "Zürich"}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_files_of_other_encodings_are_read(tmp_path, encoding):
    mark = {"utf-16-le": b"\xff\xfe", "utf-16-be": b"\xfe\xff"}.get(encoding, b"")
    (tmp_path / "a.json").write_bytes(mark + TEXT.encode(encoding))

    assert jsons.read(tmp_path / "a.json") == TREE
    assert jsons.read_with(tmp_path / "a.json", (b'"shapes"',)) == TREE
    assert jsons.read_with(tmp_path / "a.json", (b'"objects"',)) is None


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (
            b'{"a": NaN}',
            "JSON is malformed: invalid character (byte 6); it holds NaN, which JSON does not have. Fix or remove it",
        ),
        (
            b"\xff\xfe{\0\xff",
            "'utf-16-le' codec can't decode byte 0xff in position 4: truncated data. Save the file as UTF-8",
        ),
        (b"[" * 9999, "maximum recursion depth exceeded while deserializing an object. Fix or remove it"),
    ],
)
def test_what_is_no_json_is_named(tmp_path, data, found):
    (tmp_path / "a.json").write_bytes(data)
    refused(jsons.read, tmp_path / "a.json", message=f"{tmp_path}/a.json: expected JSON, found {found}.")

from __future__ import annotations

import os
from array import array

import pytest
from support.errors import refused
from support.shards import payloads_of, write

from penstock.records import index as indexing
from penstock.records import open_shard
from penstock.records.framing import frame


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


def sealed(path, offsets, lengths):
    """An index of some records, written as ours are."""
    index = indexing.Index(array("Q", offsets), array("Q", lengths), array("I", [0] * len(offsets)))
    indexing.save(index, path)


@pytest.mark.parametrize(
    ("offsets", "lengths"),
    [
        ([0, 2**63 + 5], [1, 2]),
        ([0, 17], [1, 2**62]),
        ([17, 0], [2, 1]),
        ([0] * 1000, [1] * 1000),
        ([0], [1]),
        ([], []),
    ],
)
def test_one_that_does_not_cover_its_shard_is_not_believed(tmp_path, offsets, lengths):
    path = write(tmp_path / "a.tfrecord", [b"x", b"yy"])
    sealed(path, offsets, lengths)

    assert payloads_of(path) == [b"x", b"yy"]


def test_nobody_waits_for_pipes(tmp_path):
    path = write(tmp_path / "a.tfrecord", [b"x"])
    indexing.path_of(path).unlink()
    os.mkfifo(indexing.path_of(path))
    assert payloads_of(path) == [b"x"]
    path.unlink()
    os.mkfifo(path)
    refused(
        open_shard, path,
        message=f"{path}: expected a readable file, found not a regular file. Check the path and its permissions.",
    )  # fmt: skip

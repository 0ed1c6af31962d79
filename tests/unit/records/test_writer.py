from __future__ import annotations

import os

import pytest

from penstock.records import ShardWriter
from penstock.records import index as indexing


def test_a_shard_is_on_disk_before_it_has_its_name(tmp_path, monkeypatch):
    path, synced = tmp_path / "a.tfrecord", []
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append((os.fstat(handle).st_size, path.exists())))
    with ShardWriter(path) as writer:
        assert [writer.write(payload) for payload in (b"first", b"second", b"third")] == [0, 1, 2]

    assert synced == [(path.stat().st_size, False)]
    assert indexing.path_of(path).stat().st_mode & 0o777 == 0o644


def test_a_failed_write_leaves_nothing(tmp_path):
    def fail():
        with ShardWriter(tmp_path / "a.tfrecord") as writer:
            writer.write(b"x")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert list(tmp_path.iterdir()) == []

from __future__ import annotations

import shutil

import pytest

from penstock.errors import SourceError
from penstock.records import ShardWriter
from penstock.sources import FilesSource, MemorySource


def write(path, items):
    path.parent.mkdir(parents=True, exist_ok=True)
    with ShardWriter(path) as writer:
        for item in items:
            writer.write(item)


def everything(source):
    return [r for p in source.snapshot().partitions for r in source.read(p.name, p.start, p.stop)]


@pytest.fixture
def folder(tmp_path):
    for i in range(3):
        write(tmp_path / f"train-{i}.tfrecord", [b"%d-%d" % (i, k) for k in range(i + 1)])
    return tmp_path


def test_globs_and_paths_name_each_shard_once_in_order(folder):
    source = FilesSource(folder / "train-*", folder / "train-1.tfrecord")

    assert [p.name for p in source.snapshot().partitions] == [f"train-{i}.tfrecord" for i in range(3)]
    assert [r.payload for r in everything(source)] == [b"0-0", b"1-0", b"1-1", b"2-0", b"2-1", b"2-2"]
    assert everything(source)[3].origin == "train-2.tfrecord#0"


def test_snapshots_follow_content_not_place(folder, tmp_path_factory):
    copy = tmp_path_factory.mktemp("copy")
    for path in folder.glob("*.tfrecord"):
        shutil.copy(path, copy)
    first = FilesSource(folder / "*.tfrecord").snapshot()

    assert FilesSource(copy / "*.tfrecord").snapshot().digest == first.digest
    write(copy / "train-1.tfrecord", [b"1-0", b"1-x"])
    assert FilesSource(copy / "*.tfrecord").snapshot().digest != first.digest


def test_equal_names_are_told_apart_by_folder(tmp_path):
    for split in ("a", "b"):
        write(tmp_path / split / "x.tfrecord", [split.encode()])
    source = FilesSource(tmp_path / "*" / "x.tfrecord")

    assert [r.origin for r in everything(source)] == ["a/x.tfrecord#0", "b/x.tfrecord#0"]


def test_nothing_found_is_an_error(tmp_path):
    with pytest.raises(SourceError) as caught:
        FilesSource(f"{tmp_path}/train-*").snapshot()
    assert str(caught.value) == (
        f"{tmp_path}/train-*: expected files that match the pattern, found none. Check the folder and the pattern; "
        "quote it so that the shell leaves it alone."
    )
    with pytest.raises(SourceError) as caught:
        FilesSource(tmp_path).snapshot()
    assert str(caught.value) == (
        f"{tmp_path}: expected a TFRecord file, found a folder. Name the file, or give a glob such as "
        "'DIR/train-*.tfrecord'."
    )
    with pytest.raises(SourceError, match="expected a TFRecord file, found nothing"):
        FilesSource(tmp_path / "x").snapshot()


def test_unknown_partitions_are_refused(folder):
    with pytest.raises(SourceError) as caught:
        FilesSource(folder / "*.tfrecord").read("other", 0, 1)
    assert str(caught.value) == (
        f"{folder}/*.tfrecord: expected a shard named other, found 3 others. Open the same files that the snapshot was "
        "taken from."
    )
    with pytest.raises(SourceError, match="expected a partition named b, found a"):
        next(MemorySource({"a": [b""]}).read("b", 0, 1))


def test_a_shard_that_a_link_names_too_is_one(tmp_path):
    from penstock.records import ShardWriter

    with ShardWriter(tmp_path / "a.tfrecord") as writer:
        writer.write(b"x")
    (tmp_path / "b.tfrecord").symlink_to("a.tfrecord")
    assert len(FilesSource(tmp_path / "*.tfrecord").snapshot()) == 1

"""A record that another one has replaced, sound in itself and of the same length: it is not the one that was packed."""

from __future__ import annotations

import os

import pytest
from support.commands import call
from support.training import recipe

from penstock.datasets import pack
from penstock.datasets.inspection import inspect
from penstock.errors import CorruptRecord
from penstock.records import framing, open_shard
from penstock.records.index import path_of
from penstock.session import Hook
from penstock.training import train


@pytest.fixture
def data(raw, tmp_path):
    return pack(inspect(raw), tmp_path / "data")


def replace(path, number):
    """Change one byte of a record's name, with its checksum, and leave the shard's size and time as they were."""
    shard, status = open_shard(path), path.stat()
    (record,) = shard.read(number, number + 1)
    payload = bytearray(record.payload)
    place = payload.index(b"scene-")
    payload[place] = ord("S")
    with path.open("r+b") as handle:
        handle.seek(shard.index.offsets[number])
        handle.write(framing.frame(bytes(payload)))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert path.stat().st_size == status.st_size
    return shard


def message(path, shard, number, found):
    place = f"{path}#{number} (byte {shard.index.offsets[number]:,})"
    stated = shard.index.checksums[number]
    return (
        f"{place}: expected the record that was indexed, with checksum {stated:08x}, found another of the same length, "
        f"with checksum {found:08x}. The shard changed after it was indexed. Restore the shard from a copy, or pack it "
        "again."
    )


@pytest.mark.parametrize("number", [0, 3])
def test_reading_names_it(data, number):
    path = data.folder / data.split("train").shards[0].name
    shard = replace(path, number)
    with pytest.raises(CorruptRecord) as caught:
        list(open_shard(path).read(0, len(shard)))
    with path.open("rb") as handle:
        handle.seek(shard.index.offsets[number] + shard.index.lengths[number] + framing.HEADER.size)
        (found,) = framing.FOOTER.unpack(handle.read(4))

    assert str(caught.value) == message(path, shard, number, found)


@pytest.mark.parametrize("index", ["as it was", "gone"])
def test_verify_names_it(data, capsys, index):
    """With the index of before, and with one that is made anew and so fits the record."""
    path = data.folder / data.split("train").shards[0].name
    replace(path, 2)
    if index == "gone":
        path_of(path).unlink()
    code, out, _ = call("verify", data.folder, capsys=capsys)

    assert code == 1
    assert out.splitlines()[0].startswith(
        f"{path}{'#2 (byte ' if index == 'as it was' else ': expected the records that'}"
    )
    assert out.splitlines()[-1].endswith(", 1 fault")


def test_a_training_ends_where_it_meets_it(data, tmp_path):
    class Replaces(Hook):
        def after_step(self, session):
            if session.step == 2:
                for shard in data.split("train").shards:
                    for number in range(shard.records):
                        replace(data.folder / shard.name, number)

    with pytest.raises(CorruptRecord, match="expected the record that was indexed, with checksum"):
        train(recipe(data.folder, evaluate_every=99), tmp_path / "runs", hooks=[Replaces()])

from __future__ import annotations

import gzip
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.errors import refused
from support.shards import payloads_of, write
from support.strategies import payloads

from penstock.errors import CorruptRecord, SourceError
from penstock.records import framing, open_shard, read_all
from penstock.records import index as indexing
from penstock.records.framing import frame, masked_crc


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


@pytest.mark.parametrize("length", [0x8B1F, 0x9C78, 0x0178])
def test_a_length_may_begin_as_compressed_files_do(tmp_path, length):
    path = write(tmp_path / "a.tfrecord", [bytes(length)])

    assert path.read_bytes()[:2] in (b"\x1f\x8b", b"\x78\x9c", b"\x78\x01")
    assert payloads_of(path) == [bytes(length)]


@pytest.mark.parametrize("kind", ["gzip", "zlib"])
def test_a_compressed_shard_may_be_as_large_as_is_said(tmp_path, monkeypatch, kind):
    path, content = tmp_path / "a.tfrecord", frame(bytes(100)) + frame(bytes(3))
    path.write_bytes(gzip.compress(content) if kind == "gzip" else zlib.compress(content))
    monkeypatch.setattr(framing, "MAX_UNPACKED", len(content))
    assert len(open_shard(path)) == 2
    monkeypatch.setattr(framing, "MAX_UNPACKED", len(content) - 1)
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


def test_what_is_no_tfrecord_is_not_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(framing, "MAX_UNPACKED", 0)
    path = tmp_path / "a.tfrecord"
    path.write_bytes(gzip.compress(bytes(1 << 20)))
    message = (
        f"{path}#0 (byte 0): expected a record length with checksum 07980329, found checksum 00000000. The file is not a "
        "TFRecord, or its start is damaged. Restore the shard from a copy, or pack it again."
    )
    refused(open_shard, path, message=message)


def test_a_small_file_that_unpacks_to_gigabytes_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(framing, "MAX_UNPACKED", 1 << 20)
    path = tmp_path / "a.tfrecord"
    path.write_bytes(gzip.compress(framing.frame(bytes(4 << 20))))
    with pytest.raises(CorruptRecord) as caught:
        open_shard(path)

    assert str(caught.value) == (
        f"{path}: expected at most 1 MiB in a compressed shard, which is kept in memory, found more. Unpack the file "
        "(gunzip), or pack the data again into smaller shards."
    )
    monkeypatch.undo()
    assert len(open_shard(path)) == 1

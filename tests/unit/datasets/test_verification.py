from __future__ import annotations

import dataclasses
import os
import random
import struct

import numpy as np
import pytest
from support.commands import call

from penstock.datasets import FolderDataset, inspect, pack, scenes, verify
from penstock.datasets.occurrences import path_of
from penstock.records import manifest
from penstock.sources import FilesSource


class TestVerify:
    @pytest.fixture
    def dataset(self, tmp_path):
        """Small images in one shard a split, so that thousands of damages are quick."""
        scenes.write_folder(tmp_path / "raw", {"train": 6, "val": 2}, (24, 32), seed=1)
        return pack(inspect(tmp_path / "raw"), tmp_path / "packed")

    def test_sound_data_is_sound(self, packed):
        verdict = verify(packed)

        assert (verdict.sound, verdict.faults) == (28, ())

    @pytest.mark.parametrize(
        ("change", "found"),
        [
            (lambda path: path.write_bytes(b"x"), "expected a manifest of the records, found "),
            (lambda path: manifest.write(path, {"train": manifest.read(path)["val"]}), "expected the records of the "),
        ],
    )
    def test_another_manifest_is_named(self, dataset, change, found):
        change(dataset.manifest)
        (fault,) = verify(dataset).faults
        assert fault.startswith(f"{dataset.folder}/manifest.jsonl.gz: {found}")

    def test_a_dataset_without_a_manifest_is_sound(self, dataset):
        dataset.manifest.unlink()
        assert verify(dataset).faults == ()

    def test_four_hundred_damages_are_all_named(self, dataset):
        """Bit flips, cuts, swaps, doubled and zeroed stretches: each is found, named, and ends in good time."""
        path = dataset.folder / "train-00000-of-00001.tfrecord"
        whole, draw = path.read_bytes(), random.Random(7)
        for number in range(400):
            damaged = damage(whole, draw)
            assert damaged != whole
            path.write_bytes(damaged)
            verdict = verify(dataset, threads=1)
            assert verdict.faults, number
            assert all(path.name in fault for fault in verdict.faults), number
        path.write_bytes(whole)
        assert verify(dataset).faults == ()

    def test_a_split_by_itself_is_read_alone(self, dataset, capsys):
        """Damage in train is not seen by who asks for val alone."""
        path = dataset.folder / "train-00000-of-00001.tfrecord"
        path.write_bytes(path.read_bytes()[:-1])

        assert call("verify", dataset.folder, "--split", "val", capsys=capsys)[:2] == (
            0,
            "2 records are sound, 0 faults\n",
        )
        assert call("verify", dataset.folder, "--split", "train", capsys=capsys)[0] == 1
        code, _, err = call("verify", dataset.folder, "--split", "nope", capsys=capsys)
        assert code == 2
        assert err.startswith(f"error: {dataset.folder} has no split named nope, only train, val.")

    def test_damage_under_a_fresh_index_is_named(self, dataset):
        """The sidecar still fits by size and time: damage must show all the same."""
        path = dataset.folder / "train-00000-of-00001.tfrecord"
        whole, status, draw = path.read_bytes(), path.stat(), random.Random(8)
        for _ in range(200):
            damaged = bytearray(whole)
            damaged[draw.randrange(len(whole))] ^= 1 << draw.randrange(8)
            path.write_bytes(damaged)
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
            assert verify(dataset, threads=1).faults

    def test_lost_records_are_counted(self, dataset):
        path = dataset.folder / "train-00000-of-00001.tfrecord"
        shard = FilesSource(path).shards[path.name]
        path.write_bytes(path.read_bytes()[: shard.index.offsets[4]])

        assert verify(dataset).faults == (
            f"{path}: expected 6 records, as dataset.json says, found 4. Pack the dataset again.",
        )

    def test_labels_that_do_not_fit_are_named(self, dataset):
        fewer = dataclasses.replace(dataset.description, classes=dataset.description.classes[:2])
        faults = verify(FolderDataset(dataset.folder, fewer)).faults

        assert faults
        assert all("(mask): expected class ids from 0 to 1, or the ignore label 255, found id " in f for f in faults)

    def test_other_classes_than_the_records_have_are_named(self, dataset):
        """Sampling reads them of a file beside the shard, in place of the records."""
        shard = dataset.split("train").shards[0]
        path = path_of(dataset.folder / shard.name)
        np.save(path, np.load(path)[::-1])

        assert verify(dataset).faults == (
            f"{path}: expected the classes of the records, found another file. Pack the dataset again.",
        )


def damage(whole, draw):
    data, kind = bytearray(whole), draw.randrange(6)
    if draw.random() < 0.1:
        return swapped(whole, draw)
    at, length = draw.randrange(len(whole)), draw.randrange(1, 200)
    if kind == 0:
        data[at] ^= 1 << draw.randrange(8)
    elif kind == 1:
        del data[at:]
    elif kind == 2:
        del data[at : at + length]
    elif kind == 3:
        other = draw.randrange(len(whole))
        data[at : at + 9], data[other : other + 9] = data[other : other + 9], data[at : at + 9]
    elif kind == 4:
        data[at:at] = data[at : at + length]
    else:
        data[at : at + length] = bytes(len(data[at : at + length]))
    return bytes(data) if bytes(data) != whole else damage(whole, draw)


def swapped(whole, draw):
    """Two whole records exchanged: every checksum holds."""
    parts, at = [], 0
    while at < len(whole):
        (length,) = struct.unpack_from("<Q", whole, at)
        parts.append(whole[at : at + length + 16])
        at += length + 16
    a, b = draw.sample(range(len(parts)), 2)
    parts[a], parts[b] = parts[b], parts[a]
    return b"".join(parts)

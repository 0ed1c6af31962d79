from __future__ import annotations

import numpy as np
import pytest
from support.errors import refused

from penstock.datasets import PackOptions, inspect, pack
from penstock.datasets.occurrences import digest_of, read_occurrences
from penstock.errors import DatasetError


@pytest.mark.parametrize("fixture", ["packed", "colors", "squares", "instances"])
def test_they_are_those_of_the_records(fixture, request):
    dataset = request.getfixturevalue(fixture)
    described = dataset.description
    for split in described.splits:
        present = dataset.occurrences(split)
        source = dataset.source(split)
        records = [
            record for part in source.snapshot().partitions for record in source.read(part.name, part.start, part.stop)
        ]
        assert [set(np.flatnonzero(row).tolist()) for row in present] == [
            set(described.kind.measure(record, described).per_class) for record in records
        ]


def test_splits_are_put_together_in_order(colors):
    both = colors.occurrences("train+val")

    assert np.array_equal(both, np.concatenate([colors.occurrences("train"), colors.occurrences("val")]))


def test_a_dataset_without_them_is_named(raw, tmp_path):
    dataset = pack(inspect(raw), tmp_path / "data", PackOptions(shard_bytes=40_000))
    shard = dataset.description.splits["train"].shards[1]
    path = tmp_path / "data" / f"{shard.name}.classes.npy"
    path.unlink()
    message = (
        f"{path}: expected the classes of every record, for data.repeat_threshold, found no such file. Pack the dataset "
        "again into another folder, or leave data.repeat_threshold out."
    )
    refused(dataset.occurrences, "train", message=message)
    np.save(path, np.zeros((shard.records + 1, 1), np.uint8))
    refused(dataset.occurrences, "train", message=message.replace("no such file", "a file of something else"))


def test_a_file_that_was_changed_is_named(raw, tmp_path):
    """Rows in another order have the same shape."""
    dataset = pack(inspect(raw), tmp_path / "data")
    path = tmp_path / "data" / f"{dataset.description.splits['train'].shards[0].name}.classes.npy"
    assert dataset.verify().faults == ()
    bits = np.load(path)
    bits[0] ^= 128
    np.save(path, bits)
    with pytest.raises(DatasetError, match="found a file of something else"):
        dataset.occurrences("train")
    assert dataset.verify().faults == (
        f"{path}: expected the classes of the records, found another file. Pack the dataset again.",
    )


@pytest.mark.parametrize(
    "data",
    [
        b"\x93NUMPY\x01\x00v\x00" + b"(" * 118,
        b"\x93NUMPY\x01\x00\x46\x00{'descr': '|u1', 'fortran_order': False, 'shape': (99999999999999, 1), }\n",
        b"",
        b"no array",
    ],
)
def test_what_is_no_array_is_named_though_its_hash_fits(tmp_path, data):
    """NumPy answers the first with a TokenError, and the second with a MemoryError."""
    shard = tmp_path / "a.tfrecord"
    path = tmp_path / "a.tfrecord.classes.npy"
    path.write_bytes(data)
    refused(
        read_occurrences, shard, 3, 2, digest_of(shard),
        message=f"{path}: expected the classes of every record, for data.repeat_threshold, found a file of something else. "
        "Pack the dataset again into another folder, or leave data.repeat_threshold out.",
    )  # fmt: skip

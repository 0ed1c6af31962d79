from __future__ import annotations

import pytest
from support.datasets import records
from support.volumes import HOW, write_cases

from penstock.datasets import inspect, pack
from penstock.extensions.volumes.task import read_slices
from penstock.extensions.volumes.volume import read_labels, read_volume
from penstock.kinds.labels import LabelSet


@pytest.fixture(scope="module")
def whole_volumes(tmp_path_factory):
    """Nine volumes of 12 x 15 x 9, three of them to validate."""
    root = tmp_path_factory.mktemp("whole")
    write_cases(root / "raw", 9)
    return pack(inspect(root / "raw", how=HOW).divided(0.34), root / "data")


def test_records_hold_the_voxels_and_labels_of_their_cases(whole_volumes):
    description = whole_volumes.description
    train, val = (description.splits[name] for name in ("train", "val"))
    found = {record.origin: read_slices(record, 1, LabelSet(3, 255)) for record in records(whole_volumes, "train")}
    names = {name for name in ("train", "val") for _ in records(whole_volumes, name)}

    assert (description.task, description.channels, train.records, val.records) == ("volumes", 1, 6, 3)
    assert (train.slices, train.height, train.width) == (9, 15, 12)
    assert names == {"train", "val"}
    voxels = {record: array.tobytes() for record, (array, _) in found.items()}
    raw = whole_volumes.folder.parent / "raw"
    for number in range(9):
        volume = read_volume([raw / f"images/case_{number:02d}.nii.gz"])
        labels = read_labels(raw / f"labels/case_{number:02d}.nii.gz", volume)
        matches = [origin for origin, data in voxels.items() if data == volume.images(1).tobytes()]
        for origin in matches:
            assert (found[origin][1] == volume.masks(labels)).all()
    assert len(set(voxels.values())) == 6

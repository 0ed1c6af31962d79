"""Every kind: records get the class ids of another dataset, and mean the same by the names of its classes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support import truth
from support.errors import refused
from support.tasks import masked, pixels

import penstock as ps
from penstock.datasets.description import Description
from penstock.datasets.renumbering import Renumbered, differences
from penstock.errors import LabelError
from penstock.kinds import KINDS
from penstock.kinds.base import Kind
from penstock.sources import MemorySource

RAW = {
    "segmentation": truth.coco, "classification": truth.class_folders, "detection": truth.coco, "instances": truth.coco,
}  # fmt: skip
NEW, GONE, IGNORED = "not there", "zebra", 77


@pytest.fixture(scope="module", params=RAW)
def data(request, tmp_path_factory):
    root = tmp_path_factory.mktemp(request.param)
    RAW[request.param](root / "raw")
    return ps.pack(root / "raw", root / "data", task=request.param)


def renumbered(data, split, classes):
    there = data.opened.description
    wanted = replace(there, classes=classes, ignore_label=IGNORED)
    source = Renumbered(data.opened.source(split), there.kind, there, wanted)
    (shard,) = source.snapshot().partitions
    found = [list(source.read(shard.name, number, number + 1)) for number in range(shard.stop)]
    return wanted, [each[0] if each else None for each in found]


def by_name(label, described):
    """Labels with names in place of ids, and what does not count as "ignored"."""
    if isinstance(label, np.ndarray):
        names = dict(enumerate(described.classes)) | {described.ignore_label: "ignored"}
        return np.array([names[number] for number in label.ravel()]).reshape(label.shape)
    return label


def expected(label):
    """A label without what is of the class that is gone."""
    if isinstance(label, str):
        return None if label == GONE else label
    if isinstance(label, dict):
        kept = [number for number, name in enumerate(label["classes"]) if name != GONE]
        return {name: np.array(values)[kept].tolist() for name, values in label.items()}
    return np.where(label == GONE, "ignored", label)


@pytest.mark.parametrize("split", ["train", "val"])
def test_labels_mean_the_same_by_name(data, split):
    there = data.opened.description
    wanted, records = renumbered(data, split, (NEW, *(name for name in there.classes[::-1] if name != GONE)))
    assert GONE in there.classes
    for number, record in enumerate(records):
        sample = data[split][number]
        want = expected(by_name(sample.label, there))
        if record is None:
            assert want is None
            continue
        image, label = there.kind.read(record, wanted)
        found = by_name(label, wanted)
        assert np.array_equal(image, sample.image)
        assert record.origin == sample.origin
        if isinstance(found, dict):
            found = {name: np.array(values).tolist() for name, values in found.items()}
        assert np.array_equal(found, want) if isinstance(found, np.ndarray) else found == want


def test_what_only_one_has_is_named(data):
    there = data.opened.description
    wanted = replace(there, classes=(NEW, *(name for name in there.classes if name != GONE)))
    assert differences(there, wanted) == (
        f"classes not learnt, so that they do not count: {GONE}",
        f"classes learnt, but not in this data: {NEW}",
    )
    assert differences(there, there) == ()


def test_slices_of_a_volume_get_new_ids_together():
    there = Description("volumes", ("back", "front", "edge"), 200, {}, "")
    wanted = replace(there, classes=("edge", "back"), ignore_label=9)
    ids = np.random.default_rng(0).choice([0, 1, 2, 200], (8, 5)).astype(np.uint8)
    record = masked(pixels(8, 5), ids, slices=4)
    source = Renumbered(MemorySource({"s": [record.payload]}), there.kind, there, wanted)
    (shard,) = source.snapshot().partitions
    (found,) = source.read(shard.name, 0, 1)
    label = there.kind.read(found, wanted)[1]

    assert np.array_equal(label, np.select([ids == 2, ids == 0], [0, 1], 9).reshape(4, 2, 5))


def test_an_id_that_is_none_of_the_datasets_is_refused_as_before():
    there = Description("segmentation", ("a", "b"), 255, {}, "")
    record = masked(pixels(3, 4), np.full((3, 4), 2, np.uint8))
    with pytest.raises(LabelError):
        there.kind.renumbered(record, there, {0: 1, 1: 0}, 255)


def test_a_custom_kind_without_a_way_is_refused():
    record = masked(pixels(3, 4), np.zeros((3, 4), np.uint8))
    described = Description("segmentation", ("a", "b"), 255, {}, "")
    refused(
        Kind.renumbered, KINDS["segmentation"], record, described, {}, 255,
        message="s#3: the 2 classes have other ids than those of the run, and segmentation, a custom task, has no "
        "`renumbered`. Give it that method, or pack the data with the class ids of the run.",
    )  # fmt: skip

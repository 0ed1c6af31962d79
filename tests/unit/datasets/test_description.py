from __future__ import annotations

import dataclasses
import json
import os

import pytest
from support import miniatures
from support.errors import refused

from penstock.datasets import FolderDataset, LayoutOptions, inspect, pack
from penstock.errors import DatasetError


def sealed(folder, described):
    """A dataset.json whose hash is right."""
    FolderDataset(folder, dataclasses.replace(described, content=described.digest())).save()


def leaves(tree, above=()):
    """The places of all values in JSON."""
    pairs = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    found = [place for key, value in pairs for place in leaves(value, (*above, key))]
    return found if isinstance(tree, dict | list) else [above]


class TestDescription:
    def test_missing_ones_are_named(self, tmp_path):
        with pytest.raises(DatasetError) as caught:
            FolderDataset.open(tmp_path)
        assert str(caught.value) == (
            f"{tmp_path}: expected a packed dataset, with a dataset.json, found a folder without one. Make one with "
            "penstock pack FOLDER -o DIR."
        )
        with pytest.raises(DatasetError, match="found no such folder"):
            FolderDataset.open(tmp_path / "nothing")

    def test_damaged_ones_are_named(self, tmp_path):
        (tmp_path / "dataset.json").write_text('{"task": 3}')
        with pytest.raises(DatasetError) as caught:
            FolderDataset.open(tmp_path)
        assert str(caught.value) == (
            f"{tmp_path / 'dataset.json'}: expected a description of a dataset, found invalid contents (Expected `str`, "
            "got `int` - at `$.task`). Restore it, or pack the dataset again into another folder."
        )

    def test_a_kind_that_is_not_known_is_named(self, raw, tmp_path):
        described = dataclasses.replace(pack(inspect(raw), tmp_path).description, task="cooking")
        sealed(tmp_path, described)
        with pytest.raises(DatasetError) as caught:
            FolderDataset.open(tmp_path)
        assert str(caught.value) == (
            f"{tmp_path}/dataset.json: task: expected one of segmentation, matting, classification, detection, instances, volumes, "
            "found cooking. Pack the dataset with this version of Penstock."
        )

    def test_every_value_is_in_the_hash(self, raw, tmp_path):
        """But for the layout, which is a word for people, and the hashes of files, which are compared with these."""
        pack(inspect(raw), tmp_path)
        path = tmp_path / "dataset.json"
        whole = json.loads(path.read_text())
        free = {"layout", "content", "digest", "occurrences", "home"}
        places = [place for place in leaves(whole) if place[-1] not in free]
        assert len(places) > 20
        for place in places:
            changed = json.loads(path.read_text())
            inside = changed
            for key in place[:-1]:
                inside = inside[key]
            value = inside[place[-1]]
            inside[place[-1]] = f"{value}x" if isinstance(value, str) else value + 1
            other = tmp_path / "other"
            other.mkdir(exist_ok=True)
            (other / "dataset.json").write_text(json.dumps(changed))
            with pytest.raises(DatasetError):
                FolderDataset.open(other)

    def test_one_of_another_format_is_named(self, raw, tmp_path):
        described = dataclasses.replace(pack(inspect(raw), tmp_path).description, format=1)
        FolderDataset(tmp_path, described).save()
        with pytest.raises(DatasetError) as caught:
            FolderDataset.open(tmp_path)
        assert str(caught.value) == (
            f"{tmp_path}/dataset.json: expected a description of format 2, found one of format 1. Pack the dataset again "
            "with this version of Penstock into another folder."
        )

    def test_edited_ones_are_refused(self, raw, tmp_path):
        dataset = pack(inspect(raw), tmp_path)
        text = json.loads((tmp_path / "dataset.json").read_text())
        text["classes"].reverse()
        (tmp_path / "dataset.json").write_text(json.dumps(text))
        with pytest.raises(DatasetError) as caught:
            FolderDataset.open(tmp_path)
        reversed_ = dataclasses.replace(dataset.description, classes=dataset.description.classes[::-1])
        assert str(caught.value) == (
            f"{tmp_path}/dataset.json: expected a description whose content is {reversed_.digest()}, found "
            f"{dataset.description.content}: it was edited. Restore it, or pack the dataset again into another "
            "folder."
        )

    def test_foreign_shards_are_refused(self, raw, tmp_path):
        dataset = pack(inspect(raw), tmp_path)
        val, train = (tmp_path / f"{split}-00000-of-00001.tfrecord" for split in ("val", "train"))
        train.write_bytes(val.read_bytes())
        with pytest.raises(DatasetError) as caught:
            dataset.snapshot("train", dataset.source("train"))
        message = str(caught.value)
        assert message.startswith(f"{train}: expected the 21 records that dataset.json describes (")
        assert message.endswith("). Restore the shard, or pack the dataset again.")

    def test_packing_again_mends_damaged_shards(self, raw, tmp_path):
        dataset = pack(inspect(raw), tmp_path)
        shard = tmp_path / "train-00000-of-00001.tfrecord"
        whole = shard.read_bytes()
        for damaged in (whole[:1000], b"", None):
            shard.unlink() if damaged is None else shard.write_bytes(damaged)
            assert pack(inspect(raw), tmp_path).description == dataset.description
            assert shard.read_bytes() == whole

    def test_splits_are_named(self, packed):
        with pytest.raises(DatasetError) as caught:
            packed.split("test")
        assert str(caught.value) == (f"{packed.folder} has no split named test, only train, val. Choose one of them.")

    def test_where_there_is_training_data_alone_some_may_be_set_aside(self, tmp_path):
        miniatures.write(tmp_path / "raw/cat/a.jpg", miniatures.make_image())
        dataset = pack(inspect(tmp_path / "raw", how=LayoutOptions("folders")), tmp_path / "data")
        with pytest.raises(DatasetError) as caught:
            dataset.split("val")
        assert str(caught.value) == (
            f"{dataset.folder} has no split named val, only train. Pack again with --validation 0.1 to set a tenth of "
            "train aside, or train without evaluation: --set data.validation=''."
        )


@pytest.mark.parametrize("name", ["../../victim/val", "val/x", "", ".."])
def test_names_of_splits_are_plain(packed, tmp_path, name):
    """They become parts of the names of files."""
    described = dataclasses.replace(packed.description, splits={name: packed.description.splits["val"]})
    sealed(tmp_path, described)
    refused(
        FolderDataset.open, tmp_path,
        message=f"{tmp_path / 'dataset.json'}: expected splits with plain names, which become parts of the names of files, "
        f"found {name!r}. Pack the dataset again into another folder.",
    )  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [
        "../elsewhere/secret.tfrecord",
        "/tmp/x.tfrecord",
        "*",
        "**",
        "a\0b",
        "a\nb",
        "\33]0;x\7",
        "\x9b2J",
        "",
        ".hidden",
    ],
)
def test_shards_lie_in_the_folder(packed, tmp_path, name):
    val = packed.description.splits["val"]
    val = dataclasses.replace(val, shards=(dataclasses.replace(val.shards[0], name=name),))
    described = dataclasses.replace(packed.description, splits={"val": val})
    sealed(tmp_path, described)
    refused(
        FolderDataset.open, tmp_path,
        message=f"{tmp_path / 'dataset.json'}: expected shards with plain names of files in this folder, found {name!r}. Pack "
        "the dataset again into another folder.",
    )  # fmt: skip


def test_a_pipe_is_no_description(tmp_path):
    os.mkfifo(tmp_path / "dataset.json")
    with pytest.raises(DatasetError, match="expected a packed dataset, with a dataset"):
        FolderDataset.open(tmp_path)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"ignore_label": 300}, "Expected `int` <= 255 - at `$.ignore_label`"),
        ({"ignore_label": -1}, "Expected `int` >= 0 - at `$.ignore_label`"),
        ({"bits": 12}, "Expected `int` that's a multiple of 8 - at `$.bits`"),
        ({"channels": 65}, "Expected `int` <= 64 - at `$.channels`"),
        ({"height": 2**63 - 1}, "Expected `int` <= 2147483647 - at `$.splits[...].height`"),
        ({"per_class": (-1,)}, "Expected `int` >= 0 - at `$.splits[...].per_class[0]`"),
    ],
)
def test_numbers_without_a_meaning_are_named(packed, tmp_path, change, found):
    """Also where the hash is right: who made it may have wanted it so."""
    (name,) = change
    described = packed.description
    if hasattr(described, name):
        described = dataclasses.replace(described, **change)
    else:
        described = dataclasses.replace(
            described, splits={"val": dataclasses.replace(described.splits["val"], **change)}
        )
    sealed(tmp_path, described)
    refused(
        FolderDataset.open, tmp_path,
        message=f"{tmp_path / 'dataset.json'}: expected a description of a dataset, found invalid contents ({found}). Restore it, or "
        "pack the dataset again into another folder.",
    )  # fmt: skip

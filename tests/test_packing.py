from __future__ import annotations

import dataclasses
import json
import os
import random
import signal
import struct
import subprocess
import sys
import time
from collections import Counter

import miniatures
import numpy as np
import pytest
from test_cli import call

from penstock import files
from penstock.datasets import FolderDataset, Labels, PackOptions, inspect, pack, scenes, verify
from penstock.errors import DatasetError
from penstock.images import decode_mask
from penstock.records.schema import decode_classification, decode_segmentation
from penstock.sources import FilesSource


def records(dataset, split):
    source = dataset.source(split)
    return [r for p in source.snapshot().partitions for r in source.read(p.name, p.start, p.stop)]


def content(folder):
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.suffix in (".tfrecord", ".json")}


def test_records_hold_the_original_bytes(raw, packed):
    for split, count in (("train", 21), ("val", 7)):
        found = [decode_segmentation(record) for record in records(packed, split)]
        assert sorted(r.name for r in found) == [f"scene-{i:05d}" for i in range(count)]
        for record in found:
            assert record.image == (raw / "images" / split / f"{record.name}.jpg").read_bytes()
            assert record.mask == (raw / "masks" / split / f"{record.name}.png").read_bytes()
            assert (record.height, record.width, record.format) == (64, 96, "jpeg")


def test_the_description_counts_what_is_there(raw, packed):
    described = packed.description
    pixels, around = Counter(), Counter()
    for path in (raw / "masks" / "train").iterdir():
        found = Counter(decode_mask(path.read_bytes(), "m").ravel().tolist())
        del found[255]
        pixels.update(found)
        around.update(dict.fromkeys(found, found.total()))

    assert described.classes == scenes.CLASSES
    assert described.splits["train"].per_class == tuple(pixels[i] for i in range(6))
    assert described.splits["train"].image_pixels == tuple(around[i] for i in range(6))
    assert (described.splits["train"].height, described.splits["train"].width) == (64, 96)
    assert FolderDataset.open(packed.folder).description == described
    assert described.content == described.digest()


def test_shards_are_balanced(packed):
    sizes = [(packed.folder / s.name).stat().st_size for s in packed.description.splits["train"].shards]

    assert len(sizes) > 2
    assert max(sizes) < 1.5 * min(sizes)


def test_packing_again_writes_nothing(raw, tmp_path):
    options = PackOptions(shard_bytes=20_000)
    pack(inspect(raw), tmp_path, options)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    pack(inspect(raw), tmp_path, options)

    assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before


def test_threads_change_nothing(raw, tmp_path):
    for threads in (1, 5):
        pack(inspect(raw, threads=threads), tmp_path / str(threads), PackOptions(20_000, threads))

    assert content(tmp_path / "1") == content(tmp_path / "5")


def test_another_dataset_is_not_written_over(raw, tmp_path):
    first = pack(inspect(raw), tmp_path)
    other = inspect(raw, Labels(classes=tuple("abcdef")))
    with pytest.raises(DatasetError) as caught:
        pack(other, tmp_path)
    message = str(caught.value)
    assert message.startswith(
        f"{tmp_path}: expected an empty folder, or the same data packed before, found another dataset "
        f"({first.description.content[:12]} instead of "
    )
    assert message.endswith("). Choose another folder with -o, or remove this one first.")


def test_two_packs_at_once_are_kept_apart(raw, tmp_path):
    with files.locked(tmp_path), pytest.raises(DatasetError) as caught:
        pack(inspect(raw), tmp_path)
    assert str(caught.value) == (
        f"{tmp_path}: expected a folder that nobody is packing into, found another process at it. Wait for it, or "
        "choose another folder with -o."
    )


def test_mapping_rewrites_masks(raw, tmp_path):
    labels = Labels(classes=("ground", "thing"), mapping={2: 1, 3: 1, 4: 1, 5: 1})
    dataset = pack(inspect(raw, labels), tmp_path)
    for record in map(decode_segmentation, records(dataset, "val")):
        original = decode_mask((raw / "masks" / "val" / f"{record.name}.png").read_bytes(), "m")
        assert np.array_equal(decode_mask(record.mask, "m"), np.minimum(original, 1))


def test_class_folders_are_packed(tmp_path):
    for i in range(6):
        picture, _ = scenes.encode(scenes.draw(0, "x", i, (20, 30)))
        path = tmp_path / "raw" / ("train" if i < 4 else "val") / ("cat" if i % 2 else "dog") / f"{i}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture)
    dataset = pack(inspect(tmp_path / "raw"), tmp_path / "packed")
    found = {r.name: (r.label, r.text) for r in map(decode_classification, records(dataset, "train"))}

    assert dataset.description.task == "classification"
    assert dataset.description.splits["train"].per_class == (2, 2)
    assert found == {"dog/0": (1, "dog"), "cat/1": (0, "cat"), "dog/2": (1, "dog"), "cat/3": (0, "cat")}
    assert verify(dataset).faults == ()


@pytest.mark.parametrize("layout", ["split first", "no splits", "suffixes"])
def test_other_arrangements_are_recognised(tmp_path, layout):
    for i in range(4):
        picture, mask = scenes.encode(scenes.draw(0, "x", i, (20, 30)))
        split = "training" if i < 3 else "validation"
        image, label = {
            "split first": (f"{split}/images/{i}.jpg", f"{split}/masks/{i}.png"),
            "no splits": (f"JPEGImages/{i}.jpg", f"SegmentationClass/{i}.png"),
            "suffixes": (f"imgs/{split}/city/{i}.jpg", f"labels/{split}/city/{i}_gt.png"),
        }[layout]
        for name, data in ((image, picture), (label, mask)):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_bytes(data)
    found = inspect(tmp_path, Labels(classes=scenes.CLASSES))

    assert found.fatal == []
    expected = {"train": 4} if layout == "no splits" else {"train": 3, "val": 1}
    assert {split: len(facts) for split, facts in found.splits.items()} == expected


@pytest.mark.slow
def test_a_killed_pack_goes_on(raw, tmp_path):
    """SIGKILL at moments while shards are written; the next call finishes, byte for byte as if nothing had happened."""
    code = (
        "import sys; from pathlib import Path; from penstock.datasets import *; from penstock.datasets import packing\n"
        "import time; real = packing._payload\n"
        "def slow(*a): time.sleep(0.02); return real(*a)\n"
        "packing._payload = slow\n"
        "print('packing', flush=True)\n"
        "pack(inspect(Path(sys.argv[1])), Path(sys.argv[2]), PackOptions(shard_bytes=20_000, threads=2))\n"
    )
    expected = content(pack(inspect(raw), tmp_path / "whole", PackOptions(shard_bytes=20_000)).folder)
    output = tmp_path / "killed"
    draw, kills = random.Random(0), 0
    while not (output / "dataset.json").exists():
        process = subprocess.Popen([sys.executable, "-c", code, str(raw), str(output)], stdout=subprocess.PIPE)
        process.stdout.readline()
        time.sleep(draw.uniform(0.1, 0.3))
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            kills += 1
        process.wait()
        process.stdout.close()

    assert kills >= 1
    assert content(output) == expected
    pack(inspect(raw), output, PackOptions(shard_bytes=20_000))  # for a kill between the last file and the end
    leftovers = [p.name for p in output.iterdir() if p.name.startswith(".") and not p.name.endswith(".partial")]
    assert leftovers == []


class TestVerify:
    @pytest.fixture
    def dataset(self, tmp_path):
        """Small images in one shard a split, so that thousands of damages are quick."""
        scenes.write_folder(tmp_path / "raw", {"train": 6, "val": 2}, (24, 32), seed=1)
        return pack(inspect(tmp_path / "raw"), tmp_path / "packed")

    def test_sound_data_is_sound(self, packed):
        verdict = verify(packed)

        assert (verdict.sound, verdict.faults) == (28, ())

    def test_two_thousand_damages_are_all_named(self, dataset):
        """Bit flips, cuts, swaps, doubled and zeroed stretches: each is found, named, and ends in good time."""
        path = dataset.folder / "train-00000-of-00001.tfrecord"
        whole, draw = path.read_bytes(), random.Random(7)
        for number in range(2000):
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
        assert err.startswith(f"error: {dataset.folder}: expected a split named nope, found train, val.")

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
            f"{tmp_path / 'dataset.json'}: expected a description of a dataset, found Expected `str`, got `int` - at "
            "`$.task`. Restore it, or pack the dataset again into another folder."
        )

    def test_a_kind_that_is_not_known_is_named(self, raw, tmp_path):
        described = dataclasses.replace(pack(inspect(raw), tmp_path).description, task="cooking")
        FolderDataset(tmp_path, dataclasses.replace(described, content=described.digest())).save()
        with pytest.raises(DatasetError) as caught:
            FolderDataset.open(tmp_path)
        assert str(caught.value) == (
            f"{tmp_path}/dataset.json: task: expected one of segmentation, matting, classification, detection, volumes, "
            "found cooking. Pack the dataset with this version of Penstock."
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
        assert str(caught.value) == (
            f"{packed.folder}: expected a split named test, found train, val. Name one of those; for training with "
            "--set data.train=NAME and --set data.validation=NAME, where '' evaluates nothing."
        )

    def test_where_there_is_training_data_alone_some_may_be_set_aside(self, tmp_path):
        miniatures.write(tmp_path / "raw/cat/a.jpg", miniatures.picture())
        dataset = pack(inspect(tmp_path / "raw"), tmp_path / "data")
        with pytest.raises(DatasetError) as caught:
            dataset.split("val")
        assert str(caught.value) == (
            f"{dataset.folder}: expected a split named val, found train. Pack again with --validation 0.1, which sets a tenth "
            "of train aside; or train with --set data.validation=NAME, where '' evaluates nothing."
        )


def test_scenes_follow_from_their_seed():
    a, b = (scenes.draw(1, "train", 3, (40, 50)) for _ in range(2))

    assert np.array_equal(a.image, b.image)
    assert np.array_equal(a.mask, b.mask)
    assert not np.array_equal(a.image, scenes.draw(2, "train", 3, (40, 50)).image)
    assert not np.array_equal(a.image, scenes.draw(1, "val", 3, (40, 50)).image)


def test_camvid_is_sound(real_data):
    names = ("sky", "building", "pole", "road", "pavement", "tree", "sign", "fence", "car", "pedestrian", "bicyclist")
    found = inspect(real_data("camvid"), Labels(classes=names, ignore=11))

    assert found.fatal == []
    assert {split: len(facts) for split, facts in found.splits.items()} == {"train": 367, "val": 101, "test": 233}


def test_what_is_pulled_from_a_topic_counts_as_what_was_packed(packed, tmp_path):
    """Pixels of every class, and those of the images that it occurs in, which class weights are made of."""
    from penstock.datasets import About, TopicDataset
    from penstock.datasets.pulling import pull
    from penstock.sources.kafka import Address, FakeLog

    log, split = FakeLog("t"), packed.description.splits["train"]
    about = [("penstock-dataset", About.of(packed.description, split).encoded())]
    source = packed.source("train")
    for part in source.snapshot().partitions:
        for record in source.read(part.name, 0, len(part)):
            log.append(record.payload, headers=about)
    pulled = pull(TopicDataset(Address("h", "t"), open_log=lambda _: log), tmp_path / "pulled")
    found = pulled.description.splits["train"]

    assert found.records == split.records
    assert found.per_class == split.per_class
    assert found.image_pixels == split.image_pixels
    assert sum(found.image_pixels) > sum(found.per_class) > 0
    assert (found.height, found.width) == (split.height, split.width)


def test_what_is_said_of_a_dataset_in_a_topic_is_what_its_description_says(packed):
    import dataclasses

    from penstock.datasets import About

    described = dataclasses.replace(packed.description, original=(0, 5, 6), mapping=((21, 255), (5, 6)))
    split = described.splits["train"]
    found = json.loads(About.of(described, split).encoded())

    assert found == {
        "task": "segmentation",
        "classes": list(described.classes),
        "ignore_label": 255,
        "height": split.height,
        "width": split.width,
        "original": [0, 5, 6],
        "mapping": [[21, 255], [5, 6]],
    }

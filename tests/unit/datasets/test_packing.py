from __future__ import annotations

import itertools
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter

import cv2
import numpy as np
import pytest
from PIL import Image
from support import miniatures, raw_folders
from support.commands import call
from support.datasets import records
from support.images import HEIC, array_png

from penstock import files
from penstock.datasets import FolderDataset, PackOptions, inspect, pack, packing, scenes, verify
from penstock.datasets.packing import JOURNAL, refuse_others
from penstock.errors import DatasetError
from penstock.images import decode_image, decode_mask
from penstock.images.png import decode_flat
from penstock.kinds import Labels
from penstock.kinds.fields import decode_classification, decode_segmentation
from penstock.records import ShardWriter, read_all


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
    new = pack(other, tmp_path / "other").description.content[:12]
    assert str(caught.value) == (
        f"{tmp_path} already holds another dataset, or one that was packed with other options (its fingerprint is "
        f"{first.description.content[:12]}, and that of the data to be packed is {new}). Choose another folder with -o, "
        "or remove this one first."
    )


def test_two_packs_at_once_are_kept_apart(raw, tmp_path):
    with files.locked(tmp_path), pytest.raises(DatasetError) as caught:
        pack(inspect(raw), tmp_path)
    assert str(caught.value) == (
        f"{tmp_path}: another process is packing into this folder. Wait for it to end, or "
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
        image, _ = scenes.encode(scenes.draw(0, "x", i, (20, 30)))
        path = tmp_path / "raw" / ("train" if i < 4 else "val") / ("cat" if i % 2 else "dog") / f"{i}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(image)
    dataset = pack(inspect(tmp_path / "raw"), tmp_path / "packed")
    found = {r.name: (r.label, r.text) for r in map(decode_classification, records(dataset, "train"))}

    assert dataset.description.task == "classification"
    assert dataset.description.splits["train"].per_class == (2, 2)
    assert found == {"dog/0": (1, "dog"), "cat/1": (0, "cat"), "dog/2": (1, "dog"), "cat/3": (0, "cat")}
    assert verify(dataset).faults == ()


@pytest.mark.slow
def test_a_killed_pack_goes_on(raw, tmp_path):
    """SIGKILL at moments while shards are written; the next call finishes, byte for byte as if nothing had happened."""
    code = (
        "import sys; from pathlib import Path; from penstock.datasets import *; from penstock.datasets import packing\n"
        "import time; real = packing._payload\n"
        "def slow(*a): time.sleep(0.02); return real(*a)\n"
        "packing._payload = slow\n"
        "found = inspect(Path(sys.argv[1]))\n"
        "print('packing', flush=True)\n"
        "pack(found, Path(sys.argv[2]), PackOptions(shard_bytes=20_000, threads=2))\n"
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


def test_shards_that_were_written_are_not_written_again(raw, tmp_path):
    options = PackOptions(shard_bytes=20_000, threads=1)

    def fail(done, total):
        if len([*(tmp_path / "data" / JOURNAL).iterdir()]) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pack(inspect(raw), tmp_path / "data", options, progress=fail)
    before = {path: path.stat().st_ino for path in (tmp_path / "data").glob("*.tfrecord")}
    pack(inspect(raw), tmp_path / "data", options)
    assert len(before) == 2
    assert {path: path.stat().st_ino for path in before} == before


class TestThreads:
    """Records of one shard are made by several threads, in any order, and written in theirs."""

    @pytest.fixture(autouse=True)
    def _small_pieces(self, monkeypatch):
        monkeypatch.setattr(packing, "_PIECE", 1)

    def test_they_work_on_one_shard_together(self, raw, tmp_path, monkeypatch):
        expected = content(pack(inspect(raw), tmp_path / "one thread", PackOptions(threads=1)).folder)
        make, together, started = packing._payload, threading.Barrier(2, timeout=30), itertools.count()

        def meet(inspected, found):
            if (number := next(started)) < 2:
                together.wait()
                time.sleep(0.2 * (1 - number))  # the second is done before the first
            return make(inspected, found)

        monkeypatch.setattr(packing, "_payload", meet)
        written = pack(inspect(raw), tmp_path / "two threads", PackOptions(threads=2))

        assert [len(split.shards) for split in written.description.splits.values()] == [1, 1]
        assert content(written.folder) == expected

    def test_they_do_not_run_ahead_of_a_slow_disk(self, raw, tmp_path, monkeypatch):
        make, write, made, ahead = packing._payload, ShardWriter.write, [], []

        def count(inspected, found):
            made.append(inspected.size)
            return make(inspected, found)

        def write_slowly(writer, payload):
            time.sleep(0.02)
            ahead.append(len(made) - len(ahead))
            return write(writer, payload)

        monkeypatch.setattr(packing, "_payload", count)
        monkeypatch.setattr(ShardWriter, "write", write_slowly)
        found = inspect(raw)
        monkeypatch.setattr(packing, "_AHEAD", 3 * max(each.size for each in found.items))
        pack(found, tmp_path)

        assert len(ahead) == 28
        assert 3 <= max(ahead) <= 8

    def test_progress_is_by_records(self, raw, tmp_path):
        seen = []
        pack(inspect(raw), tmp_path, progress=lambda done, total: seen.append((done, total)))

        assert seen == [(done, 28) for done in range(29)]


class TestPacking:
    def test_shards_of_a_pack_that_was_given_up_go(self, raw, tmp_path):
        """Killed with other shards on the way: what the glob of a reader would find twice."""
        found = inspect(raw)
        whole = pack(found, tmp_path / "whole", PackOptions(shard_bytes=20_000))
        out = tmp_path / "cut"
        (out / JOURNAL).mkdir(parents=True)
        names = [shard.name for shard in whole.split("train").shards]
        for name in names:
            for each in (name, f"{name}.index"):
                if (whole.folder / each).exists():
                    (out / each).write_bytes((whole.folder / each).read_bytes())
            (out / JOURNAL / name).write_text("another key")
        again = pack(found, out, PackOptions(shard_bytes=1 << 30))

        assert len(names) > 1
        assert sorted(path.name for path in out.glob("*.tfrecord")) == sorted(
            shard.name for split in again.description.splits.values() for shard in split.shards
        )
        assert not [path for path in out.iterdir() if path.name.startswith(names[0])]

    def test_a_full_disk_is_named_with_its_file(self, tmp_path):
        full = tmp_path / "full"
        full.symlink_to("/dev/full")
        for write in (
            lambda: files.write_synced(full, b"x" * 100_000),
            lambda: _write_through(full),
        ):
            with pytest.raises(OSError, match=r"No space left on device") as caught:
                write()
            assert caught.value.filename == str(full)


def _write_through(path):
    with files.named(path), path.open("wb") as handle:
        handle.write(b"x" * 100_000)


def test_only_a_pack_goes_on_in_a_folder(packed):
    refuse_others(packed.folder)
    with pytest.raises(DatasetError, match="expected an empty folder"):
        refuse_others(packed.folder, begun=False)


@pytest.mark.parametrize("layout", ["csv", "folders", "masks", "tfds"])
def test_a_dataset_packed_into_its_raw_data_is_none_of_it(tmp_path, layout):
    miniatures.MINIATURES[layout](tmp_path)
    before = inspect(tmp_path)
    pack(before, tmp_path / "packed")
    after = inspect(tmp_path)

    assert (after.layout.name, after.problems) == (before.layout.name, before.problems)
    assert [each.key for each in after.items] == [each.key for each in before.items]
    (tmp_path / "packed/dataset.json").unlink()
    (tmp_path / "packed/.packing").mkdir()  # as a pack leaves it that was killed
    assert [each.key for each in inspect(tmp_path).items] == [each.key for each in before.items]
    with pytest.raises(DatasetError) as caught:
        inspect(tmp_path / "packed")
    assert str(caught.value) == (
        f"{tmp_path / 'packed'}: expected a folder of raw data, found a packed dataset. Look at it with penstock show, or read "
        "all of it with penstock verify."
    )


@pytest.mark.parametrize("place", [-10, 0, 40])
def test_packing_again_mends_a_damaged_shard(tmp_path, place):
    miniatures.folders(tmp_path / "raw")
    pack(inspect(tmp_path / "raw"), tmp_path / "data")
    shard = tmp_path / "data/train-00000-of-00001.tfrecord"
    whole = shard.read_bytes()
    status = shard.stat()
    shard.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place:][1:])
    os.utime(shard, ns=(status.st_atime_ns, status.st_mtime_ns))  # as a disk does it, behind everyone's back
    pack(inspect(tmp_path / "raw"), tmp_path / "data")

    assert shard.read_bytes() == whole
    assert len(list(read_all(shard))) == 2


def test_a_damaged_note_of_a_killed_pack_is_no_hindrance(tmp_path):
    miniatures.folders(tmp_path / "raw")
    whole = pack(inspect(tmp_path / "raw"), tmp_path / "whole").folder
    shutil.copytree(whole, tmp_path / "data")
    (tmp_path / "data/dataset.json").unlink()
    miniatures.write(tmp_path / "data/.packing/train-00000-of-00001.tfrecord", b"\xff")
    pack(inspect(tmp_path / "raw"), tmp_path / "data")

    assert (tmp_path / "data/dataset.json").read_bytes() == (whole / "dataset.json").read_bytes()


def test_shards_do_not_go_among_other_files(raw, tmp_path):
    (tmp_path / "images").mkdir()
    with pytest.raises(DatasetError) as caught:
        pack(inspect(raw), tmp_path)
    assert str(caught.value) == f"{tmp_path}: expected an empty folder, found images. Choose another folder with -o."


def test_what_is_packed_are_the_files_in_shards_of_a_size_and_out_of_order(tmp_path, capsys):
    """Masks of others' encoders too; a PNG that is called JPEG is a PNG."""
    draw = np.random.default_rng(0)
    for number in range(12):
        image = array_png(draw.integers(0, 256, (300, 300, 3), np.uint8))
        for name, data in (
            (f"images/train/{number:02d}.jpg", image),
            (f"masks/train/{number:02d}.png", array_png(draw.integers(0, 3, (300, 300), np.uint8), compress_level=1)),
        ):
            (tmp_path / "raw" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "raw" / name).write_bytes(data)
    code, out, _ = call("pack", tmp_path / "raw", "-o", tmp_path / "data", "--shard-size", 1, capsys=capsys)
    dataset = FolderDataset.open(tmp_path / "data")
    found = [decode_segmentation(record) for record in records(dataset, "train")]
    names = [each.name for each in found]

    assert code == 0, out
    assert len(dataset.description.splits["train"].shards) == 3  # of 3.4 MiB
    assert (sorted(names), names != sorted(names)) == ([f"{number:02d}" for number in range(12)], True)
    for each in found:
        assert each.format == "png"
        assert each.image == (tmp_path / f"raw/images/train/{each.name}.jpg").read_bytes()
        mask = cv2.imread(str(tmp_path / f"raw/masks/train/{each.name}.png"), cv2.IMREAD_UNCHANGED)
        assert np.array_equal(decode_flat(each.mask), mask)  # written anew, so that it is read fast


def test_images_and_masks_of_other_formats_are_packed_as_png(tmp_path):
    """A TIFF, a WebP and an iPhone's HEIC that is called .jpg, with masks as TIFF and as an array of NumPy."""
    rng = np.random.default_rng(4)
    pixels, ids = rng.integers(0, 256, (16, 24, 3), np.uint8), rng.integers(0, 3, (16, 24), np.uint8)
    for name, form in (("a.tif", "TIFF"), ("b.webp", "WEBP")):
        file = tmp_path / "raw/images" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels if form == "TIFF" else pixels[::-1]).save(file, form, lossless=True)
    (tmp_path / "raw/images/c.jpg").write_bytes(HEIC)
    (tmp_path / "raw/masks").mkdir()
    Image.fromarray(ids).save(tmp_path / "raw/masks/a.tif")
    np.save(tmp_path / "raw/masks/b.npy", ids.astype(np.int64))
    np.save(tmp_path / "raw/masks/c.npy", ids)
    found = inspect(tmp_path / "raw")
    dataset = pack(found, tmp_path / "data")
    fields = {each.name: each for each in map(decode_segmentation, records(dataset, "train"))}

    assert found.problems == ()
    assert {each.format for each in fields.values()} == {"png"}
    assert np.array_equal(decode_image(fields["a"].image, "a"), pixels)
    assert np.array_equal(decode_image(fields["b"].image, "b"), pixels[::-1])
    assert all(np.array_equal(decode_mask(each.mask, "m"), ids) for each in fields.values())
    assert verify(dataset).faults == ()


def test_black_and_white_masks_of_jpeg_are_packed_by_their_threshold(tmp_path):
    raw_folders.kvasir(tmp_path / "raw")
    found = inspect(tmp_path / "raw", Labels(threshold=128))
    dataset = pack(found, tmp_path / "data")
    assert found.labels.classes == ("class0", "class1")
    decoded = {each.name: each for each in map(decode_segmentation, records(dataset, "train"))}
    for number in range(3):
        ids = decode_mask(decoded[str(number)].mask, "mask")
        assert np.array_equal(ids, raw_folders.square(at=2 + number))
    assert pack(found, tmp_path / "data").description.content == dataset.description.content


def test_gray_masks_with_a_threshold_are_packed_as_ids(tmp_path):
    miniatures.write(tmp_path / "raw/images/a.jpg", miniatures.make_image())
    miniatures.write(tmp_path / "raw/masks/a.png", miniatures.gray(raw_folders.square((60, 130))))
    dataset = pack(inspect(tmp_path / "raw", Labels(threshold=130)), tmp_path / "data")
    (record,) = map(decode_segmentation, records(dataset, "train"))
    assert np.array_equal(decode_mask(record.mask, "mask"), raw_folders.square((0, 1)))


@pytest.fixture
def pair(tmp_path):
    for name in ("a", "b"):
        miniatures.write(tmp_path / f"raw/{name}/0.jpg", miniatures.make_image(seed=ord(name)))
    return tmp_path / "raw"


def test_an_image_that_was_changed_since_it_was_inspected_is_named(pair, tmp_path):
    found = inspect(pair)
    miniatures.write(pair / "a/0.jpg", miniatures.make_image(seed=9))
    with pytest.raises(DatasetError, match=r"a/0\.jpg: expected the bytes that were inspected, found others"):
        pack(found, tmp_path / "data")


def test_a_shard_of_other_records_is_written_again(pair, tmp_path):
    pack(inspect(pair), tmp_path / "data")
    (shard,) = (tmp_path / "data").glob("*.tfrecord")
    before = shard.read_bytes()
    with ShardWriter(shard) as writer:
        for _ in range(2):
            writer.write(b"another")
    pack(inspect(pair), tmp_path / "data")
    assert shard.read_bytes() == before


def test_the_original_id_of_a_class_is_the_lowest_of_those_that_became_it():
    mapping = {9: 1, 7: 1, 4: 0, 5: 0, 200: 255}

    assert packing._original(Labels(("a", "b", "c"), mapping=mapping)) == (4, 7, 2)

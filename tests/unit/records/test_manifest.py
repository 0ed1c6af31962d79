from __future__ import annotations

import gzip
import random

import pytest

from penstock.records import encode, manifest
from penstock.records.manifest import ManifestEntry, RecordChanges


def record(name, image, label):
    return encode({"image/encoded": image, "image/filename": name, "image/format": "png", "image/class/label": label})


def test_an_entry_tells_name_image_and_label_apart():
    first, renamed, redrawn, relabelled = (
        manifest.entry_of(record(*each), "x")
        for each in (("a", b"1", 0), ("b", b"1", 0), ("a", b"2", 0), ("a", b"1", 1))
    )

    assert first.name == "a"
    assert renamed == first._replace(name="b")
    assert redrawn == first._replace(image=redrawn.image) != first
    assert relabelled == first._replace(label=relabelled.label) != first


def test_a_record_of_another_format_is_hashed_whole():
    assert manifest.entry_of(b"\xff", "shard#0") == manifest.entry_of(b"\xff", "shard#0")
    assert manifest.entry_of(b"\xff", "shard#0") != manifest.entry_of(b"\xfe", "shard#0")


def test_what_is_written_is_read_and_equal_manifests_have_equal_bytes(tmp_path):
    splits = {
        "train": [ManifestEntry("ä\n\t", "0" * 16, "1" * 16), ManifestEntry("b", "2" * 16, "3" * 16)],
        "val": [ManifestEntry("c", "4", "5")],
    }
    for name in "ab":
        manifest.write(tmp_path / name, splits)

    assert manifest.read(tmp_path / "a") == splits
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


WHOLE = gzip.compress(b'["a","b","c","d"]\n', mtime=0)


@pytest.mark.parametrize(
    "data",
    [
        gzip.compress(bytes(10_000_000), mtime=0),
        b"",
        b"no gzip",
        gzip.compress(b'["train", 1]\n', mtime=0),
        WHOLE[:-9],
        gzip.compress(b"{}", mtime=0),
    ],
    ids=["gigabytes of zeros", "empty", "no gzip", "other values", "cut short", "an object"],
)
def test_what_is_no_manifest_is_named(tmp_path, data):
    (tmp_path / "m").write_bytes(data)
    with pytest.raises(ValueError, match=r"."):
        manifest.read(tmp_path / "m")


def _changes(before, now):
    return manifest.changes({"train": before}, {"train": now}, "train")


@pytest.mark.parametrize("seed", range(20))
def test_changes_are_those_that_were_made(seed):
    chance = random.Random(seed)
    before = [ManifestEntry(f"{number:02d}", f"i{number}", f"l{number}") for number in range(20)]
    fate = {entry.name: chance.choice(["kept", "removed", "relabelled", "redrawn"]) for entry in before}
    made = {
        "kept": lambda e: e,
        "relabelled": lambda e: e._replace(label="x"),
        "redrawn": lambda e: e._replace(image="x"),
    }
    now = [made[fate[entry.name]](entry) for entry in before if fate[entry.name] != "removed"]
    now += [ManifestEntry("new", "i", "l")] * (seed % 2)
    chance.shuffle(now)

    found = _changes(before, now) or RecordChanges((), (), (), ())
    for what in ("removed", "relabelled", "redrawn"):
        assert getattr(found, what) == tuple(name for name, became in fate.items() if became == what)
    assert found.added == ("new",) * (seed % 2)
    assert _changes(now, chance.sample(now, len(now))) is None


def test_records_of_one_name_are_told_apart():
    twice = [ManifestEntry("a", "1", "x"), ManifestEntry("a", "2", "x")]
    assert _changes(twice, twice[:1]) == RecordChanges((), ("a (2)",), (), ())
    assert _changes(twice, twice[::-1]) is None


def test_a_name_of_another_type_is_no_reason_to_stop():
    payload = encode({"image/filename": 7, "image/encoded": b"1"})
    assert manifest.entry_of(payload, "shard#0").name == "shard#0"


def test_a_sentence_names_a_few():
    names = tuple("abcdefghij")
    assert str(RecordChanges(names, (), ("x",), ())) == "10 added: a, b, c, d, e, f, g, h, ...; 1 relabelled: x"


def test_another_image_with_another_label_is_redrawn_alone():
    before, now = ManifestEntry("a", "1", "1"), ManifestEntry("a", "2", "2")
    assert _changes([before], [now]) == RecordChanges((), (), (), ("a",))


def test_records_that_moved_to_another_split_are_neither_added_nor_removed():
    a, b, c, d = (ManifestEntry(name, f"i{name}", "l") for name in "abcd")
    before, now = {"train": [a, b], "val": [c]}, {"train": [b, c], "val": [a._replace(name="val/a")], "test": [d]}

    changes = {split: manifest.changes(before, now, split) for split in now}
    assert changes == {
        "train": RecordChanges((), (), (), (), ("c",), ("a",)),
        "val": RecordChanges((), (), (), (), ("val/a",), ("c",)),
        "test": RecordChanges(("d",), (), (), ()),
    }
    assert str(changes["train"]) == "1 from other splits: c; 1 gone to other splits: a"
    unknown = [ManifestEntry("x", "", "l")], [ManifestEntry("y", "", "l")]
    assert manifest.changes({"val": unknown[0]}, {"train": unknown[1]}, "train") == RecordChanges(("y",), (), (), ())

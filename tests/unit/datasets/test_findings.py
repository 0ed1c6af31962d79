"""What inspect found is used again where nothing changed, and nowhere else."""

from __future__ import annotations

import os
import time

import cv2
import numpy as np
import pytest
from support import annotations as tools
from support import miniatures
from support.commands import call
from support.datasets import records
from support.miniatures import gray, make_image, write

from penstock import files
from penstock.datasets import LayoutOptions, checks, inspect, pack
from penstock.images import codecs
from penstock.kinds import Labels


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state/penstock/inspections"


@pytest.fixture
def read(monkeypatch):
    """The names of the images that are decoded."""
    seen, check = [], checks.check_item
    monkeypatch.setattr(
        checks, "check_item", lambda folder, item, **more: seen.append(item.name) or check(folder, item, **more)
    )
    return seen


def aged(folder, seconds=60):
    """Let all files be as old as if nobody had worked on them for a minute."""
    for path in folder.rglob("*"):
        os.utime(path, (time.time() - seconds, time.time() - seconds))


@pytest.fixture
def masks(tmp_path):
    miniatures.masks(tmp_path / "raw")
    aged(tmp_path / "raw")
    return tmp_path / "raw"


def test_pack_decodes_nothing_that_inspect_has_seen(masks, read, tmp_path, capsys):
    assert call("inspect", masks, capsys=capsys)[0] == 0
    count = len(read)
    code, _, err = call("pack", masks, "-o", tmp_path / "data", capsys=capsys)

    assert (code, count) == (0, 2), err
    assert len(read) == count


@pytest.mark.parametrize("tool", ["LabelMe", "YOLO outlines"])
@pytest.mark.parametrize("task", ["segmentation", "detection"])
def test_the_second_inspection_is_the_first_one(tmp_path, read, tool, task):
    tools.OUTLINES[tool](tmp_path / "raw")
    aged(tmp_path / "raw")
    first = inspect(tmp_path / "raw", how=LayoutOptions(task=task))
    count = len(read)
    second = inspect(tmp_path / "raw", how=LayoutOptions(task=task))

    assert (count, len(read)) == (3, 3)
    assert second.problems == first.problems
    assert second.labels == first.labels
    one, other = (
        [(each.key, each.content, each.pixels, each.item.relative) for each in x.items] for x in (first, second)
    )
    assert one == other
    if task == "detection":
        assert [each.item.label for each in first.items] == [each.item.label for each in second.items]
    one, other = (pack(found, tmp_path / name) for found, name in ((first, "one"), (second, "other")))
    assert one.description.content == other.description.content
    assert [r.payload for r in records(one, "train")] == [r.payload for r in records(other, "train")]


def test_problems_are_kept_too(masks, read):
    (masks / "images/train/broken.jpg").write_bytes(b"\xff\xd8\xff no image")
    write(masks / "masks/train/broken.png", gray(np.zeros((24, 32), np.uint8)))
    aged(masks)
    first, count = inspect(masks).problems, len(read)

    assert any(problem.fatal for problem in first)
    assert (inspect(masks).problems, len(read)) == (first, count)


def test_a_file_that_changed_is_read_again(masks, read):
    inspect(masks)
    read.clear()
    image, mask = min((masks / "images/train").iterdir()), max((masks / "masks/train").iterdir())
    for path, data in ((image, make_image(seed=99)), (mask, codecs.encode_mask(np.ones((24, 32), np.uint8)))):
        path.write_bytes(data)
        os.utime(path, (time.time() - 30, time.time() - 30))
    found = inspect(masks)

    assert sorted(read) == sorted({image.stem, mask.stem})
    assert dict(next(each for each in found.items if each.item.name == mask.stem).pixels) == {1: 24 * 32}


def test_a_file_that_changes_while_it_is_read_is_read_again(masks, read, monkeypatch):
    """What was found is of the file as it was before, whatever time of change is set on the new one."""
    image, check = min((masks / "images/train").iterdir()), checks.check_item

    def changing(folder, item, **more):
        found = check(folder, item, **more)
        if item.image == image:
            image.write_bytes(make_image(seed=98))
            os.utime(image, (time.time() - 30, time.time() - 30))
        return found

    with monkeypatch.context() as patched:
        patched.setattr(checks, "check_item", changing)
        before = inspect(masks)
    after = inspect(masks)

    contents = [next(each.content for each in found.items if each.item.image == image) for found in (before, after)]
    assert contents[0] != contents[1]


def test_files_that_are_new_may_still_change(tmp_path, read):
    miniatures.masks(tmp_path / "raw")
    inspect(tmp_path / "raw")
    count = len(read)
    inspect(tmp_path / "raw")
    assert len(read) == 2 * count


def test_masks_that_mean_something_else_are_read_again(masks, read):
    inspect(masks)
    count = len(read)
    found = inspect(masks, Labels(mapping={1: 0}))
    assert len(read) == 2 * count
    assert all(1 not in dict(each.pixels) for each in found.items)


def test_a_part_leaves_the_findings_of_the_rest(masks, read):
    inspect(masks)
    count = len(read)
    inspect(masks, how=LayoutOptions(limit=1))
    inspect(masks)
    assert len(read) == count


def test_masks_of_another_order_of_classes_are_read_again(tmp_path, read):
    """The ids in a mask follow from the classes of all files together."""
    tools.labelme(tmp_path / "raw")
    aged(tmp_path / "raw")
    before = inspect(tmp_path / "raw").items[0].pixels
    text = (tmp_path / "raw/val/c.json").read_text()
    (tmp_path / "raw/val/c.json").write_text(text.replace('"cat"', '"ant"'))
    aged(tmp_path / "raw", 30)
    after = inspect(tmp_path / "raw").items[0].pixels

    assert dict(before).keys() == {0, 1, 2}
    assert dict(after).keys() == {0, 2, 3}


def test_without_a_home_everything_is_read(masks, read, monkeypatch, home):
    write(home.parent, b"a file where the folder should be")
    inspect(masks)
    count = len(read)
    inspect(masks)
    assert len(read) == 2 * count


def test_damaged_findings_are_none(masks, read, home):
    inspect(masks)
    count = len(read)
    (path,) = home.iterdir()
    for damage in (b"", b"\xc1", b"\x81\xa1a\x01"):
        path.write_bytes(damage)
        inspect(masks)
    assert len(read) == 4 * count


def test_findings_of_few_folders_are_kept(tmp_path, home):
    for number in range(35):
        write(tmp_path / f"raw{number}/cat/a.jpg", make_image(seed=number))
        aged(tmp_path / f"raw{number}")
        inspect(tmp_path / f"raw{number}")
    assert len(list(home.iterdir())) == 32
    assert files.state_folder() == home.parent


def test_a_file_exchanged_for_one_of_the_same_size_and_time_is_read(tmp_path):
    """As archives give all files one time."""
    for number in range(3):
        write(tmp_path / f"raw/images/{number}.jpg", make_image(seed=number))
        write(tmp_path / f"raw/masks/{number}.bmp", codecs_bmp(number % 2))
    aged(tmp_path / "raw")
    before = inspect(tmp_path / "raw").items[0].pixels
    path = tmp_path / "raw/masks/0.bmp"
    stat = path.stat()
    with path.open("r+b") as handle:  # the same file, and so the same inode
        handle.write(codecs_bmp(1))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert inspect(tmp_path / "raw").items[0].pixels != before


def codecs_bmp(value):
    ids = np.zeros((24, 32), np.uint8)
    ids[:4], ids[20:] = value, 2
    return cv2.imencode(".bmp", ids)[1].tobytes()


@pytest.mark.parametrize("label", ["None", "1"])
def test_an_item_without_boxes_is_named_again(tmp_path, read, label):
    """What is kept of it has no boxes either."""
    write(tmp_path / "raw/a.png", make_image())
    aged(tmp_path / "raw")
    (tmp_path / "own.py").write_text(
        "from penstock import Item, Labels, Layout\n"
        "def recognise(folder):\n"
        f"    items = (Item('train', 'a', folder / 'a.png', label={label}),)\n"
        "    return Layout('detection', 'own', (), items, Labels(('x', 'y')))\n"
    )
    how = LayoutOptions(f"{tmp_path}/own.py:recognise")
    first, second = ([each.message for each in inspect(tmp_path / "raw", how=how).fatal] for _ in range(2))

    assert (first, read) == (second, ["a"])
    assert len(first) == 1


def test_a_name_that_is_no_utf_8_keeps_no_findings_and_is_named(masks, read):
    (image,) = (masks / "images/train").iterdir()
    other = image.with_name("caf\udce9.jpg")
    image.rename(other)
    (mask,) = (masks / "masks/train").iterdir()
    mask.rename(mask.with_name("caf\udce9.png"))
    aged(masks)
    assert next(problem.message for problem in inspect(masks).fatal) == (
        "images/train/caf\\udce9.jpg: expected a file name in UTF-8, found other bytes. Rename the file."
    )


def test_a_part_of_a_folder_keeps_what_was_found_of_the_rest(tmp_path, read):
    for number in range(4):
        write(tmp_path / f"raw/{('cat', 'dog')[number % 2]}/{number}.jpg", make_image(seed=number))
    aged(tmp_path / "raw")
    inspect(tmp_path / "raw")
    inspect(tmp_path / "raw", how=LayoutOptions(limit=1))
    read.clear()
    inspect(tmp_path / "raw")

    assert read == []

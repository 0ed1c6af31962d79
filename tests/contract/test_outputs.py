"""No command writes over what is the user's: all bytes that were there are there afterwards.

Every command with -o is pointed at its inputs, at files inside them, at a stranger's file and folder, at a link, and at its
own output after somebody has changed it.
"""

from __future__ import annotations

import os
import shutil

import cv2
import numpy as np
import pytest
from support.commands import call
from support.training import recipe

from penstock.cli.overview import COMMANDS, name_of
from penstock.errors import RunError
from penstock.training import train


@pytest.fixture(scope="module")
def home(packed, raw, tmp_path_factory):
    """Raw data, a dataset and a run, to be written over."""
    root = tmp_path_factory.mktemp("home")
    shutil.copytree(raw, root / "raw")
    shutil.copytree(packed.folder, root / "data")
    train(recipe(root / "data", steps=1), root, "r")
    (root / "0001-r").rename(root / "run")
    (root / "mine.txt").write_text("mine\n")
    (root / "mine.png").write_bytes(cv2.imencode(".png", np.zeros((4, 4, 3), np.uint8))[1].tobytes())
    (root / "folder").mkdir()
    (root / "folder/mine.txt").write_text("mine\n")
    (root / "link.png").symlink_to("mine.png")
    return root


DRAWING = (
    "data/dataset.json",
    "run/checkpoints/last/model.safetensors",
    "raw/classes.txt",
    "mine.txt",
    "mine.png",
    "link.png",
)
FILES = {
    "show": lambda home, out: ["show", home / "data", "-o", out],
    "replay": lambda home, out: ["replay", home / "run", "--step", 1, "-o", out],
    "inspect": lambda home, out: ["inspect", home / "raw", "--draw-duplicates", out],
    "export": lambda home, out: ["export", home / "run", "-o", out],
    "report": lambda home, out: ["report", home / "run", home / "run", "-o", out],
}
FOLDERS = {
    "scenes": lambda home, out: ["scenes", "-o", out, "--train", 2, "--val", 1, "--test", 1, "--size", 32, 32],
    "predict": lambda home, out: ["predict", home / "run", home / "raw/images/val/scene-00000.jpg", "-o", out],
    "pack": lambda home, out: ["pack", home / "raw", "-o", out],
    "unpack": lambda home, out: ["unpack", home / "data", "-o", out],
    "demo": lambda home, out: ["demo", "-o", out],
    "new": lambda home, out: ["new", out],
    "download": lambda home, out: ["download", "cifar10", "-o", out, "--url", f"file://{home}/folder/mine.txt"],
    "pull": lambda home, out: ["pull", "kafka://127.0.0.1:1/t", "-o", out],
}
WITHOUT_OUTPUT = {
    "verify", "publish", "train", "doctor", "recipe", "runs", "compare", "note", "prune", "models", "evaluate",
}  # fmt: skip


def first_fault(*words):
    """One command of the demo, which ends with the first that fails."""
    if call(*words)[0]:
        raise RunError("demo", expected="success", found="none", remedy="See above")


def contents(root):
    return {path.relative_to(root): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def test_every_command_that_writes_is_tried():
    assert {name_of(place) for place in COMMANDS} == {*FILES, *FOLDERS, *WITHOUT_OUTPUT}


def kept(home, words, capsys):
    """The error of a command after which everything is as it was."""
    before = contents(home)
    code, _, err = call(*words, capsys=capsys)
    after = contents(home)
    assert {path: after.get(path) == data for path, data in before.items() if after.get(path) != data} == {}, words
    return code, err


@pytest.mark.parametrize("out", DRAWING)
@pytest.mark.parametrize("command", FILES)
def test_a_file_is_written_over_nothing_else(home, capsys, command, out):
    code, err = kept(home, FILES[command](home, home / out), capsys)

    assert (code, err[:7]) == (2, "error: "), err


@pytest.mark.parametrize("out", [".", "raw", "raw/images", "raw/images/val", "run", "data", "folder"])
@pytest.mark.parametrize("command", [name for name in FOLDERS if name != "pull"])
def test_a_folder_is_filled_only_where_nothing_else_lies(home, capsys, monkeypatch, command, out):
    if command == "demo":
        monkeypatch.setattr("penstock.cli.demo._run", first_fault)
    code, err = kept(home, FOLDERS[command](home, home / out), capsys)

    if (command, out) != ("pack", "data"):  # which holds the same
        assert code == 2
        assert err.splitlines()[-1].startswith("error: ")


@pytest.mark.parametrize("command", FILES)
def test_its_own_file_is_written_again_until_somebody_changes_it(home, tmp_path, capsys, command):
    name = {"export": "m.pt2", "report": "c.html"}.get(command, "s.png")
    if command == "inspect":
        home = shutil.copytree(home, tmp_path / "home", symlinks=True)
        again = cv2.imread(str(home / "raw/images/train/scene-00000.jpg"))
        cv2.imwrite(str(home / "raw/images/val/again.jpg"), again, [cv2.IMWRITE_JPEG_QUALITY, 60])
        shutil.copy(home / "raw/masks/train/scene-00000.png", home / "raw/masks/val/again.png")
    words = FILES[command](home, tmp_path / name)
    assert {call(*words, capsys=capsys)[0] for _ in range(2)} <= {0, 1}  # 1 where there are problems
    (tmp_path / name).write_bytes((tmp_path / name).read_bytes() + b"mine")
    by = {"inspect": "inspect --draw-duplicates"}.get(command, command)

    assert call(*words, capsys=capsys)[2].splitlines()[-1] == (
        f"error: -o {tmp_path / name}: expected a new file, or one as penstock {by} has written it, found another file, or one "
        "that was changed since. Choose another name, or remove it first."
    )


def test_predictions_are_written_again_until_somebody_corrects_one(home, tmp_path, capsys):
    words = FOLDERS["predict"](home, tmp_path / "out")
    assert [call(*words, capsys=capsys)[0] for _ in range(2)] == [0, 0]
    mask = tmp_path / "out/scene-00000.png"
    written, times = mask.read_bytes(), mask.stat()
    mask.write_bytes(written)
    assert call(*words, capsys=capsys)[0] == 0  # the same bytes are no correction
    mask.write_bytes(written + b"mine")
    os.utime(mask, ns=(times.st_atime_ns, times.st_mtime_ns))  # as tools do that keep the times of files

    assert call(*words, capsys=capsys)[2] == (
        f"error: -o {tmp_path}/out: expected predictions as they were written, found scene-00000.png, which was changed since. "
        "Choose another folder, or move the file away.\n"
    )


def test_predictions_of_other_images_are_minded_too(home, tmp_path, capsys):
    """What was written before and not now is still known, when it comes again."""
    words = FOLDERS["predict"](home, tmp_path / "out")
    others = ["predict", home / "run", home / "raw/images/val/scene-00001.jpg", "-o", tmp_path / "out"]
    assert [call(*each, capsys=capsys)[0] for each in (words, others)] == [0, 0]
    mask = tmp_path / "out/scene-00000.png"
    mask.write_bytes(mask.read_bytes() + b"mine")

    assert call(*words, capsys=capsys)[0] == 2
    assert mask.read_bytes().endswith(b"mine")


def test_predictions_are_not_written_through_links(home, tmp_path, capsys):
    """Though the folder's own note may list them."""
    victim, out = tmp_path / "victim", tmp_path / "out"
    victim.write_bytes(b"mine")
    out.mkdir()
    (out / ".penstock-predictions").write_text("/kind segmentation\n/hash abc\nscene-00000.png\n")
    (out / "scene-00000.png").symlink_to(victim)

    assert call(*FOLDERS["predict"](home, out), capsys=capsys)[2] == (
        f"error: -o {out}: expected predictions as they were written, found scene-00000.png, which is a link. Choose another "
        "folder, or move the link away.\n"
    )
    assert victim.read_bytes() == b"mine"


def test_what_a_link_called_packing_leads_to_is_kept(raw, tmp_path, capsys):
    mine, out = tmp_path / "mine", tmp_path / "out"
    mine.mkdir()
    (mine / "thesis.tex").write_text("mine")
    out.mkdir()
    (out / ".packing").symlink_to(mine)

    assert call("pack", raw, "-o", out, capsys=capsys)[2].splitlines()[-1] == (
        f"error: {out}/.packing: expected a folder that penstock pack has made, found a link. Remove it, or choose another "
        "folder with -o."
    )
    assert [path.name for path in mine.iterdir()] == ["thesis.tex"]


def test_a_pack_that_goes_on_removes_shards_alone(raw, tmp_path, capsys):
    out = tmp_path / "out"
    (out / ".packing").mkdir(parents=True)
    for name in ("report.doc", "train-00007-of-00009.tfrecord"):
        (out / name).write_text("there")
        (out / ".packing" / name).write_text("")

    assert call("pack", raw, "-o", out, capsys=capsys)[0] == 0
    assert (out / "report.doc").read_text() == "there"
    assert not (out / "train-00007-of-00009.tfrecord").exists()


def test_an_archive_that_was_put_there_is_not_removed(tmp_path, capsys):
    """As an error of download advises."""
    (tmp_path / "x").mkdir()
    mine = tmp_path / "x/mine.tar.gz"
    mine.write_text("mine\n")
    code, _, err = call("download", "cifar10", "-o", tmp_path / "x", "--url", f"file://{mine}", capsys=capsys)

    assert (code, mine.read_text()) == (2, "mine\n")
    assert err.endswith("Put the archive of its authors in its place, or remove it to have it downloaded.\n")


def test_a_name_of_another_kind_is_refused(home, tmp_path, capsys):
    assert call("show", home / "data", "-o", tmp_path / "new.json", capsys=capsys)[2] == (
        f"error: -o {tmp_path}/new.json: expected a name that ends in .png, found .json. Choose another name.\n"
    )

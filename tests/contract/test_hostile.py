"""No file, however it is damaged, ends in a traceback or in much memory: neither one of a raw folder, nor
one of a packed dataset, nor one of a run.
"""

from __future__ import annotations

import resource
import shutil
from typing import NamedTuple

import pytest
from support import hostile
from support.commands import call
from support.raw_folders import FOLDERS
from support.training import UNET

MEGABYTES = 1000
SAMPLE = 2
"""Changes of each kind of folder in every run; `make soak` tries all of them."""


def check(words, root, path, change, capsys):
    """Call a command where one file of a folder was changed: it is done, or a sentence names the file or the folder."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    code, out, err = call(*words, capsys=capsys)
    where = f"{path.name}: {change.what}: {words[0]}"
    said = out + err
    assert code == 0 or path.name in said or str(root) in said, (where, said)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MEGABYTES << 10, where


def kinds_of(root):
    """A file of each kind, as the others of a folder are like it."""
    files = sorted(path for path in root.rglob("*") if path.is_file())
    return list({(path.suffix, path.parent.name): path for path in reversed(files)}.values())


def pack_changed(folder, raw, path, change, out, capsys):
    kept = path.read_bytes()
    path.write_bytes(change.data)
    check(("pack", raw, "-o", out, "--skip-bad", *folder.options.split()), raw, path, change, capsys)
    path.write_bytes(kept)
    shutil.rmtree(out, ignore_errors=True)


@pytest.mark.parametrize("folder", FOLDERS, ids=[folder.what for folder in FOLDERS])
def test_a_damaged_file_of_a_folder_is_named(folder, tmp_path, capsys):
    raw = tmp_path / "raw"
    folder.make(raw)
    files = kinds_of(raw)
    for path in files:
        for change in hostile.some(path, -(-SAMPLE // len(files))):
            pack_changed(folder, raw, path, change, tmp_path / "out", capsys)


@pytest.mark.soak
@pytest.mark.parametrize("folder", FOLDERS, ids=[folder.what for folder in FOLDERS])
def test_every_damage_of_a_folder_is_named(folder, tmp_path, capsys):
    raw = tmp_path / "raw"
    folder.make(raw)
    for path in kinds_of(raw):
        for change in hostile.every(path):
            pack_changed(folder, raw, path, change, tmp_path / "out", capsys)


SMALL = (
    "--model", UNET, "--weights", "none", "--fast-dev-run", "--crop", 32, 32, "--batch", 2, "--set",
    "data.repeat_threshold=1",
)  # fmt: skip


def damaged_data(packed, tmp_path, capsys, count):
    """Every file of a packed dataset, changed so often."""
    for path in sorted(packed.folder.iterdir()):
        for change in hostile.some(path, count):
            data = tmp_path / "data"
            shutil.copytree(packed.folder, data)
            (data / path.name).write_bytes(change.data)
            for words in (
                ("verify", data),
                ("show", data, "-o", tmp_path / "shown.png"),
                ("unpack", data, "-o", tmp_path / "unpacked"),
                ("train", data, *SMALL, "--runs", tmp_path / "runs"),
            ):
                check(words, data, path, change, capsys)
            for folder in (data, tmp_path / "runs", tmp_path / "unpacked"):
                shutil.rmtree(folder, ignore_errors=True)
            (tmp_path / "shown.png").unlink(missing_ok=True)


def damaged_runs(run, tmp_path, capsys, count):
    """A file of each kind of a run, changed so often."""
    for path in kinds_of(run):
        for change in hostile.some(path, count):
            copy = tmp_path / "runs" / run.name
            shutil.copytree(run, copy, symlinks=True)
            (copy / path.relative_to(run)).write_bytes(change.data)
            for words in (
                ("runs", copy.parent),
                ("report", copy),
                ("evaluate", copy),
                ("replay", copy, "--step", 1, "-o", tmp_path / "drawn.png"),
                ("train", "--resume", copy),
            ):
                check(words, copy, path, change, capsys)
            (tmp_path / "drawn.png").unlink(missing_ok=True)
            shutil.rmtree(copy.parent)


def test_a_damaged_file_of_a_dataset_is_named(packed, tmp_path, capsys):
    damaged_data(packed, tmp_path, capsys, 1)


def test_a_damaged_file_of_a_run_is_named(whole_run, tmp_path, capsys):
    damaged_runs(whole_run, tmp_path, capsys, 1)


@pytest.mark.soak
def test_many_damages_of_a_dataset_are_named(packed, tmp_path, capsys):
    damaged_data(packed, tmp_path, capsys, 100)


@pytest.mark.soak
def test_many_damages_of_a_run_are_named(whole_run, tmp_path, capsys):
    damaged_runs(whole_run, tmp_path, capsys, 50)


def grown(path):
    """A file with gigabytes of nothing behind it, which take no room on the disk."""
    with path.open("ab") as handle:
        handle.truncate(path.stat().st_size + (1800 << 20))


class Grown(NamedTuple):
    what: str = "1.8 GB of zeros behind it"


@pytest.mark.parametrize("name", ["dataset.json", ".index", ".classes.npy", "manifest.jsonl.gz"])
def test_gigabytes_behind_a_file_of_a_dataset_are_not_read(packed, tmp_path, name, capsys):
    data = tmp_path / "data"
    shutil.copytree(packed.folder, data)
    path = next(each for each in sorted(data.iterdir()) if each.name.endswith(name))
    grown(path)
    for words in (("verify", data), ("train", data, *SMALL, "--runs", tmp_path / "runs")):
        check(words, data, path, Grown(), capsys)


@pytest.mark.parametrize("name", ["recipe.toml", "checkpoints/last/manifest.json", "code/net.py", "data.json"])
def test_gigabytes_behind_a_file_of_a_run_are_not_read(whole_run, tmp_path, name, capsys):
    copy = tmp_path / "runs" / whole_run.name
    shutil.copytree(whole_run, copy, symlinks=True)
    path = copy / name
    path.parent.mkdir(exist_ok=True)
    grown(path)
    for words in (("runs", copy.parent), ("report", copy), ("evaluate", copy), ("train", "--resume", copy)):
        check(words, copy, path, Grown(), capsys)

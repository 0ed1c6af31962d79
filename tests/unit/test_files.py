from __future__ import annotations

import fcntl
import os
import signal
from pathlib import Path

import pytest
from support import processes
from support.training import Stop, recipe

from penstock import files
from penstock.training import resume, train


def test_a_file_that_grows_too_large_is_named(packed, tmp_path):
    code = (
        "import resource, signal, sys\nfrom penstock.cli import main\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "before = resource.getrlimit(resource.RLIMIT_FSIZE)\nresource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))\n"
        # Lifted again: what measures coverage writes a file of its own when the process ends.
        "try:\n    main(sys.argv[1:])\nfinally:\n    resource.setrlimit(resource.RLIMIT_FSIZE, before)"
    )
    done = processes.run("-c", code, "show", packed.folder, "-o", tmp_path / "s.png")

    assert done.returncode == 2
    assert done.stderr == (
        f"error: {tmp_path}/s.png: expected a path that can be read and written, found file too large. Check the path, "
        "its permissions and the room on the disk.\n"
    )


KILLED = """
import os, signal, sys
from pathlib import Path
from penstock import files

sys.addaudithook(lambda event, words: event == "os.rename" and os.kill(os.getpid(), signal.SIGKILL))
getattr(files, sys.argv[2])(Path(sys.argv[1]), b"half of it")
"""


@pytest.mark.parametrize("way", ["write_atomically", "replace_whole"])
def test_what_a_killed_process_leaves_is_removed_once_nobody_writes_it(tmp_path, way):
    child = tmp_path / "child.py"
    child.write_text(KILLED)
    place = tmp_path / "place"
    place.mkdir()
    (place / "a.json").write_text("before")
    assert processes.run(child, place / "a.json", way).returncode == -signal.SIGKILL
    (left,) = place.glob(".*")
    with left.open("rb") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)  # as whoever writes it does
        files.sweep(place)
        assert left.exists()
    files.sweep(place)
    assert [path.name for path in place.iterdir()] == ["a.json"]
    assert (place / "a.json").read_text() == "before"


@pytest.mark.parametrize("way", [files.write_atomically, files.replace_whole])
def test_a_file_that_is_being_written_is_not_removed(tmp_path, monkeypatch, way):
    rename = Path.replace

    def swept(path, target):
        files.sweep(tmp_path)
        return rename(path, target)

    monkeypatch.setattr(Path, "replace", swept)
    way(tmp_path / "a.json", b"whole")
    assert (tmp_path / "a.json").read_bytes() == b"whole"


@pytest.mark.parametrize("place", [".", "evaluations", "figures", "code"])
def test_a_resume_removes_what_was_left(packed, tmp_path, place):
    folder, _ = train(recipe(packed.folder, steps=3), tmp_path, hooks=[Stop(1)])
    left = folder.path / place / ".x.json.1.partial"
    for last in (False, True):
        left.parent.mkdir(exist_ok=True)
        left.write_text("half")
        resume(folder.path)  # which the second time has nothing to do
        assert not left.exists(), last


def test_only_what_is_named_as_penstock_names_it_is_left_over(tmp_path):
    ours = (
        ".a.json.123.partial",
        ".0001-run.0a1b2c3d.partial",
        ".step-00000002.old.partial",
        ".x.tfrecord.k3_x9abz.partial",
    )
    for name in (*ours, ".notes.partial", ".my.notes.partial", "a.1.partial", ".a.123.partial2"):
        (tmp_path / name).write_text("mine")
    assert sorted(path.name for path in files.leftovers(tmp_path)) == sorted(ours)
    files.sweep(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        ".a.123.partial2", ".my.notes.partial", ".notes.partial", "a.1.partial",
    ]  # fmt: skip


@pytest.mark.parametrize("write", [files.write_atomically, files.replace_whole])
def test_a_link_in_the_place_of_the_temporary_file_is_not_followed(tmp_path, write):
    (tmp_path / "dear").write_text("mine")
    (tmp_path / f".a.txt.{os.getpid()}.partial").symlink_to(tmp_path / "dear")
    write(tmp_path / "a.txt", b"new")
    assert ((tmp_path / "dear").read_text(), (tmp_path / "a.txt").read_text()) == ("mine", "new")


@pytest.mark.parametrize("way", ["write_atomically", "replace_whole"])
def test_what_cannot_be_written_leaves_nothing_behind(tmp_path, monkeypatch, way):
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "no space left on device")))
    with pytest.raises(OSError, match="no space left"):
        getattr(files, way)(tmp_path / "a", b"a")
    assert [*tmp_path.iterdir()] == []

"""What the command line writes replaces files, and nothing else."""

from __future__ import annotations

import os
import stat
import threading

import pytest
from support import processes
from support.commands import call
from support.training import recipe

from penstock import files
from penstock.training import train


@pytest.fixture(scope="module")
def trained(packed, tmp_path_factory):
    return train(recipe(packed.folder, steps=1), tmp_path_factory.mktemp("runs"))[0].path


def commands(packed, trained, output):
    return {
        "show": ["show", packed.folder, "-o", output],
        "show augmented": ["show", packed.folder, "--augmented", "--set", "augment.crop=[32,32]", "-o", output],
        "replay": ["replay", trained, "--step", 1, "-o", output],
    }


NAMES = ["show", "show augmented", "replay"]


@pytest.fixture
def device(tmp_path):
    """A character device that swallows what it is given, as /dev/null does; a real one where that may be made."""
    path = tmp_path / "null"
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    except (PermissionError, OSError):
        pytest.skip("only root makes devices")
    try:
        path.write_bytes(b"x")
    except OSError:
        pytest.skip("devices of this folder may not be opened")
    return path


@pytest.mark.parametrize("name", NAMES)
def test_a_device_is_written_to_and_stays_one(packed, trained, device, name, capsys):
    code, _, err = call(*commands(packed, trained, device)[name], capsys=capsys)

    assert (code, err) == (0, "")
    assert stat.S_ISCHR(device.stat().st_mode)
    assert device.stat().st_rdev == os.makedev(1, 3)


def test_a_pipe_is_written_to(packed, tmp_path, capsys):
    path, got = tmp_path / "pipe", []
    os.mkfifo(path)
    reader = threading.Thread(target=lambda: got.append(path.read_bytes()))
    reader.start()
    assert call("show", packed.folder, "-o", path, capsys=capsys)[0] == 0
    reader.join(20)

    assert got[0].startswith(b"\x89PNG")
    assert stat.S_ISFIFO(path.stat().st_mode)


def test_a_links_target_is_written_and_not_the_link(packed, tmp_path, capsys):
    target, link = tmp_path / "deep" / "target.png", tmp_path / "link.png"
    target.parent.mkdir()
    link.symlink_to(target)
    assert call("show", packed.folder, "-o", link, capsys=capsys)[0] == 0

    assert link.is_symlink()
    assert target.read_bytes().startswith(b"\x89PNG")
    assert sorted(path.name for path in target.parent.iterdir()) == ["target.png"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("output", ["", "folder"])
def test_a_folder_is_named(packed, trained, tmp_path, monkeypatch, capsys, name, output):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    code, _, err = call(*commands(packed, trained, output)[name], capsys=capsys)

    assert code == 2
    assert err == (
        f"error: {output or '.'}: expected a path that can be read and written, found is a directory. Check the path, "
        "its permissions and the room on the disk.\n"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_standard_output_may_be_a_pipe_or_a_file(packed, tmp_path):
    words = ["-m", "penstock", "show", str(packed.folder), "-o", "/dev/stdout"]
    os.mkfifo(tmp_path / "pipe")
    child = processes.Child(words, log=tmp_path / "pipe")
    through = (tmp_path / "pipe").read_bytes()
    assert child.wait(100) == 0
    assert processes.Child(words, log=tmp_path / "out").wait(100) == 0

    assert through.startswith(b"\x89PNG")
    assert (tmp_path / "out").is_file()


def test_a_socket_is_refused(tmp_path):
    import socket

    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(tmp_path / "s"))
        with pytest.raises(OSError, match="neither a file nor a device to write to"):
            files.replace_whole(tmp_path / "s", b"x")


def test_predictions_leave_a_device_that_is_in_their_place(trained, raw, tmp_path, device, capsys):
    out = tmp_path / "out"
    out.mkdir()
    image = next((raw / "images" / "val").iterdir())
    (out / f"{image.stem}-overlay.png").symlink_to(device)
    code, _, err = call("predict", trained, image, "-o", out, capsys=capsys)

    assert (code, err) == (
        2,
        f"error: -o {out}: expected a new or empty folder, or one that penstock predict has filled, found a folder with other "
        "files in it. Choose another folder.\n",
    )
    assert (out / f"{image.stem}-overlay.png").is_symlink()
    assert stat.S_ISCHR(device.stat().st_mode)

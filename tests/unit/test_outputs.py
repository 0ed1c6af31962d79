from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from penstock import outputs
from penstock.errors import OutputError

WORDS = "penstock export"


def _package(root):
    path = root / "a.mlpackage"
    (path / "data").mkdir(parents=True)
    (path / "data/weights").write_bytes(b"123")
    (path / "Manifest.json").write_text("{}")
    return path


@pytest.mark.parametrize(
    "change",
    [
        lambda path: (path / "data/weights").write_bytes(b"124"),
        lambda path: (path / "data/more").write_bytes(b""),
        lambda path: (path / "Manifest.json").unlink(),
        lambda path: (path / "data/weights").rename(path / "data/weights2"),
        lambda path: (path / "data/empty").mkdir(),
    ],
)
def test_a_folder_that_is_one_file_is_known_with_all_that_is_in_it(tmp_path, change):
    path = _package(tmp_path)
    with pytest.raises(OutputError, match=r"^-o .*: expected a new file, or one as penstock export has written it"):
        outputs.check(path, WORDS, (".mlpackage",))
    outputs.remember(path, WORDS)
    outputs.check(path, WORDS, (".mlpackage",))
    with pytest.raises(OutputError):
        outputs.check(path, "penstock show", (".mlpackage",))

    change(path)
    with pytest.raises(OutputError):
        outputs.check(path, WORDS, (".mlpackage",))


def test_a_file_below_dev_is_a_file(tmp_path):
    """Shared memory, and a path that only begins like that of a device."""
    with tempfile.NamedTemporaryFile(dir="/dev/shm", suffix=".png") as shared:
        (tmp_path / "mine.png").write_bytes(b"mine")
        for path in (Path(shared.name), Path(f"/dev/..{tmp_path}/mine.png")):
            with pytest.raises(
                OutputError, match=r"^-o .*: expected a new file, or one as penstock show has written it"
            ):
                outputs.write(path, b"png", "penstock show")
        assert (tmp_path / "mine.png").read_bytes() == b"mine"

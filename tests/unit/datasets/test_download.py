from __future__ import annotations

import hashlib

import pytest
from support import miniatures
from support.errors import refused
from support.shelf import Shelf

from penstock.datasets import inspect
from penstock.datasets.download import ARCHIVES, Archive, download
from penstock.errors import DatasetError


def test_an_archive_is_downloaded_once_and_can_be_packed(shelf, tmp_path):
    folder = download(shelf, tmp_path / "down")
    assert download(shelf, tmp_path / "down") == folder

    assert Shelf.asked == [None]
    assert inspect(folder).layout.name == "CIFAR-10"
    assert sorted(path.name for path in (tmp_path / "down").iterdir()) == ["cifar-10-batches-bin", "mini.tar.gz"]


@pytest.mark.parametrize("ranges", [True, False])
def test_a_download_that_broke_off_goes_on(shelf, tmp_path, ranges):
    Shelf.cut, Shelf.ranges = 5000, ranges
    with pytest.raises(DatasetError) as caught:
        download(shelf, tmp_path / "down")
    Shelf.cut = None
    folder = download(shelf, tmp_path / "down")

    assert str(caught.value) == (
        f"{shelf.url}: expected the archive, found 5,000 of {len(Shelf.data):,} bytes before the connection ended. Run the "
        "command again: it goes on where it broke off. Or download mini.tar.gz by hand into the output folder."
    )
    assert Shelf.asked == [None, "bytes=5000-"]
    assert len(inspect(folder).items) == 36


def test_one_that_was_whole_but_not_yet_renamed_is_not_fetched_again(shelf, tmp_path):
    miniatures.write(tmp_path / "down" / ".mini.tar.gz.part", Shelf.data)

    assert download(shelf, tmp_path / "down").is_dir()


def test_files_beside_the_archive_are_left_alone(shelf, tmp_path):
    miniatures.write(tmp_path / "down/mini.tar.gz.part", "mine")
    miniatures.write(tmp_path / "down.part", "mine too")
    download(shelf, tmp_path / "down")
    for end in ("", "..", "."):
        url = f"{shelf.url.rpartition('/')[0]}/{end}"
        refused(
            download, Archive(url, shelf.md5, "x"), tmp_path / "down",
            message=f"{url}: expected the address of an archive, found that of a folder. Name the file, as in "
            "https://HOST/cifar-10-binary.tar.gz.",
        )  # fmt: skip

    assert [(tmp_path / name).read_text() for name in ("down/mini.tar.gz.part", "down.part")] == ["mine", "mine too"]


def test_another_archive_is_refused_and_removed(shelf, tmp_path):
    right = Shelf.data
    Shelf.data = right[:-1] + bytes([right[-1] ^ 1])
    found = hashlib.md5(Shelf.data, usedforsecurity=False).hexdigest()
    with pytest.raises(DatasetError) as caught:
        download(shelf, tmp_path / "down")
    path = tmp_path / "down" / "mini.tar.gz"

    assert str(caught.value) == (
        f"{path}: expected an archive with MD5 {shelf.md5}, found {found}; it was removed. Run the command again to "
        "download it anew."
    )
    assert not path.exists()
    Shelf.data = right
    assert download(shelf, tmp_path / "down").is_dir()


def test_one_that_was_brought_by_hand_is_used(shelf, tmp_path):
    miniatures.write(tmp_path / "down" / "mini.tar.gz", Shelf.data)
    download(shelf, tmp_path / "down")

    assert Shelf.asked == []


def test_a_place_without_it_is_named(shelf, tmp_path):
    with pytest.raises(DatasetError, match=r"gone.tar.gz: expected the archive, found 404 Not Found."):
        download(Archive(shelf.url.replace("mini", "gone"), "", "x"), tmp_path)


def test_nobody_there_is_an_error_that_says_what_to_do(tmp_path):
    with pytest.raises(DatasetError) as caught:
        download(Archive("http://127.0.0.1:9/a.tar.gz", "", "x"), tmp_path)

    assert str(caught.value) == (
        "http://127.0.0.1:9/a.tar.gz: expected the archive, found [Errno 111] Connection refused. Run the command again: it "
        "goes on where it broke off. Or download a.tar.gz by hand into the output folder."
    )


class TestDownloads:
    def test_progress_is_told_in_mebibytes(self, shelf, tmp_path):
        Shelf.data += bytes(3 << 20)
        seen = []
        with pytest.raises(DatasetError, match="expected an archive with MD5"):
            download(shelf, tmp_path, lambda done, total: seen.append((done, total)))

        assert len(seen) > 3
        assert seen == sorted(seen)
        assert seen[-1] == (len(Shelf.data) >> 20, len(Shelf.data) >> 20)

    def test_both_archives_are_those_of_their_authors(self):
        """https://www.cs.toronto.edu/~kriz/cifar.html gives these MD5 sums of the binary versions."""
        assert {name: (archive.url.rpartition("/")[2], archive.md5) for name, archive in ARCHIVES.items()} == {
            "cifar10": ("cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d13530"),
            "cifar100": ("cifar-100-binary.tar.gz", "03b5dce01913d631647c71ecec9e9cb8"),
        }

"""Archives from a local server: broken off, resumed, damaged, not there."""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import io
import tarfile
import threading

import miniatures
import pytest
from test_cli import call

from penstock.datasets import inspect
from penstock.datasets.download import ARCHIVES, Archive, download
from penstock.errors import DatasetError


class Shelf(http.server.BaseHTTPRequestHandler):
    """Serves one archive, in ranges; `cut` breaks answers off after so many bytes."""

    data, cut, ranges, asked = b"", None, True, []

    def do_GET(self):
        wanted = self.headers.get("Range")
        Shelf.asked.append(wanted)
        start = int(wanted[len("bytes=") : -1]) if wanted and Shelf.ranges else 0
        if not self.path.endswith("mini.tar.gz"):
            self.send_error(404)
            return
        if start >= len(Shelf.data):
            self.send_error(416)
            return
        rest = Shelf.data[start:]
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        self.wfile.write(rest[: Shelf.cut])

    def log_message(self, *_):
        pass


@pytest.fixture
def shelf(tmp_path):
    """An archive of a miniature of CIFAR-10 on a server of our own."""
    miniatures.cifar10(tmp_path / "made" / "cifar-10-batches-bin")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        archive.add(tmp_path / "made" / "cifar-10-batches-bin", "cifar-10-batches-bin")
    Shelf.data, Shelf.cut, Shelf.ranges, Shelf.asked = buffer.getvalue(), None, True, []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Shelf)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}/mini.tar.gz"
    yield Archive(url, hashlib.md5(Shelf.data, usedforsecurity=False).hexdigest(), "cifar-10-batches-bin")
    server.shutdown()
    thread.join()
    server.server_close()


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
        "command again: it goes on where it broke off. Or download mini.tar.gz by hand into the folder."
    )
    assert Shelf.asked == [None, "bytes=5000-"]
    assert len(inspect(folder).facts) == 36


def test_one_that_was_whole_but_not_yet_renamed_is_not_fetched_again(shelf, tmp_path):
    miniatures.write(tmp_path / "down" / "mini.tar.gz.part", Shelf.data)

    assert download(shelf, tmp_path / "down").is_dir()


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


def test_through_the_command_line_without_a_network(shelf, tmp_path, capsys, monkeypatch):
    code, out, _ = call(
        "download", "cifar10", "-o", tmp_path / "down", "--url", shelf.url.rpartition("/")[0] + "/gone", capsys=capsys
    )
    assert (code, out) == (2, "")
    monkeypatch.setitem(ARCHIVES, "cifar10", shelf)
    code, out, _ = call("download", "cifar10", "-o", tmp_path / "down", capsys=capsys)

    assert code == 0
    assert out == (
        f"unpacked {tmp_path}/down/cifar-10-batches-bin; next: penstock pack {tmp_path}/down/cifar-10-batches-bin -o "
        f"{tmp_path}/down/cifar10\n"
    )
    with contextlib.suppress(KeyError):
        del Shelf.asked[:]


def test_nobody_there_is_an_error_that_says_what_to_do(tmp_path):
    with pytest.raises(DatasetError) as caught:
        download(Archive("http://127.0.0.1:9/a.tar.gz", "", "x"), tmp_path)

    assert str(caught.value) == (
        "http://127.0.0.1:9/a.tar.gz: expected the archive, found [Errno 111] Connection refused. Run the command again: it "
        "goes on where it broke off. Or download a.tar.gz by hand into the folder."
    )

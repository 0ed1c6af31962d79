"""What can be predicted besides files and folders, and what is said of the rest."""

from __future__ import annotations

import functools
import http.server
import shutil
import threading

import pytest
from support.commands import call


@pytest.fixture
def served(tmp_path):
    """A folder, and its address."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *arguments):
            pass

    folder = tmp_path / "served"
    folder.mkdir()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield folder, f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_an_image_at_an_address_is_predicted_as_the_file_is(trained, raw, tmp_path, capsys, served):
    folder, address = served
    image = next((raw / "images" / "val").iterdir())
    shutil.copy(image, folder / "far.jpg")
    words = ("predict", trained, f"{address}/far.jpg?size=1", f"{address}/gone.jpg", "-o", tmp_path / "out")
    code, out, err = call(*words, capsys=capsys)

    assert (code, err.splitlines()[1:]) == (1, [])
    assert out.splitlines()[:2] == [
        f"{address}/gone.jpg: expected an image at this address, found File not found. Check the address.",
        f"predicted 1 of 2 images into {tmp_path}/out",
    ]
    assert call("predict", trained, image, "-o", tmp_path / "near", capsys=capsys)[0] == 0
    assert (tmp_path / "out/far.png").read_bytes() == (tmp_path / f"near/{image.stem}.png").read_bytes()


def test_what_lies_beside_the_images_is_counted(trained, raw, tmp_path, capsys):
    shutil.copytree(raw / "images/val", tmp_path / "in/images")
    shutil.copytree(raw / "masks/val", tmp_path / "in/masks")
    for name in ("notes.txt", "more.txt", "table.csv", "LICENSE"):
        (tmp_path / "in" / name).write_text("x")
    masks = len(list((tmp_path / "in/masks").iterdir()))
    code, out, _ = call("predict", trained, tmp_path / "in", "-o", tmp_path / "out", capsys=capsys)

    assert code == 0
    assert out.splitlines()[1] == f"left out: {masks} masks, 2 .txt files, 1 file without an ending, 1 .csv file"

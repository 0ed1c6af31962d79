from __future__ import annotations

import contextlib

from support.commands import call
from support.shelf import Shelf

from penstock.datasets.download import ARCHIVES


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

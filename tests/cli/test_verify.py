from __future__ import annotations

from support.commands import call


def test_verify_exits_with_1_where_something_is_wrong(packed, tmp_path, capsys):
    import shutil

    shutil.copytree(packed.folder, tmp_path / "data")
    shard = next((tmp_path / "data").glob("train-*.tfrecord"))
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.write_bytes(data)
    code, out, _ = call("verify", tmp_path / "data", capsys=capsys)

    assert code == 1
    assert out.splitlines()[-1].endswith((" fault", " faults"))
    assert not out.splitlines()[-1].endswith(" 0 faults")
    assert shard.name in out


def test_verify_counts(packed, capsys):
    assert call("verify", packed.folder, capsys=capsys)[:2] == (0, "28 records are sound, 0 faults\n")

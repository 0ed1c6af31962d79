from __future__ import annotations

from support.commands import call


def test_scenes_are_made(tmp_path, capsys):
    code, out, _ = call("scenes", "-o", tmp_path / "s", "--train", 2, "--val", 1, "--test", 0, capsys=capsys)

    assert (code, out) == (0, f"made 3 scenes of 192 x 256 in {tmp_path / 's'}\n")

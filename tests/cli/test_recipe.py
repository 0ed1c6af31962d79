from __future__ import annotations

from support.commands import call


def test_recipe_prints_a_recipe_that_trains(packed, tmp_path, capsys):
    settings = ["model.name=unet:test_resnet", "model.weights=none", "augment.crop=[32,32]", "train.steps=2"]
    pairs = [item for s in [*settings, "train.batch=4", f"data.path={packed.folder}"] for item in ("--set", s)]
    _, out, _ = call("recipe", *pairs, capsys=capsys)
    (tmp_path / "mine.toml").write_text(out)
    code, out, _ = call("train", tmp_path / "mine.toml", "--device", "cpu", "--runs", tmp_path / "r", capsys=capsys)

    assert code == 0
    assert "finished at step 2: step 2 reached" in out
    (folder,) = (tmp_path / "r").iterdir()
    assert call("report", folder, capsys=capsys)[:2] == (0, f"report {folder}/report.html\n")
    assert call("train", "--resume", folder, "--steps", 3, capsys=capsys)[0] == 0
    assert call("train", packed.folder, "--resume", folder, capsys=capsys)[0] == 2

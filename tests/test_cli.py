"""The command line as users meet it: in a process of its own, with its exit codes and its words."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from PIL import Image
from training import recipe

from penstock.cli import main
from penstock.datasets import scenes
from penstock.images import decode_mask
from penstock.training import train


def call(*arguments, capsys=None):
    """One command in this process: exit code, stdout, stderr."""
    with pytest.raises(SystemExit) as caught:
        main([str(a) for a in arguments])
    out, err = capsys.readouterr() if capsys else ("", "")
    return caught.value.code or 0, out, err


@pytest.fixture(scope="module")
def trained(packed, tmp_path_factory):
    folder, _ = train(recipe(packed.folder, steps=4), tmp_path_factory.mktemp("runs"))
    return folder.path


def test_help_imports_neither_torch_nor_any_command():
    code = (
        "import sys; from penstock.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "print({'torch', 'numpy', 'cv2', 'timm'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "replay" in done.stdout
    assert done.stdout.endswith("set()\n")


@pytest.mark.parametrize(
    "module", ["seeds", "errors", "values", "records", "sources", "order", "images", "datasets", "runs", "files"]
)
def test_the_lower_layers_do_not_import_torch(module):
    code = f"import sys, penstock.{module}; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "False\n"


def test_data_commands_do_not_import_torch(raw, tmp_path):
    code = (
        "import sys; from penstock.cli import main\n"
        f"for a in (['inspect', r'{raw}'], ['pack', r'{raw}', '-o', r'{tmp_path}/d'], ['verify', r'{tmp_path}/d']):\n"
        "    try: main(a)\n"
        "    except SystemExit as e: assert not e.code\n"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.endswith("False\n")


def test_mistakes_are_sentences_and_exit_with_2(tmp_path, capsys):
    code, out, err = call("train", tmp_path, capsys=capsys)

    assert (code, out) == (2, "")
    assert err == (
        f"error: {tmp_path}: expected a packed dataset, with a dataset.json, found a folder without one. Make one with "
        "penstock pack FOLDER -o DIR.\n"
    )
    assert call("train", capsys=capsys)[2].startswith("error: penstock train: expected a packed dataset, a recipe, or")
    assert "expected OLD=NEW" in call("inspect", tmp_path, "--map", "x", capsys=capsys)[2]


def test_bugs_show_a_traceback(monkeypatch, raw):
    from penstock.cli import data

    def broken(*_, **__):
        raise ZeroDivisionError

    monkeypatch.setattr(data, "inspect_folder", broken)
    with pytest.raises(ZeroDivisionError):
        main(["inspect", str(raw)])


def test_ctrl_c_is_one_line(monkeypatch, raw, capsys):
    from penstock.cli import data

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(data, "inspect_folder", interrupted)
    assert call("inspect", raw, capsys=capsys)[::2] == (130, "interrupted\n")


def test_inspect_says_what_and_why(raw, capsys):
    code, out, _ = call("inspect", raw, capsys=capsys)

    assert code == 0
    assert out.splitlines()[:6] == [
        f"{raw}: segmentation, image and mask folders",
        "  because images/ is divided into train, val",
        "  because masks are found by name in masks/",
        "classes (6, as named): ground, disk, box, triangle, star, ring",
        "ignore label: 255",
        "train: 21 images, height x width 64 x 96 (21)",
    ]
    assert out.endswith("no problems found\n")


def test_inspect_exits_with_1_where_pack_refuses(tmp_path, capsys):
    scenes.write_folder(tmp_path / "raw", {"train": 3, "val": 1}, (24, 32))
    (tmp_path / "raw" / "masks" / "train" / "scene-00001.png").unlink()
    code, out, _ = call("inspect", tmp_path / "raw", capsys=capsys)
    assert code == 1
    assert "PROBLEMS (mask missing: 1)\n  images/train/scene-00001.jpg: expected a mask " in out
    assert call("pack", tmp_path / "raw", "-o", tmp_path / "d", capsys=capsys)[0] == 2
    code, out, _ = call("pack", tmp_path / "raw", "-o", tmp_path / "d", "--skip-bad", capsys=capsys)
    assert code == 0
    assert "skipped: images/train/scene-00001.jpg" in out
    assert "skipped 1 of 4 images" in out


def test_paths_that_cannot_be_used_are_sentences(packed, raw, tmp_path, capsys):
    (tmp_path / "file").touch()
    code, _, err = call("pack", raw, "-o", tmp_path / "file", capsys=capsys)
    assert code == 2
    assert err.splitlines()[-1] == (
        f"error: {tmp_path}/file: expected a path that can be read and written, found file exists. Check the path, its "
        "permissions and the room on the disk."
    )
    assert call("show", packed.folder, "-o", tmp_path / "no" / "x.png", capsys=capsys)[0] == 0
    assert call("show", packed.folder, "-o", tmp_path / "file" / "x.png", capsys=capsys)[2] == (
        f"error: {tmp_path}/file/x.png: expected a path that can be read and written, found not a directory. Check the "
        "path, its permissions and the room on the disk.\n"
    )
    assert call("show", packed.folder, "-n", "0", capsys=capsys)[0] == 2
    assert call("inspect", raw, "--ignore", "256", capsys=capsys)[0] == 2


def test_show_draws_records_and_what_the_network_is_fed(packed, tmp_path, capsys):
    for name, options in (("a", []), ("b", ["--augmented", "--set", "augment.crop=[32,32]"])):
        path = tmp_path / f"{name}.png"
        code, out, _ = call("show", packed.folder, "-n", 4, "-o", path, *options, capsys=capsys)
        assert (code, out) == (0, f"drawn {path}\n")
        with Image.open(path) as shown:
            assert np.asarray(shown).std() > 20


def test_verify_counts(packed, capsys):
    assert call("verify", packed.folder, capsys=capsys)[:2] == (0, "28 records are sound, 0 faults\n")


def test_scenes_are_made(tmp_path, capsys):
    code, out, _ = call("scenes", "-o", tmp_path / "s", "--train", 2, "--val", 1, "--test", 0, capsys=capsys)

    assert (code, out) == (0, f"made 3 scenes of 192 x 256 in {tmp_path / 's'}\n")


def test_replay_names_the_records_of_a_step(trained, capsys):
    code, out, _ = call("replay", trained, "--step", 2, capsys=capsys)
    lines = (trained / "origins.jsonl").read_text().splitlines()

    assert code == 0
    for line in out.splitlines()[:4]:
        name, origin = line.split("  ")[1].removesuffix(")").split(" (")
        assert name.startswith("scene-")
        assert origin in lines[1]
    assert (trained / "figures" / "step-00000002.png").is_file()
    code, _, err = call("replay", trained, "--step", 5, capsys=capsys)
    assert (code, err) == (2, f"error: {trained}: expected a step from 1 to 4, found 5. Choose one of those.\n")


def test_evaluate_scores_as_training_did(trained, capsys):
    import json

    code, out, _ = call("evaluate", trained, "--checkpoint", "last", capsys=capsys)
    during = json.loads((trained / "evaluations" / "step-00000004.json").read_text())
    after = json.loads((trained / "evaluations" / "val-00000004.json").read_text())

    assert code == 0
    assert "mean IoU" in out
    assert after["confusion"] == during["confusion"]
    assert after["loss"] == during["loss"]
    page = (trained / "report.html").read_text()
    assert page.count("data:image/png;base64,") >= 2
    assert "ground" in page


@pytest.mark.parametrize("window", [0, 32])
def test_predict_writes_masks_of_the_pictures_own_size(trained, raw, tmp_path, window, capsys):
    picture, _ = scenes.encode(scenes.draw(9, "x", 0, (50, 71)))
    (tmp_path / "one.jpg").write_bytes(picture)
    (tmp_path / "broken.jpg").write_bytes(picture[:500])
    out = tmp_path / "out"
    arguments = ["predict", trained, raw / "images" / "val", tmp_path / "one.jpg", "-o", out, "--window", window]
    assert call(*arguments, capsys=capsys)[:2] == (
        0,
        f"predicted 8 of 8 images into {out}\n"
        "NAME.png holds class ids, which look nearly black; NAME-overlay.png shows them\n",
    )
    assert decode_mask((out / "one.png").read_bytes(), "x").shape == (50, 71)
    assert decode_mask((out / "scene-00003.png").read_bytes(), "x").max() < 6
    with Image.open(out / "one-overlay.png") as shown:
        assert shown.size == (71, 50)
    code, printed, _ = call("predict", trained, tmp_path / "broken.jpg", "-o", out, capsys=capsys)
    assert code == 1
    assert printed.startswith(f"{tmp_path}/broken.jpg: expected a whole image, found ")


def test_predict_refuses_names_that_would_meet(trained, raw, tmp_path, capsys):
    path = raw / "images" / "val" / "scene-00000.jpg"
    code, _, err = call("predict", trained, path, raw / "images" / "val", "-o", tmp_path, capsys=capsys)

    assert code == 2
    assert err == (
        f"error: {path}: expected images whose answers go to files of their own, found that "
        f"{tmp_path}/scene-00000.png is wanted for {path} too. Choose another folder with -o, or predict the images "
        "into two.\n"
    )
    mine = tmp_path / "mine.png"
    Image.new("RGB", (32, 32)).save(mine)
    before = mine.read_bytes()
    assert call("predict", trained, mine, "-o", tmp_path, capsys=capsys)[0] == 2
    assert mine.read_bytes() == before
    assert call("predict", trained, tmp_path / "no", "-o", tmp_path, capsys=capsys)[0] == 2


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

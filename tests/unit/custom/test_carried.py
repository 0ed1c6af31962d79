from __future__ import annotations

import json
import shutil

import pytest
from support.training import recipe

import penstock as ps
from penstock import custom
from penstock.errors import RunError


def test_what_a_file_imports_from_beside_is_copied_with_it(packed, tmp_path):
    there = tmp_path / "there"
    there.mkdir()
    (there / "layers.py").write_text("from torch import nn\n\nWIDTH = 5\n")
    (there / "my_net.py").write_text(
        "from layers import WIDTH, nn\n\n\ndef build(classes):\n"
        "    return nn.Sequential(nn.Conv2d(3, WIDTH, 1), nn.Conv2d(WIDTH, classes, 1))\n"
    )
    run = ps.train(recipe(packed.folder, f"{there}/my_net.py:build", steps=1), runs=tmp_path / "runs")
    shutil.rmtree(there)

    assert set(json.loads((run.path / "settings.json").read_text())["code"]) == {"code/layers.py", "code/my_net.py"}
    assert ps.load(run).trained.model[0].out_channels == 5
    assert "layers" not in __import__("sys").modules


def test_files_of_one_name_in_two_folders_are_two(tmp_path):
    for number in (1, 2):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "beside.py").write_text(f"value = {number}\n")
        (folder / "own.py").write_text("from beside import value\n")
    found = [custom.load(custom.ImportPath(f"{tmp_path}/{number}/own.py", "value"), "x") for number in (1, 2)]

    assert found == [1, 2]


@pytest.mark.parametrize("name", ["code/x.py", "code/deep/x.py", "code/folder", "code"])
def test_links_below_code_are_refused(tmp_path, name):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "run" / name).parent.mkdir(parents=True)
    (tmp_path / "run" / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RunError) as caught:
        custom.carried.check(tmp_path / "run", {})
    assert str(caught.value) == (
        f"{tmp_path / 'run' / name}: expected files that were copied, found a link to {tmp_path}/elsewhere. Put the file "
        "itself in its place."
    )


def test_a_file_that_was_added_is_refused_whatever_its_name(tmp_path):
    (tmp_path / "code").mkdir()
    (tmp_path / "code/.x.partial").write_text("")
    with pytest.raises(RunError, match="was not copied"):
        custom.carried.check(tmp_path, {})


def test_two_files_of_one_name_are_not_copied_over_each_other(tmp_path):
    for number in (1, 2):
        (tmp_path / str(number)).mkdir()
        (tmp_path / f"{number}/parts.py").write_text(f"value = {number}\n")
    first, second = (custom.ImportPath(f"{tmp_path}/{number}/parts.py", "value") for number in (1, 2))
    custom.carried.keep(first, "task", tmp_path / "run")
    with pytest.raises(RunError) as caught:
        custom.carried.keep(second, "loss.custom", tmp_path / "run")
    assert str(caught.value) == (
        f"loss.custom = {second}: expected files of different names, as all are copied into one folder, found another "
        "parts.py. Rename one of them."
    )
    assert (tmp_path / "run/code/parts.py").read_text() == "value = 1\n"

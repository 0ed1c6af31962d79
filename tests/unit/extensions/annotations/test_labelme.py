from __future__ import annotations

from support import annotations as tools

from penstock.datasets import LayoutOptions, inspect


def test_the_names_that_its_scripts_put_first_are_no_classes(tmp_path):
    tools.labelme(tmp_path)
    (tmp_path / "labels.txt").write_text("__ignore__\n_background_\ndog\ncat\n")

    assert inspect(tmp_path, how=LayoutOptions(task="detection")).labels.classes == ("dog", "cat")

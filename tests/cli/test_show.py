from __future__ import annotations

import numpy as np
from PIL import Image
from support.commands import call


def test_show_draws_records_and_what_the_network_is_fed(packed, tmp_path, capsys):
    for name, options in (("a", []), ("b", ["--augmented", "--set", "augment.crop=[32,32]"])):
        path = tmp_path / f"{name}.png"
        code, out, _ = call("show", packed.folder, "-n", 4, "-o", path, *options, capsys=capsys)
        assert (code, out) == (0, f"drawn {path}\n")
        with Image.open(path) as shown:
            assert np.asarray(shown).std() > 20


def test_a_sheet_of_a_recipe_that_leaves_the_shuffle_open(packed, tmp_path, capsys):
    words = ["--augmented", "--set", "data.block=0", "--count", 2, "-o", tmp_path / "sheet.png"]
    code, _, err = call("show", packed.folder, *words, capsys=capsys)

    assert (code, err, (tmp_path / "sheet.png").is_file()) == (0, "", True)


def test_another_seed_draws_other_crops(packed, tmp_path, capsys):
    sheets = []
    for number, seed in enumerate((1, 2, 1)):
        words = ["--augmented", "--seed", seed, "--set", "augment.crop=[32,32]", "-o", tmp_path / f"{number}.png"]
        assert call("show", packed.folder, *words, capsys=capsys)[0] == 0
        sheets.append((tmp_path / f"{number}.png").read_bytes())
    assert sheets[0] == sheets[2] != sheets[1]

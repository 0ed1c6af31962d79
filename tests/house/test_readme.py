from __future__ import annotations

import importlib.util
import re
import shutil
import tomllib

import pytest
from support.commands import call
from support.paths import ROOT

from penstock.datasets import inspect, pack, scenes

README = (ROOT / "README.md").read_text() + (ROOT / "docs" / "tour.md").read_text()
"""The README and the tour, which goes on where it ends."""

CODE = "\n".join(re.findall(r"```python\n(.*?)```", README, re.DOTALL))


@pytest.mark.slow
def test_the_python_examples_run(tmp_path, monkeypatch, capsys):
    """As they stand, on what `penstock demo` makes, but smaller; the parts of one's own are those of examples/."""
    scenes.write_folder(tmp_path / "demo" / "raw", {"train": 24, "val": 4, "test": 4}, (96, 128))
    pack(inspect(tmp_path / "demo" / "raw"), tmp_path / "demo" / "data")
    for name in ("my_net", "my_loss", "my_hooks"):
        shutil.copy(ROOT / "examples" / "own_parts" / f"{name}.py", tmp_path)
    monkeypatch.chdir(tmp_path)
    quick = CODE.replace("steps=20", "steps=2").replace(
        'hooks=["my_hooks.py:StopAt"])', 'hooks=["my_hooks.py:StopAt"], steps=2)'
    )
    exec(compile(quick, "README.md", "exec"), found := {})

    assert capsys.readouterr().out.splitlines()[2].startswith("torch.Size([8, 96, 128, 3]) train-0000")
    assert found["prediction"].mask.shape == (96, 128)
    assert found["run"].recipe.model.name.endswith("my_net.py:build")


def test_every_command_it_names_is_there():
    from penstock.cli.overview import COMMANDS, name_of

    known = {name_of(place) for place in COMMANDS}
    named = set(re.findall(r"penstock ([a-z]+)(?= [A-Za-z/-]|`)", README.replace(CODE, ""))) - {"train", "as"}

    assert named <= known


def test_what_the_readme_says_of_settings_that_nobody_named(capsys):
    text = call("recipe", capsys=capsys)[1]
    printed = tomllib.loads(text)

    assert (
        "\n# Optimizer steps. By default 100 epochs, but at least 1,000 and at most 20,000 steps.\nsteps = 20000\n"
        in text
    )
    assert printed["model"]["weights"] == "pretrained"
    assert (printed["train"]["save_every"], printed["train"]["save_minutes"]) == (1000, 5.0)


def module(path):
    """A script beside the documents."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


FIGURES = module(ROOT / "docs" / "figures.py")


def test_the_first_page_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) < 150


def test_the_terminal_shows_what_the_commands_printed():
    session = (FIGURES.FOLDER / "session.txt").read_text()

    assert (FIGURES.FOLDER / "terminal.svg").read_text() == FIGURES.terminal(session)
    assert [line[2:] for line in session.splitlines() if line.startswith("$")] == [c for c, _ in FIGURES.SESSION]


def test_the_terminal_shows_what_inspect_says_today(tmp_path, monkeypatch, capsys):
    FIGURES.photos(tmp_path / "photos")
    monkeypatch.chdir(tmp_path)
    command, shown = FIGURES.SESSION[0]
    printed = call(*command.split()[1:], capsys=capsys)[1]
    lines = (FIGURES.FOLDER / "session.txt").read_text().splitlines()

    assert [line for line in printed.splitlines() if re.match(shown, line)] == lines[1 : lines.index("")]


def test_the_tour_names_the_extras():
    (sentence,) = re.findall(r"^The extras of .*$", README, re.MULTILINE)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]

    assert set(re.findall(r"`(\w+)`", sentence)) == set(extras) - {"dev"}

"""A project that trains as it is made."""

from __future__ import annotations

import subprocess
import tomllib

import pytest
from support import processes
from support.commands import call

pytestmark = pytest.mark.slow

FILES = [
    ".gitignore", "CHANGELOG.md", "README.md", "hooks.py", "layout.py", "recipe.toml", "task.py", "tests/test_project.py",
]  # fmt: skip


@pytest.fixture
def project(tmp_path, capsys):
    code, out, err = call("new", tmp_path / "flowers", capsys=capsys)
    made = sorted(
        str(path.relative_to(tmp_path / "flowers")) for path in (tmp_path / "flowers").rglob("*") if path.is_file()
    )
    assert (code, err) == (0, "")
    assert made == FILES
    assert out.splitlines()[-1] == f"next: cd {tmp_path}/flowers and follow README.md"
    return tmp_path / "flowers"


def own_test(project):
    return processes.run("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests", cwd=project)


@pytest.mark.soak  # a minute
def test_its_readme_can_be_followed_and_its_own_test_passes(project):
    """Every command of it, one after the other; the training is cut short, as its 400 steps say nothing more here."""
    text = (project / "README.md").read_text()
    assert text.startswith("# flowers\n")
    assert "NAME" not in text
    first, second = (block.strip().splitlines() for block in text.split("```")[1::2])
    first = [f"{line} --steps 4" if line.startswith("penstock train") else line for line in first]
    lines = "\n".join(["set -e", *first, *second])
    with processes.executable(project / "bin", "penstock") as path:
        done = subprocess.run(
            ["bash", "-c", lines], cwd=project, env={**processes.quiet(), "PATH": path}, capture_output=True, text=True,
            timeout=300, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (run,) = project.glob("runs/0001-*")
    recipe = tomllib.loads((run / "recipe.toml").read_text())
    assert recipe["task"].endswith("task.py:Project")
    assert recipe["hooks"][0]["name"].endswith("hooks.py:Speed")
    assert len(list((project / "predictions").glob("*-overlay.png"))) == 12

    tested = own_test(project)
    assert tested.returncode == 0, tested.stdout
    assert "1 passed" in tested.stdout


def test_its_own_test_fails_where_a_part_is_broken(project):
    """Or it would be of no use."""
    (project / "hooks.py").write_text((project / "hooks.py").read_text().replace("after_step", "after_stap"))
    tested = own_test(project)
    assert tested.returncode == 1
    assert "after_stap" in tested.stdout + tested.stderr


def test_nothing_is_written_over(project, tmp_path, capsys):
    before = {path: path.read_bytes() for path in project.rglob("*") if path.is_file()}
    (tmp_path / "file").write_text("mine")
    for name, found in (("flowers", "a folder with files in it"), ("file", "a file")):
        assert call("new", tmp_path / name, capsys=capsys) == (
            2,
            "",
            f"error: {tmp_path}/{name}: expected a new folder, or an empty one, found {found}. Choose another name.\n",
        )
    assert {path: path.read_bytes() for path in project.rglob("*") if path.is_file()} == before
    (tmp_path / "empty").mkdir()
    assert call("new", tmp_path / "empty", capsys=capsys)[0] == 0


@pytest.mark.parametrize("name", ["two words", "-x.", ".hidden", "a/ä"])
def test_names_are_those_of_projects(tmp_path, capsys, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    code, _, err = call("new", f"./{name}", capsys=capsys)
    assert (code, err) == (
        2,
        "error: penstock new: expected a name of letters, digits, dots, hyphens and underscores, found "
        f"{name.rpartition('/')[2]!r}. Choose another name.\n",
    )
    assert list(tmp_path.iterdir()) == []

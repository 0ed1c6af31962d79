from __future__ import annotations

import json
import subprocess
import sys
from functools import partial

import pytest
from support.training import Stop, recipe

from penstock.cli.events import show
from penstock.runs import environment
from penstock.training import resume, train


def test_the_command_and_the_revision_are_kept(packed, tmp_path, monkeypatch):
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "x"]):
        subprocess.run([*git, *words], cwd=tmp_path, check=True)
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=tmp_path, check=True, capture_output=True, text=True
    ).stdout.strip()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["penstock", "train", "somewhere"])
    folder, _ = train(recipe(packed.folder, steps=1, evaluate_every=9), tmp_path / "runs")
    kept = json.loads((folder.path / "environment.json").read_text())

    assert kept["revision"].removesuffix("-dirty") == head
    assert kept["command"] == ["penstock", "train", "somewhere"]
    assert kept["packages"] == environment()["packages"]


def test_uncommitted_changes_are_kept(packed, tmp_path, monkeypatch, capsys):
    """As a patch that makes the committed files those that were used; a resume says that they are others now."""
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    place = tmp_path / "project"
    place.mkdir()
    (place / "code.py").write_text("a = 1\n")
    for words in (["init", "-q"], ["add", "code.py"], ["commit", "-q", "-m", "x"]):
        subprocess.run([*git, *words], cwd=place, check=True)
    monkeypatch.chdir(place)
    folder, _ = train(recipe(packed.folder, steps=3, evaluate_every=9), tmp_path / "runs", hooks=[Stop(1)])
    assert folder.read_json("environment.json")["uncommitted"] is None
    assert list(folder.path.glob("*.patch")) == []

    (place / "code.py").write_text("a = 2\n")
    resume(folder.path, hooks=[Stop(2)], on_event=show)
    (patch,) = folder.path.glob("uncommitted-*.patch")
    kept = folder.read_json("environment.json")["sessions"][0]["uncommitted"]
    assert patch.name == f"uncommitted-{kept}.patch"
    assert f"the hash of uncommitted code was none, is {kept}" in capsys.readouterr().out
    subprocess.run([*git, "checkout", "-q", "code.py"], cwd=place, check=True)
    subprocess.run([*git, "apply", str(patch)], cwd=place, check=True)
    assert (place / "code.py").read_text() == "a = 2\n"

    begun, _ = train(recipe(packed.folder, steps=1, evaluate_every=9), tmp_path / "runs")
    assert (begun.path / patch.name).read_bytes() == patch.read_bytes()

    (place / "code.py").write_text("x" * (1 << 20) + "\n")
    resume(folder.path, on_event=show)
    assert list(folder.path.glob("*.patch")) == [patch]
    assert "the hash of uncommitted code was " in capsys.readouterr().out


@pytest.mark.parametrize("bare", [False, True])
@pytest.mark.parametrize(
    "setting", ["core.fsmonitor", "filter.x.clean", "filter.x.process", "diff.external", "diff.x.textconv"]
)
def test_a_strangers_repository_has_nothing_executed(tmp_path, monkeypatch, setting, bare):
    """Its settings may name commands, for a working directory as well as for a folder that looks like a bare one."""
    run = partial(subprocess.run, cwd=tmp_path, check=True, capture_output=True)
    run(["git", "init", "-q", "."])
    (tmp_path / "a.txt").write_text("one")
    (tmp_path / ".gitattributes").write_text("* filter=x diff=x")
    run(["git", "add", "."])
    run(["git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "a"])
    (tmp_path / "a.txt").write_text("two!")
    run(["git", "config", setting, f"touch {tmp_path / 'executed'}; cat"])
    if bare:
        for path in [*(tmp_path / ".git").iterdir()]:
            path.rename(tmp_path / path.name)
        (tmp_path / ".git").rmdir()
        run(["git", "-C", "/", f"--git-dir={tmp_path}", "config", "core.bare", "false"])
        run(["git", "-C", "/", f"--git-dir={tmp_path}", "config", "core.worktree", str(tmp_path)])
    monkeypatch.chdir(tmp_path)
    environment()
    assert not (tmp_path / "executed").exists()


def test_a_strangers_submodule_has_nothing_executed(tmp_path, monkeypatch):
    inside = tmp_path / "sub"
    inside.mkdir()
    for folder in (inside, tmp_path):
        run = partial(subprocess.run, cwd=folder, check=True, capture_output=True)
        run(["git", "init", "-q", "."])
        (folder / "a.txt").write_text("one")
        run(["git", "add", "."])
        run(["git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "a"])
    (inside / ".gitattributes").write_text("* filter=x")
    subprocess.run(["git", "config", "filter.x.clean", f"touch {tmp_path / 'executed'}; cat"], cwd=inside, check=True)
    (inside / "a.txt").write_text("two!")
    monkeypatch.chdir(tmp_path)
    head = subprocess.run(["git", "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    assert environment()["revision"] == head
    assert not (tmp_path / "executed").exists()

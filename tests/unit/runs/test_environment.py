from __future__ import annotations

import json
import subprocess
import sys

from support.training import recipe

from penstock.runs import environment
from penstock.training import train


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

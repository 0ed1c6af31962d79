from __future__ import annotations

import re
import subprocess

from support.commands import call
from support.paths import ROOT


def test_the_demo_is_what_the_readme_shows(tmp_path, monkeypatch, capsys):
    import shlex

    ran = []

    def pretended(command, **_):
        words, run = command[3:], tmp_path / "demo/runs/0001-demo"
        ran.append(words)
        if words[0] == "train":
            (run / "checkpoints/step-00000210").mkdir(parents=True)
            (run / "checkpoints/best").symlink_to("step-00000210")
            (run / "evaluations").mkdir()
        if words[0] == "evaluate":
            (run / "evaluations/test-00000210.json").write_text('{"mean_iou": 0.9}')
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("penstock.cli.demo.subprocess.run", pretended)
    code, out, _ = call("demo", capsys=capsys)
    readme = (ROOT / "README.md").read_text()
    (block,) = re.findall(r"```\n(\$ penstock scenes .*?)```", readme, re.DOTALL)
    shown = [
        shlex.split(line[11:]) for line in block.replace("\\\n", "").splitlines() if line.startswith("$ penstock ")
    ]

    assert code == 0
    assert [words for words in ran if words != ["show", "demo/data", "-o", "demo/records.png"]] == shown
    assert "demo/runs/0001-demo/report.html" in out
    assert "demo/predictions" in out

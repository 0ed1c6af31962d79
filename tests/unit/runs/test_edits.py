from __future__ import annotations

from support.commands import call
from support.run_folders import write_run

from penstock.report import write_comparison
from penstock.runs.edits import edits

_BEFORE = "import torch\n\n\ndef term(a, b):\n    return (a - b).abs().mean()\n"
_NOW = _BEFORE.replace("abs()", "square()")
_DIFF = (
    "--- 0001-a/code/losses.py\n+++ 0002-b/code/losses.py\n@@ -4,2 +4,2 @@\n def term(a, b):\n"
    "-    return (a - b).abs().mean()\n+    return (a - b).square().mean()"
)


def _run(path, digest, **sources):
    run = write_run(path, code={"code/losses.py": digest})
    (run / "code").mkdir()
    for name, text in sources.items():
        (run / "code" / f"{name}.py").write_text(text)
    return run


def test_files_that_differ_are_shown_line_by_line(tmp_path, capsys):
    same = {"helper": "x = 1\n"}
    runs = [
        _run(tmp_path / "0001-a", "aa", losses=_BEFORE, **same, gone="y = 1\n"),
        _run(tmp_path / "0002-b", "bb", losses=_NOW, **same),
    ]

    assert list(edits(*runs)) == [_DIFF]
    assert list(edits(runs[0], runs[0])) == []
    code, out, err = call("compare", *runs, capsys=capsys)
    assert (code, err) == (0, "")
    assert f"\n{_DIFF}\n" in out
    page = write_comparison(runs, tmp_path / "page.html").read_text()
    assert f"<pre>{_DIFF}</pre>" in page


def test_links_out_of_a_run_are_not_read(tmp_path):
    (tmp_path / "secret.py").write_text("password = 1\n")
    runs = [_run(tmp_path / "0001-a", "aa", losses=_BEFORE), write_run(tmp_path / "0002-b", code={})]
    (runs[1] / "code").mkdir()
    (runs[1] / "code" / "losses.py").symlink_to(tmp_path / "secret.py")
    assert list(edits(*runs)) == []

    (runs[1] / "code").rename(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "losses.py").unlink()
    (tmp_path / "elsewhere" / "losses.py").write_text(_NOW)
    (runs[1] / "code").symlink_to(tmp_path / "elsewhere")
    assert list(edits(*runs)) == []

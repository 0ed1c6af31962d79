from __future__ import annotations

import errno
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tifffile
from support import processes
from support.commands import call
from support.miniatures import gray, write

import penstock as ps
from penstock.cli import main
from penstock.cli.app import build
from penstock.cli.overview import COMMANDS, name_of
from penstock.config.options import settings_of
from penstock.progress import Printable


def test_help_imports_neither_torch_nor_any_command():
    code = (
        "import sys; from penstock.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "print({'torch', 'numpy', 'cv2', 'timm', 'cyclopts', 'rich'} & set(sys.modules))"
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
    assert call("train", capsys=capsys)[2].startswith(
        "error: penstock train: expected a packed dataset, a topic, a recipe, or"
    )
    assert "expected OLD=NEW" in call("inspect", tmp_path, "--map", "x", capsys=capsys)[2]


def test_more_options_than_there_are_settings_are_refused_at_once(capsys):
    for options in (["--set", "x=1"] * 1001, ["--set=x=1"] * 1001):
        assert call("train", "nowhere", *options, capsys=capsys) == (
            2,
            "",
            "error: expected at most 1,000 options, found 1,001. Write settings into a TOML file.\n",
        )


def test_bugs_show_a_traceback(monkeypatch, raw):
    def broken(*_, **__):
        raise ZeroDivisionError

    monkeypatch.setattr("penstock.datasets.inspect", broken)
    with pytest.raises(ZeroDivisionError):
        main(["inspect", str(raw)])


def test_ctrl_c_is_one_line(monkeypatch, raw, capsys):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("penstock.datasets.inspect", interrupted)
    assert call("inspect", raw, capsys=capsys)[::2] == (130, "interrupted\n")


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


def test_no_name_of_a_file_tells_the_terminal_what_to_do(tmp_path, capsys):
    """Neither in what is printed, nor in what is wrong, nor in an error."""
    name = "a\x1b]0;owned\x07\x9b31m\r"
    for folder in ("images", "masks"):
        write(tmp_path / folder / f"{name}.png", gray(np.ones((8, 8), np.uint8)))
    write(tmp_path / f"images/{name}2.png", gray(np.ones((8, 8), np.uint8)))
    _, out, err = call("inspect", tmp_path, capsys=capsys)
    assert r"images/a\x1b]0;owned\x07\x9b31m\r2.png: expected" in out
    for words in (("verify", tmp_path / name), ("pack", tmp_path, "-o", tmp_path / "o"), (name,)):
        _, *more = call(*words, capsys=capsys)
        assert r"\x1b]0;owned\x07\x9b31m" in "".join(more)
        out += "".join(more)
    assert not set("\x1b\x07\x9b\r") & set(out + err)


def test_what_is_no_text_is_named(capsys):
    assert call("recipe", "--set", "train.num_threads=\udce9", capsys=capsys) == (
        2, "", "error: the settings: expected text in UTF-8, as recipes are kept, found '\\udce9'. Give files and folders names in UTF-8.\n"
    )  # fmt: skip


def test_bars_of_downloads_take_back_their_line():
    stream = io.StringIO()
    printed = Printable(stream)
    assert [printed.write(text) for text in ("\r 50%", "a\rb\x1b", "\r\r\n\t")] == [5, 4, 4]
    assert stream.getvalue() == "\r 50%a\\rb\\x1b\r\\r\n\t"


def test_what_libraries_log_of_a_damaged_file_is_said_in_our_words(tmp_path):
    """tifffile logs an error for each tag that it cannot read, which Python prints where nobody listens."""
    written = io.BytesIO()
    tifffile.imwrite(written, np.ones((20, 20, 5), np.uint16), photometric="minisblack", planarconfig="contig")
    data = bytearray(written.getvalue())
    data[12] = 99  # the type of the first tag, which is the width
    for name in ("a/1.tif", "b/2.tif"):
        write(tmp_path / name, bytes(data))
    done = processes.run("-m", "penstock", "inspect", tmp_path)

    assert done.returncode == 1
    assert "a/1.tif: " in done.stdout
    assert [line for line in done.stderr.splitlines() if not line.startswith("inspect: ")] == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EFBIG, errno.EDQUOT])
def test_a_full_disk_is_a_sentence_though_nothing_is_named(monkeypatch, raw, capsys, number):
    def full(*_, **__):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("penstock.datasets.inspect", full)
    assert call("inspect", raw, capsys=capsys) == (
        2,
        "",
        "error: a file, or standard output: expected a path that can be read and written, found "
        f"{os.strerror(number).lower()}. Check the path, its permissions and the room on the disk.\n",
    )


def test_the_version_is_one_letter_away(capsys):
    assert call("-V", capsys=capsys) == (0, f"{ps.__version__}\n", "")


def test_a_shell_completes_commands_and_options(tmp_path, monkeypatch, capsys):
    """The script knows the options of every command; nothing else of the home folder is touched."""
    monkeypatch.setenv("HOME", str(tmp_path))
    code, out, _ = call("--install-completion", "--shell", "bash", capsys=capsys)
    (script,) = (path for path in tmp_path.rglob("*") if path.is_file())
    assert (code, str(script) in out) == (0, True)
    assert {"--sliding-window", "--draw-duplicates", "compare", "prune"} <= {
        *re.split(r"[\s'\"|)]+", script.read_text())
    }


@pytest.mark.parametrize("command", [name_of(place) for place in COMMANDS])
def test_the_help_of_a_command_ends_with_two_examples_that_it_understands(command, capsys):
    _, out, _ = call(command, "--help", capsys=capsys)
    examples = [shlex.split(line.partition(" > ")[0])[1:] for line in out.partition("Examples:\n")[2].splitlines()]
    assert len(examples) == 2
    for words in examples:
        called, bound, *_ = build().parse_args(words, print_error=False, exit_on_error=False)
        assert called.__name__.removesuffix("_command") == words[0]
        assert bound.arguments or len(words) == 1
        settings_of(bound.arguments.get("settings", ()))


def test_help_says_no_default_where_nothing_is_the_default(capsys):
    _, out, _ = call("evaluate", "--help", capsys=capsys)
    text = " ".join(out.replace("│", "").split())
    assert re.findall(r"\[default: ([^]]*)\]", text) == ["auto", "6", "1.0", "0"]


def test_json_holds_what_python_gives(raw, packed, shaken_run, tmp_path, capsys):
    """Progress and notes go to standard error, so that a program may read the rest."""

    def found(*words, code=0):
        got, out, _ = call(*words, "--json", capsys=capsys)
        assert got == code
        return json.loads(out)

    shutil.copytree(raw, tmp_path / "raw")
    (tmp_path / "raw/masks/val/scene-00000.png").write_bytes(b"no image")
    inspection, seen = ps.inspect(tmp_path / "raw"), found("inspect", tmp_path / "raw", code=1)
    assert (seen["layout"], seen["classes"]) == (inspection.layout.name, [*inspection.labels.classes])
    assert [each["message"] for each in seen["problems"]] == [each.message for each in inspection.problems]
    assert {name: split["images"] for name, split in seen["splits"].items()} == {"train": 21, "val": 7}
    skipped = found("inspect", tmp_path / "raw", "--skip-bad")
    assert [skipped["splits"][name]["images"] for name in ("train", "val")] == [21, 6]
    assert found("verify", packed.folder) == {"sound": 28, "faults": [], "holes": 0}
    assert [row["value"] for row in found("doctor", packed.folder)] == [row.value for row in ps.advise(packed.folder)]
    assert [*found("models")["architectures"]] == [*ps.list_models().architectures]
    (evaluated,) = found("evaluate", shaken_run, "--images", 0)
    (kept,) = (shaken_run / "evaluations").glob(f"val-{evaluated['step']:08d}.json")
    assert evaluated["run"] == str(shaken_run)
    assert {**evaluated, **json.loads(kept.read_text())} == evaluated

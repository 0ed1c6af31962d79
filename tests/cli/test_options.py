"""Every option of every command has its effect."""

from __future__ import annotations

import concurrent.futures
import shlex
import shutil
from pathlib import Path
from string import Template
from typing import NamedTuple

import pytest
from support.commands import call
from support.effects import Elsewhere
from support.option_folders import fill
from support.options import FILE, OPTIONS, Effect, options, replace_doors

TESTS = Path(__file__).parents[1]
ROWS = [
    pytest.param(command, each, id=f"{command}-{name}")
    for command, row in OPTIONS.items()
    for name, each in row.items()
    if isinstance(each, Effect)
]


class Seen(NamedTuple):
    """What a call prints, and the files that are there afterwards."""

    text: str
    files: dict


@pytest.fixture(scope="module")
def places(packed, raw, shaken_run, tmp_path_factory):
    root = tmp_path_factory.mktemp("options")
    return {
        **fill(root),
        "root": root,
        "data": packed.folder,
        "run": shaken_run,
        "image": raw / "images/val/scene-00000.jpg",
        "topic": "kafka://127.0.0.1:1/t",
    }


@pytest.fixture(scope="module")
def known():
    return {}


@pytest.fixture
def look(places, known, tmp_path, monkeypatch, capsys):
    """What a command shows; calls that are made again are remembered."""
    printed = []
    begin = concurrent.futures.ThreadPoolExecutor.__init__

    def counted(pool, max_workers=None, *given, **named):
        printed.append(f"{max_workers} threads")
        begin(pool, max_workers, *given, **named)

    def run(command, words):
        folder = tmp_path / "here"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        monkeypatch.chdir(folder)
        typed = shlex.split(Template(words).substitute(places))
        if "run" in typed:
            shutil.copytree(places["run"], "run", symlinks=True)
        code, out, err = call(command, *typed, capsys=capsys)
        assert "Traceback" not in err
        made = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
        files = {name: path.read_bytes() for name, path in made.items() if path.suffix != ".index"}  # of files' times
        error = [line for line in err.splitlines() if line.startswith("error:")]  # and no progress, which tells seconds
        told = "\n".join((str(code), out, *error, *printed))
        printed.clear()
        return Seen(told, files)

    def remembered(command, words):
        key = command, words
        if key not in known:
            known[key], again = run(command, words), run(command, words)
            assert known[key] == again  # else no difference would say anything
        return known[key]

    with monkeypatch.context() as patch:
        patch.setattr(concurrent.futures.ThreadPoolExecutor, "__init__", counted)
        replace_doors(patch, printed)
        yield lambda command, base, words: (remembered(command, base), run(command, f"{base} {words}"))


def test_every_option_has_a_row():
    assert {command: [*row] for command, row in OPTIONS.items()} == {
        command: [*names] for command, names in options().items()
    }


def test_what_is_shown_elsewhere_is_typed_there():
    typed = options()
    rows = [(typed[command][name], each.test) for command, row in OPTIONS.items() for name, each in row.items()
            if isinstance(each, Elsewhere)]  # fmt: skip

    assert [row for row in rows if not any(f'"{name}"' in (TESTS / row[1]).read_text() for name in row[0])] == []


@pytest.mark.parametrize(("command", "effect"), ROWS)
def test_an_option_has_its_effect(look, command, effect):
    without, given = look(command, effect.base, effect.words)

    if effect.seen.startswith(FILE):
        path = effect.seen.removeprefix(FILE)
        assert given.files.get(path) not in (None, without.files.get(path)), given.text
    else:
        assert effect.seen in given.text
        assert not effect.seen or effect.seen not in without.text
        assert given.text != without.text
    if command == "pack":
        assert given.text.startswith("0\n"), given.text
        assert (given.files == without.files) == ("threads" in effect.words)

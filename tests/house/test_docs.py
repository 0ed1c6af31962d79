"""What the documents show is there: links, commands with their options, settings, and code that can be read."""

from __future__ import annotations

import ast
import importlib.util
import re
import tomllib

import pytest
from support.commands import call
from support.paths import ROOT
from support.setting_names import names

import penstock
from penstock.cli.overview import COMMANDS, name_of

GUIDE_NAMES = (
    "index", "quickstart", "tour", "layouts", "training", "own_loop", "extending", "own_task", "many_gpus", "faults", "kafka", "deployment", "design", "results",
)  # fmt: skip
GUIDES = [ROOT / "README.md", *(ROOT / "docs" / f"{name}.md" for name in GUIDE_NAMES)]
GENERATED = {"settings", "commands", "api", "extending"}
SECTIONS = {"data", "follow", "model", "augment", "regularize", "loss", "optimizer", "train"}
TEXTS = {path.name: path.read_text() for path in GUIDES}


def blocks(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def code(text):
    """All that stands in blocks and in backticks, each command on a line of its own."""
    fenced = re.findall(r"^```\w*\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    indented = re.findall(r"^    (penstock .*)$", text, re.MULTILINE)
    whole = "\n".join([*fenced, *indented]).replace("\\\n", " ")
    return [
        *whole.splitlines(),
        *re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)),
    ]


@pytest.mark.parametrize("name", TEXTS)
def test_python_and_toml_can_be_read(name):
    for block in blocks(TEXTS[name], "python"):
        for node in ast.walk(ast.parse(block, name)):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("penstock"):
                there = importlib.import_module(node.module)
                assert [each.name for each in node.names if not hasattr(there, each.name)] == []
    for block in blocks(TEXTS[name], "toml"):
        tomllib.loads(block)


@pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.name)
def test_links_lead_somewhere(path):
    links = re.findall(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)", path.read_text())
    gone = [link for link in links if not (path.parent / link).exists()]

    assert [link for link in gone if link not in {f"reference/{name}.md" for name in GENERATED}] == []


def test_options_are_those_of_their_commands(capsys):
    helps = {}
    seen = 0
    for name, text in TEXTS.items():
        for line in code(text):
            for command, words in re.findall(r"penstock ([a-z]+)((?: [^|;&]*)?)", line):
                if f"{command}" not in {name_of(place) for place in COMMANDS}:
                    continue
                if command not in helps:
                    helps[command] = call(command, "--help", capsys=capsys)[1]
                for option in re.findall(r"(?<= )--[a-z][a-z-]*", words.partition("#")[0]):
                    seen += 1
                    assert re.search(rf"{option}\b", helps[command]), f"{name}: {line}"

    assert seen > 50


def test_settings_are_those_of_the_recipe():
    """Those that are set in commands, and those that stand alone in backticks."""
    known, seen = set(names()), 0
    for name, text in TEXTS.items():
        for line in code(text):
            alone = re.fullmatch(r"([a-z]+(?:\.[a-z_]+)+)(?:=\S*)?", line)
            keys = [alone[1]] if alone and alone[1].partition(".")[0] in SECTIONS else []
            for key in [*keys, *re.findall(r"--set '?([a-z]+\.[a-z_.]+)=", line)]:
                if key.endswith(".json"):
                    continue
                seen += 1
                assert key in known or any(one.startswith(f"{key}.") for one in known), f"{name}: {key}"

    assert seen > 40


def test_the_reference_is_made_from_the_code(tmp_path):
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    pages = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(pages)
    pages.write(tmp_path)

    assert {path.stem for path in tmp_path.iterdir()} == GENERATED
    names = re.findall(r"^\.\. auto\w+:: (\S+)", (tmp_path / "api.md").read_text(), re.MULTILINE)
    assert sorted(names) == sorted(f"penstock.{name}" for name in penstock.__all__)

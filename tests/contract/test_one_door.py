"""Every command parses, calls one public function, and prints."""

from __future__ import annotations

import importlib
import inspect

import pytest
from support.options import OPTIONS, options

import penstock as ps
from penstock.cli.options import TASKS
from penstock.cli.overview import COMMANDS, name_of
from penstock.kinds import KINDS

CALLS = {
    "scenes": "scenes",
    "new": "new",
    "download": "download",
    "inspect": "inspect",
    "pack": "pack",
    "show": "Data.show",
    "verify": "Data.verify",
    "publish": "Split.publish",
    "unpack": "Data.unpack",
    "pull": "pull",
    "train": "train",
    "doctor": "advise",
    "recipe": "recipe",
    "replay": "Run.replay",
    "report": "write_report",
    "runs": "list_runs",
    "compare": "compare",
    "note": "Run.note",
    "prune": "Run.prune",
    "models": "list_models",
    "evaluate": "Run.evaluate",
    "predict": "LoadedModel.write",
    "export": "export",
}
"""What Python has for each command; `demo` runs other commands."""
MOST_OPTIONS = 191
"""Another option needs a reason, and one that goes."""


def test_every_command_has_a_public_call():
    assert {name_of(place) for place in COMMANDS} == {*CALLS, "demo"}


@pytest.mark.parametrize("place", [place for place in COMMANDS if name_of(place) != "demo"])
def test_a_command_makes_its_call(place):
    kind, _, method = CALLS[name_of(place)].rpartition(".")
    module, _, function = place.partition(":")
    source = inspect.getsource(importlib.import_module(f"penstock.cli.{module}"))

    assert callable(getattr(getattr(ps, kind) if kind else ps, method))
    assert f".{method}(" in source, function


def test_options_are_no_more_than_before():
    assert sum(len(each) for each in options().values()) == sum(len(each) for each in OPTIONS.values()) <= MOST_OPTIONS


def test_help_texts_list_the_built_in_tasks():
    assert ", ".join(KINDS) == TASKS

"""The named mutants: one for every setting, every promise and every row of the ledger that no setting shows, all of which
still apply. `make mutants` tries them.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from pathlib import Path

import pytest
from support.setting_names import names

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent
sys.path.insert(0, str(TESTS / "mutants"))

import run  # noqa: E402 - it lies beside the mutants

MUTANTS = run.read()
NOT_ROWS = {"feature", "defect", "feature or defect", "---"}


def folded(text):
    return " ".join(text.split())


def rows():
    """The features and defects of the ledger, and the settings that are their counterparts."""
    lines = (ROOT / "docs" / "ledger.md").read_text().split("## Left out")[0].splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    known = {name.removeprefix("setting ") for name in settings()}
    return {
        feature: known & set(re.findall(r"`([a-z_]+(?:\.[a-z_]+)+)[`=]", counterpart))
        for feature, counterpart, _ in cells
        if feature not in NOT_ROWS
    }


def nodes():
    """The node ids of all tests, without parameters."""
    found = set()
    for path in TESTS.rglob("test_*.py"):
        name = path.relative_to(TESTS)
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef):
                found.add(f"{name}::{node.name}")
            if isinstance(node, ast.ClassDef):
                inner = [each.name for each in node.body if isinstance(each, ast.FunctionDef)]
                found |= {f"{name}::{node.name}::{each}" for each in inner}
    return found


def test_every_row_of_the_ledger_has_one():
    shown = {row for mutant in MUTANTS for row in mutant.shows}

    assert [row for row, counterparts in rows().items() if row not in shown and not counterparts] == []


def test_there_are_few_enough_to_move_with_the_source():
    assert len(MUTANTS) <= 400


def settings():
    """Every setting of the recipe, as mutants name it."""
    return names(before="setting ")


def test_every_setting_of_the_recipe_has_one():
    shown = {row for mutant in MUTANTS for row in mutant.shows}

    assert [name for name in settings() if name not in shown] == []


def test_what_they_take_away_is_said_where_they_say():
    said = {
        name: folded((ROOT / path).read_text())
        for name, path in (("README", "README.md"), ("tour", "docs/tour.md"), ("design", "docs/design.md"))
    }
    known = {*rows(), *settings()}
    wrong = []
    for mutant in MUTANTS:
        for shown in mutant.shows:
            place, _, quote = shown.partition(": ")
            if place != "defect" and shown not in known and folded(quote) not in said.get(place, ""):
                wrong.append((mutant.name, shown))
    assert wrong == []


@pytest.mark.parametrize("documents", [("README: ", "tour: "), ("design: ",)])
def test_documents_have_dozens(documents):
    assert len({shown for mutant in MUTANTS for shown in mutant.shows if shown.startswith(documents)}) >= 25


def test_each_edits_its_file_in_one_place_and_leaves_python():
    for mutant in MUTANTS:
        text = (ROOT / "src" / "penstock" / mutant.file).read_text()
        changed = mutant.applied(text)
        assert changed != text, mutant.name
        if mutant.file.endswith(".py"):
            compile(changed, mutant.file, "exec")


def test_each_names_tests_that_there_are():
    there = nodes()
    named = {test.partition("[")[0] for mutant in MUTANTS for test in mutant.tests}

    assert sorted(named - there) == []
    assert all(mutant.tests for mutant in MUTANTS)


def test_names_are_their_own():
    assert [name for name, count in Counter(mutant.name for mutant in MUTANTS).items() if count > 1] == []
    assert all(re.fullmatch(r"[a-z0-9-]+", mutant.name) for mutant in MUTANTS)


class TestRunner:
    def test_a_text_that_is_there_twice_or_not_at_all_is_refused(self):
        mutant = run.Mutant("m", (), "x.py", "a", "b", ())
        assert mutant.applied("cac") == "cbc"
        for text in ("ca a", "x"):
            with pytest.raises(ValueError, match=r"m: expected its text once in x\.py, found it "):
                mutant.applied(text)

    def test_a_sample_is_the_same_every_time(self):
        def names(*words):
            return [each.name for each in run.chosen(MUTANTS, run.parsed(words))]

        assert names("--sample", "7") == names("--sample", "7")
        assert len(set(names("--sample", "7"))) == 7
        assert names(MUTANTS[0].name) == [MUTANTS[0].name]
        assert len(names()) == len(MUTANTS)


def fields_of_values():
    """The names of all fields of classes in the source."""
    classes = (
        node
        for path in (ROOT / "src").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    )
    return {each.target.id for one in classes for each in one.body if isinstance(each, ast.AnnAssign)}


def test_what_a_mutant_replaces_is_a_field():
    """One that names a field that is gone would be killed by a TypeError, whatever its test looks at."""
    known, wrong = fields_of_values(), []
    for mutant in MUTANTS:
        given = re.findall(r"replace\([\w.]+, ([a-z_]+)=", mutant.after)
        wrong += [(mutant.name, name) for name in given if name not in known]

    assert wrong == []

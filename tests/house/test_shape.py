"""What machines can hold of the house's shape."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from pathlib import Path

import pytest
from support.paths import TESTS

import penstock
from penstock import errors

ROOT = Path(penstock.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))


def test_no_file_is_longer_than_400_lines():
    assert [str(p) for p in FILES if len(p.read_text().splitlines()) > 400] == []


def test_no_function_is_longer_than_60_lines_and_most_are_under_30():
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    lengths = {
        f"{path.relative_to(ROOT)}:{node.lineno}:{node.name}": node.end_lineno - node.lineno + 1
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, functions)
    }

    assert [name for name, length in lengths.items() if length > 60] == []
    assert sum(length < 30 for length in lengths.values()) > 0.9 * len(lengths)


@pytest.mark.parametrize("name", [m.name for m in pkgutil.walk_packages([str(ROOT)], "penstock.") if m.ispkg])
def test_exports_are_there_and_sorted(name):
    module = importlib.import_module(name)
    exported = getattr(module, "__all__", [])

    assert [item for item in exported if not hasattr(module, item)] == []
    assert sorted(exported, key=order) == list(exported)


def order(name):
    """Constants, classes, functions, each by name."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)


def test_no_docstring_or_comment_is_left_to_be_done():
    marks = ("TO" + "DO", "FIX" + "ME", "XX" + "X")

    assert [str(p) for p in FILES if any(mark in p.read_text() for mark in marks)] == []


NAMES = {"segmentation", "matting", "classification", "detection", "instances", "volumes"}
CLASSES = {"Segmentation", "Matting", "Classification", "Detection", "Volumes", "Task", "Kind"}
CLASSES |= {f"{name}Kind" for name in CLASSES}


def test_nobody_asks_which_task_it_is_but_tasks_and_kinds():
    asked = []
    for path in FILES:
        if path.relative_to(ROOT).parts[0] in {"tasks", "kinds"}:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            compares = isinstance(node, ast.Compare | ast.match_case)
            asks = isinstance(node, ast.Call) and getattr(node.func, "id", "") in {"isinstance", "issubclass"}
            if not (compares or asks):
                continue
            texts = {each.value for each in ast.walk(node) if isinstance(each, ast.Constant)}
            named = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
            if (compares and texts & NAMES) or (asks and named & CLASSES):
                asked.append(f"{path.relative_to(ROOT)}:{node.lineno}")

    assert asked == []


def test_only_the_command_line_prints():
    printing = []
    for path in FILES:
        calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        if any(getattr(call.func, "id", "") == "print" for call in calls):
            printing.append(path.relative_to(ROOT).parts[0])

    assert set(printing) <= {"cli"}


TEST_FILES = sorted(TESTS.rglob("test_*.py"))


def module_of(path):
    """The module below src that a unit test is named after: `test_MODULE.py`, or `test_MODULE_ASPECT.py`."""
    folder, words = ROOT / path.parent.relative_to(TESTS / "unit"), path.stem.removeprefix("test_").split("_")
    names = ("_".join(words[:count]) for count in range(len(words), 0, -1))
    found = (folder / name for name in names)
    return next((each for each in found if each.is_dir() or each.with_suffix(".py").is_file()), None)


def test_unit_tests_mirror_the_modules():
    units = [path for path in TEST_FILES if path.is_relative_to(TESTS / "unit")]

    assert len(units) > 100
    assert [str(path) for path in units if module_of(path) is None] == []


def test_tests_lie_where_they_belong_and_import_no_other_test():
    kinds = {path.relative_to(TESTS).parts[0] for path in TEST_FILES}
    assert kinds == {"unit", "contract", "cli", "e2e", "soak", "house"}
    for path in TEST_FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            modules += [each.name for each in node.names] if isinstance(node, ast.Import) else []
            assert not [module for module in modules if module.split(".")[-1].startswith("test_")], path


def test_no_test_asserts_how_long_something_took():
    """A limit of a wait, `clock() < end`, is none: what is asserted there is that something came at all."""
    clocks = {"perf_counter", "monotonic", "time", "process_time"}
    timed = []
    for path in TEST_FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Assert):
                continue
            differences = [each for each in ast.walk(node) if isinstance(each, ast.BinOp)]
            calls = [each for one in differences for each in ast.walk(one) if isinstance(each, ast.Call)]
            if any(getattr(call.func, "attr", "") in clocks for call in calls):
                timed.append(f"{path.relative_to(TESTS)}:{node.lineno}")

    assert timed == []


def test_types_of_pixel_arrays_are_defined_in_one_place():
    text = {str(path.relative_to(ROOT)): path.read_text() for path in FILES}
    kinds = ("np.uint8", "np.bool_", "Any")

    assert [name for name, lines in text.items() if any(f"= NDArray[{kind}]\n" in lines for kind in kinds)] == [
        "values.py"
    ]


@pytest.mark.parametrize(
    "init", [path for path in FILES if path.name == "__init__.py" and path.parent != ROOT], ids=str
)
def test_a_package_says_what_is_in_each_of_its_files(init):
    listed = re.findall(r"^([a-z_0-9]+)(?:\.py|/)\s+\S", ast.get_docstring(ast.parse(init.read_text())), re.MULTILINE)
    packages = {path.parent.name for path in init.parent.glob("*/__init__.py")}
    modules = {path.stem for path in init.parent.glob("*.py")} - {"__init__"}

    assert sorted(listed) == sorted(modules | packages)


def test_the_tree_of_errors_is_complete():
    drawn = re.findall(r"[├└]── (\w+)", errors.__doc__)
    defined = [
        name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, errors.PenstockError)
    ]

    assert sorted(["PenstockError", *drawn]) == sorted(defined)


MAX_LINES = {"all": 55_308, "core": 48_626}
"""Of the whole source, and without extensions: budgets that fall."""


def test_the_source_stays_within_its_budget():
    lines = {path: len(path.read_text().splitlines()) for path in FILES}
    core = sum(count for path, count in lines.items() if "extensions" not in path.parts)

    assert sum(lines.values()) <= MAX_LINES["all"]
    assert core <= MAX_LINES["core"]

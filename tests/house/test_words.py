"""The names in the source are the field's words, and each one means one thing."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

import penstock

ROOT = Path(penstock.__file__).parent
TREES = {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text()) for path in sorted(ROOT.rglob("*.py"))}

INSTEAD = {
    "own": "custom",
    "somebody": "the user",
    "nobody": "no user",
    "everybody": "all",
    "most": "max",
    "least": "min",
    "fewest": "min",
    "told": "inferred, reported",
    "said": "described",
    "unsaid": "inferred",
    "picture": "image",
    "pictures": "images",
    "film": "video",
    "answer": "response, prediction",
    "average": "ema",
    "standing": "state",
    "deciding": "best metric",
}
"""Words that names of modules, classes, functions, fields and constants do not hold, and what is said in their place."""


def names(path, tree):
    """The names that a file gives away: its own, and those of its classes, functions, fields and constants."""
    yield Path(path).stem
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
    bodies = [tree.body, *(node.body for node in ast.walk(tree) if isinstance(node, ast.ClassDef))]
    for statement in (each for body in bodies for each in body):
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        yield from (target.id for target in targets if isinstance(target, ast.Name))


def test_names_are_the_fields_words():
    found = {
        f"{path}: {name}": INSTEAD[word]
        for path, tree in TREES.items()
        for name in names(path, tree)
        for word in map(str.lower, re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name))
        if word in INSTEAD
    }

    assert found == {}


def test_a_class_name_means_one_thing():
    places = defaultdict(list)
    for path, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(path)

    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}

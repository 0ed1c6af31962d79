"""Labels in the names of files: `--pattern '(?P<label>[a-z]+)_'` for cat_001.jpg."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Final

from penstock.datasets import listing
from penstock.datasets.layout import Layout
from penstock.datasets.layouts import folders
from penstock.errors import DatasetError
from penstock.kinds.items import Item, Labels, Problem
from penstock.progress import counted

PATTERN_TASK: Final = "classification"
"""What classes in the names of files are for."""


def by_pattern(folder: Path, pattern: str) -> Layout:
    """Images whose names, below the folder, say their class and perhaps their split.

    Args:
        folder: searched to the bottom.
        pattern: a regular expression with a group `label`, and perhaps one `split`; without it, folders that are called
            as splits are do divide the images.

    Raises:
        DatasetError: it is no such expression.
    """
    expression = _compiled(pattern)
    images = [path for path in listing.files(folder) if listing.is_image(path)]
    matches = {path: expression.search(path.relative_to(folder).as_posix()) for path in images}
    found = {path: match if match and match["label"] else None for path, match in matches.items()}
    classes = tuple(sorted({listing.composed(match["label"]) for match in found.values() if match}))
    divided = {} if "split" in expression.groupindex else listing.splits(folder)
    items = [
        Item(
            _split(match, path, divided),
            path.relative_to(folder).with_suffix("").as_posix(),
            path,
            label=classes.index(listing.composed(match["label"])),
        )
        for path, match in found.items()
        if match
    ]
    problems = [_unnamed(path.relative_to(folder).as_posix(), pattern) for path, match in found.items() if not match]
    problems += [replace(doubt, fatal=False) for doubt in folders.masks_among(folder, items)]
    reasons = [f"{counted(len(classes), 'class')} in the names of files, by {pattern}"]
    reasons += [f"splits: {', '.join(divided)}"] if divided else []
    return Layout(PATTERN_TASK, "labels in names", tuple(reasons), tuple(items), Labels(classes), tuple(problems))


def _split(match: re.Match[str], path: Path, divided: dict[str, Path]) -> str:
    """The split that the pattern finds, else that of the folder."""
    if said := match.groupdict().get("split"):
        return listing.split_named(said, "--pattern")
    return next((split for split, root in divided.items() if path.is_relative_to(root)), "train")


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        expression = re.compile(pattern)
    except re.error as error:
        found = f"{pattern} ({error})"
    else:
        if "label" in expression.groupindex:
            return expression
        found = pattern
    raise DatasetError(
        "--pattern",
        expected="a regular expression with a group named label, such as (?P<label>[a-z]+)_",
        found=found,
        remedy="Name the group. A group named split is optional",
    )


def _unnamed(name: str, pattern: str) -> Problem:
    message = f"{name}: expected a name that fits {pattern}, found another. Rename it, or leave it out with --skip-bad."
    return Problem("name without a label", name, message)

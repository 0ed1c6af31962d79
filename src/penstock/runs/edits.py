"""How the custom code that two runs keep differs, line by line."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_CODE: Final = "code"
_LARGEST: Final = 1 << 20  # bytes of a file that is compared


def edits(first: Path, other: Path) -> Iterator[str]:
    """The files that both runs keep below code/ and that differ, each as a unified diff.

    Args:
        first: a run folder.
        other: the run folder whose lines are the new ones.
    """
    before, now = _sources(first), _sources(other)
    for name in sorted(before.keys() & now.keys()):
        old, new = (f"{run.name}/{_CODE}/{name}" for run in (first, other))
        if lines := list(difflib.unified_diff(before[name], now[name], old, new, n=1, lineterm="")):
            yield "\n".join(lines)


def _sources(run: Path) -> dict[str, list[str]]:
    """The lines of the Python files of a run by their names. Links that leave them are not followed."""
    root = run / _CODE
    files = [path for path in root.rglob("*.py") if path.is_file() and path.stat().st_size <= _LARGEST]
    kept = [path for path in files if path.resolve().is_relative_to(run.resolve() / _CODE)]
    return {path.relative_to(root).as_posix(): path.read_text(errors="replace").splitlines() for path in kept}

"""A project that trains as it is made."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from penstock.custom import trust
from penstock.errors import RecipeError
from penstock.files import write_atomically

_TEMPLATES: Final = Path(__file__).with_name("project")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def new(folder: str | Path) -> list[Path]:
    """Make a project: a recipe, a layout, a task, a hook, a test, a README, a changelog and a .gitignore.

    It trains as it is made, on images that `scenes` makes.

    Args:
        folder: a new or empty one; its last part is the name of the project.

    Returns:
        The files that were made.

    Raises:
        RecipeError: the name is none for a project, or the folder holds something.
    """
    folder = Path(folder)
    name = folder.resolve().name
    if not _NAME.fullmatch(name):
        raise RecipeError(
            "penstock new",
            expected="a name of letters, digits, dots, hyphens and underscores",
            found=repr(name),
            remedy="Choose another name",
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        found = "a folder with files in it" if folder.is_dir() else "a file"
        raise RecipeError(
            str(folder), expected="a new folder, or an empty one", found=found, remedy="Choose another name"
        )
    made = [_write(template, folder, name) for template in sorted(_TEMPLATES.rglob("*.txt"))]
    trust.remember(trust.folder(folder))
    return made


def _write(template: Path, folder: Path, name: str) -> Path:
    """The file of a project that is made of a template."""
    target = folder / template.relative_to(_TEMPLATES).with_suffix("")
    target = target.with_name(".gitignore") if target.name == "gitignore" else target
    target.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(target, template.read_text(encoding="utf-8").replace("NAME", name).encode())
    return target

"""new: a project that trains as it is made."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter

from penstock.custom import trust
from penstock.errors import RecipeError
from penstock.files import write_atomically

_TEMPLATES: Final = Path(__file__).with_name("project")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def new(
    folder: Annotated[Path, Parameter(help="Folder to make. Its last part is the name of the project.")], /,
) -> None:  # fmt: skip
    """Make a project: a recipe, a layout, a task, a hook, a test, a README, a changelog and a .gitignore.

    It trains as it is made, on images that penstock scenes makes.
    """
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
        )  # fmt: skip
    for template in sorted(_TEMPLATES.rglob("*.txt")):
        target = folder / template.relative_to(_TEMPLATES).with_suffix("")
        target = target.with_name(".gitignore") if target.name == "gitignore" else target
        target.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(target, template.read_text(encoding="utf-8").replace("NAME", name).encode())
        print(f"made {target}")
    trust.remember(trust.folder(folder))
    print(f"next: cd {shlex.quote(str(folder))} and follow README.md")

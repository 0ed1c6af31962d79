"""Where a custom object is. A name without a dot before its colon, such as `unet:resnet50`, is no place."""

from __future__ import annotations

import re
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

_MODULE: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")
_NAME: Final = re.compile(r"[A-Za-z_]\w*")
_INSTALLED: Final = tuple(sysconfig.get_paths()[name] for name in ("purelib", "platlib", "stdlib", "platstdlib"))


@dataclass(frozen=True, slots=True)
class ImportPath:
    """Where a custom object is.

    Attributes:
        source: a Python file, or a module's dotted name.
        name: of the object in it.
    """

    source: str
    name: str

    @property
    def is_file(self) -> bool:
        """Whether the source is a file."""
        return self.source.endswith(".py")

    @property
    def short(self) -> str:
        """For the name of a run: `my_net-build`."""
        source = Path(self.source).stem if self.is_file else self.source.rpartition(".")[2]
        return f"{source}-{self.name}"

    def beside(self, folder: Path) -> ImportPath:
        """The import path, with a relative file resolved against a folder."""
        if not self.is_file or Path(self.source).is_absolute():
            return self
        return ImportPath(str(folder / self.source), self.name)

    def __str__(self) -> str:
        return f"{self.source}:{self.name}"


def import_path_of(text: str) -> ImportPath | None:
    """The place that a setting names; None where it is a name."""
    source, colon, name = text.rpartition(":")
    if not colon or not _NAME.fullmatch(name):
        return None
    return ImportPath(source, name) if source.endswith(".py") or _MODULE.fullmatch(source) else None


def import_path_of_object(value: Any) -> ImportPath | None:
    """Where a class or a function is defined: its file, or its module if that is installed.

    None of other objects, and of what no other process finds by its name: a function inside another one, or what the
    program itself defines, because to import that is to run it again.
    """
    module = sys.modules.get(getattr(value, "__module__", None) or "__main__")
    name = getattr(value, "__qualname__", "")
    file = getattr(module, "__file__", None) or ""
    if module is None or module.__name__ == "__main__" or getattr(module, name, None) is not value:
        return None
    if file.startswith(_INSTALLED):
        return ImportPath(module.__name__, name) if "." in module.__name__ else None
    return ImportPath(str(Path(file).resolve()), name) if file.endswith(".py") else None

"""Where a custom object is. A name without a dot before its colon, such as `unet:resnet50`, is no place."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_MODULE: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")
_NAME: Final = re.compile(r"[A-Za-z_]\w*")


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
        """The place with a file that is not absolute counted from a folder."""
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

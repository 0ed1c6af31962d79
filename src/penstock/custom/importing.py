"""Python files as modules: compiled from bytes that are read once, never from bytecode, without a change of `sys.path`.

A file may import what lies beside it. For a file of the user that is any Python file of its folder; for one that a run
or a dataset carries, only the files that were listed and hashed with it. The standard library comes before either.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Final, Protocol

_OURS: Final = "penstock"
_PACKAGE: Final = "__init__.py"


class Sources(Protocol):
    """Files that may be imported."""

    @property
    def folder(self) -> Path:
        """The folder that their paths count from."""

    def read(self, name: str) -> bytes | None:
        """The bytes of a file, by its path from the folder; None where there is none."""

    def holds(self, part: str) -> bool:
        """Whether there are files in a folder within the folder."""


@dataclass(frozen=True)
class Beside:
    """Whatever lies in a folder of the user's own."""

    folder: Path

    def read(self, name: str) -> bytes | None:
        """As `Sources`."""
        path = self.folder / name
        return path.read_bytes() if path.is_file() else None

    def holds(self, part: str) -> bool:
        """As `Sources`."""
        return (self.folder / part).is_dir()


@dataclass(frozen=True)
class Listed:
    """The files that a run or a dataset carries, as they were when they were hashed."""

    folder: Path
    contents: Mapping[str, bytes]

    def read(self, name: str) -> bytes | None:
        """As `Sources`."""
        return self.contents.get(name)

    def holds(self, part: str) -> bool:
        """As `Sources`."""
        return any(name.startswith(f"{part}/") for name in self.contents)


@dataclass(frozen=True)
class _Compiled(Loader):
    """Executes source that was read already."""

    path: str
    source: bytes

    def exec_module(self, module: ModuleType) -> None:
        """Compile and execute it."""
        exec(compile(self.source, self.path, "exec", dont_inherit=True), vars(module))  # noqa: S102 - what it is for


@dataclass
class _Siblings(MetaPathFinder):
    """Finds what a file imports from beside it, before everything else.

    Attributes:
        sources: the files that it may import.
        read: those that it did, by their paths from the folder.
        modules: their names as modules.
    """

    sources: Sources
    read: dict[str, bytes] = field(default_factory=dict)
    modules: list[str] = field(default_factory=list)

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """A module beside the file, or in a package that is.

        Raises:
            ModuleNotFoundError: a package beside the file has no such module; nobody else may look for it there.
        """
        name = fullname.rpartition(".")[2]
        if path is None:
            return None if name in sys.stdlib_module_names or name == _OURS else self.file(fullname, name)
        package = Path(next(iter(path), "/"))
        if not package.is_relative_to(self.sources.folder):
            return None
        part = (package.relative_to(self.sources.folder) / name).as_posix()
        if found := self.file(fullname, part) or self.subfolder(fullname, part):
            return found
        raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)

    def file(self, fullname: str, part: str) -> ModuleSpec | None:
        """A module or a package, by its path from the folder without its ending."""
        for name, is_package in ((f"{part}/{_PACKAGE}", True), (f"{part}.py", False)):
            source = self.sources.read(name)
            if source is not None:
                self.read[name] = source
                self.modules.append(fullname)
                path = self.sources.folder / name
                folders = [str(path.parent)] if is_package else None
                return spec_from_file_location(
                    fullname, path, loader=_Compiled(str(path), source), submodule_search_locations=folders
                )
        return None

    def subfolder(self, fullname: str, part: str) -> ModuleSpec | None:
        """A folder of Python files without an __init__.py."""
        if not self.sources.holds(part):
            return None
        self.modules.append(fullname)
        spec = ModuleSpec(fullname, None, is_package=True)
        spec.submodule_search_locations = [str(self.sources.folder / part)]
        return spec


@dataclass(frozen=True)
class _Folders(MetaPathFinder):
    """Finds folders of Python files beside a file, after everything else."""

    siblings: _Siblings

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """A folder beside the file."""
        return self.siblings.subfolder(fullname, fullname) if path is None else None


def execute(sources: Sources, file: str, source: bytes, name: str) -> tuple[ModuleType, dict[str, bytes]]:
    """A file as a module.

    Returns:
        The module; and what it imported from beside it, by its path from the folder.

    Raises:
        Exception: whatever the file raises.
    """
    path = sources.folder / file
    spec = spec_from_file_location(name, path, loader=_Compiled(str(path), source))
    assert spec is not None  # noqa: S101 - it has a loader
    module = module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickle look there
    siblings = _Siblings(sources)
    with _found_by(siblings):
        try:
            _Compiled(str(path), source).exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    return module, {part: read for part, read in siblings.read.items() if part != file}


@contextlib.contextmanager
def _found_by(siblings: _Siblings) -> Iterator[None]:
    """Let imports find what lies beside a file, afresh: files of the same names may lie in other folders."""
    hidden = {name: sys.modules.pop(name) for name in list(sys.modules) if _is_beside(name, siblings.sources)}
    folders = _Folders(siblings)
    sys.meta_path.insert(0, siblings)
    sys.meta_path.append(folders)
    try:
        yield
    finally:
        sys.meta_path.remove(siblings)
        sys.meta_path.remove(folders)
        for name in siblings.modules:
            sys.modules.pop(name, None)
        sys.modules.update(hidden)


def _is_beside(module: str, sources: Sources) -> bool:
    """Whether a module that is loaded is one that the folder has under that name."""
    part = module.replace(".", "/")
    file = getattr(sys.modules[module], "__file__", None)
    return file in {str(sources.folder / f"{part}.py"), str(sources.folder / part / _PACKAGE)}

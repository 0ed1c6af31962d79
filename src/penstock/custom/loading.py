"""Custom objects by their places; a file is executed once for each content that it has."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import os
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from penstock.custom.calling import nearest
from penstock.custom.import_path import ImportPath
from penstock.custom.importing import Beside, Listed, Sources, execute
from penstock.errors import RecipeError

_PREFIX: Final = "penstock_custom_"


@dataclass(frozen=True)
class _Loaded:
    """A file that was executed, with its bytes and those of what it imported from beside it, by their paths there."""

    module: ModuleType
    files: Mapping[str, bytes]


_LOADED: Final[dict[tuple[str, str], _Loaded]] = {}
_ADMITTED: Final[dict[Path, Listed]] = {}


def admit(listed: Listed) -> None:
    """Load files below a folder from these bytes from now on, and refuse all other files there."""
    _ADMITTED[listed.folder] = listed


def load(place: ImportPath, setting: str) -> Any:
    """The object at a place.

    Raises:
        RecipeError: there is no such file or name, or running it fails; the error names file and line.
    """
    module = _file(place, setting).module if place.is_file else _installed(place, setting)
    if not hasattr(module, place.name):
        public = {name: value for name, value in vars(module).items() if not name.startswith("_")}
        own = [name for name, value in public.items() if getattr(value, "__module__", None) == module.__name__]
        known = own or list(public)
        found = ", ".join(known[:8]) or "nothing"
        remedy = nearest(place.name, known, "Check the name.")
        raise RecipeError(
            f"{setting} = {place}",
            remedy=remedy,
            message=f"{setting} = {place}: {place.source} defines no '{place.name}', only {found}.",
        )
    return getattr(module, place.name)


def load_admitted(folder: Path, place: ImportPath, setting: str) -> Any:
    """The object at a place of a folder whose code was checked.

    Raises:
        RecipeError: as `load`, or nobody has checked the file.
    """
    found = place.beside(folder)
    if not any(Path(found.source).resolve().is_relative_to(admitted) for admitted in _ADMITTED):
        raise RecipeError(
            f"{setting} = {place}",
            expected="a file that was copied with the data, and checked",
            found=found.source,
            remedy="Open the run or the dataset first",
        )
    return load(found, setting)


def sources(place: ImportPath, setting: str) -> dict[str, bytes]:
    """The files that a place's object is made of, by their paths from the first one's folder: that of the object, and
    those beside it that it imports.

    Raises:
        RecipeError: as `load`.
    """
    if place.is_file:
        return dict(_file(place, setting).files)
    path = Path(inspect.getfile(_installed(place, setting)))
    return {path.name: path.read_bytes()}


def digest(data: bytes) -> str:
    """BLAKE2b, 32 hexadecimal digits."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _file(place: ImportPath, setting: str) -> _Loaded:
    path = Path(place.source).resolve()
    within = next((_ADMITTED[folder] for folder in path.parents if folder in _ADMITTED), None)
    sources: Sources = within or Beside(path.parent)
    file = str(path.relative_to(sources.folder))
    source = sources.read(file)
    if source is None:
        raise RecipeError(
            f"{setting} = {place}", expected="a Python file", found="no such file", remedy="Check the path"
        )
    key = str(path), digest(source)
    if key not in _LOADED:
        name = f"{_PREFIX}{hashlib.blake2b(repr(key).encode(), digest_size=8).hexdigest()}"
        try:
            module, beside = execute(sources, file, source, name)
        except Exception as error:
            raise _failed(error, path, setting, place) from error
        _LOADED[key] = _Loaded(module, {file: source, **beside})
    return _LOADED[key]


def _installed(place: ImportPath, setting: str) -> ModuleType:
    try:
        return importlib.import_module(place.source)
    except ModuleNotFoundError as error:
        if error.name is None or not place.source.startswith(error.name):
            raise _failed(error, Path(place.source), setting, place) from error
        raise RecipeError(
            f"{setting} = {place}",
            expected=f"a module {place.source} that can be imported",
            found=f"no module {error.name}",
            remedy="Install it, or name a file: FILE.py:NAME",
        ) from error
    except Exception as error:
        raise _failed(error, Path(place.source), setting, place) from error


def _failed(error: Exception, path: Path, setting: str, place: ImportPath) -> RecipeError:
    """The error for a file that fails when it is run, with the line in it that did."""
    ending = str(path) if place.is_file else os.path.join(*place.source.split(".")) + ".py"  # noqa: PTH118 - as frames have it
    frames = traceback.extract_tb(error.__traceback__)
    line = next((frame.lineno for frame in reversed(frames) if frame.filename.endswith(ending)), None)
    if isinstance(error, SyntaxError):
        line = error.lineno
    at = f", line {line}" if line else ""
    return RecipeError(
        f"{setting} = {place}{at}",
        remedy="Fix the file",
        message=f"{setting} = {place}{at}: the import fails with {type(error).__name__}: {error}.",
    )

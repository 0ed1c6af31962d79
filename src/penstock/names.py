"""Names that are places: `FILE.py:NAME` or `package.module:NAME` stands for somebody's own object.

Wherever a setting names something built in, it may name a place instead. A name without a dot before its colon, such as
`unet:resnet50`, is no place.
"""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import importlib
import importlib.util
import inspect
import os
import re
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock.errors import RecipeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import ModuleType

_MODULE: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")
_NAME: Final = re.compile(r"[A-Za-z_]\w*")
_LOADED: Final[dict[tuple[str, str], ModuleType]] = {}
_SIBLINGS: Final[dict[str, list[Path]]] = {}
_PREFIX: Final = "penstock_own_"


@dataclass(frozen=True, slots=True)
class Place:
    """Where somebody's own object is.

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

    def beside(self, folder: Path) -> Place:
        """The place with a file that is not absolute counted from a folder."""
        if not self.is_file or Path(self.source).is_absolute():
            return self
        return Place(str(folder / self.source), self.name)

    def __str__(self) -> str:
        return f"{self.source}:{self.name}"


def place_of(text: str) -> Place | None:
    """The place that a setting names; None where it is a name."""
    source, colon, name = text.rpartition(":")
    if not colon or not _NAME.fullmatch(name):
        return None
    return Place(source, name) if source.endswith(".py") or _MODULE.fullmatch(source) else None


def load(place: Place, setting: str) -> Any:
    """The object at a place; a file is run once for each content that it has.

    Args:
        place: where it is.
        setting: that names it, for errors.

    Raises:
        RecipeError: there is no such file or name, or running it fails; the error names file and line.
    """
    module = _module_of_file(place, setting) if place.is_file else _module(place, setting)
    if not hasattr(module, place.name):
        public = {name: value for name, value in vars(module).items() if not name.startswith("_")}
        own = [name for name, value in public.items() if getattr(value, "__module__", None) == module.__name__]
        known = own or list(public)
        found = ", ".join(known[:8]) or "nothing"
        remedy = _nearest(place.name, known, "Check the name.")
        raise RecipeError(
            f"{setting} = {place}",
            expected=place.name,
            found=found,
            remedy=remedy,
            message=f"{setting} = {place}: {place.source} defines no '{place.name}', only {found}. {remedy}",
        )
    return getattr(module, place.name)


def source_file(place: Place, setting: str) -> Path:
    """The file that holds a place's object.

    Raises:
        RecipeError: as `load`.
    """
    if place.is_file:
        return Path(place.source)
    return Path(inspect.getfile(_module(place, setting)))


def digest(path: Path) -> str:
    """BLAKE2b of a file, 32 hexadecimal digits."""
    return hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()


def call(found: Any, place: Place, setting: str, offered: Mapping[str, Any]) -> Any:
    """Call somebody's own factory with those of the offered keyword arguments that it takes.

    Raises:
        RecipeError: it cannot be called, or wants something else; the error names file and line.
    """
    return found(**arguments_for(found, place, setting, offered))


def arguments_for(found: Any, place: Place, setting: str, offered: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the offered keyword arguments that somebody's own factory takes.

    Raises:
        RecipeError: it cannot be called, or wants something else; the error names file and line.
    """
    where = f"{setting} = {place}"
    if not callable(found):
        raise RecipeError(
            where, expected="something to call", found=type(found).__name__, remedy="Name a function or a class"
        )
    parameters = _parameters(found, where)
    takes_any = any(each.kind is each.VAR_KEYWORD for each in parameters)
    named = {each.name for each in parameters}
    given = {name: value for name, value in offered.items() if takes_any or name in named}
    wanted = [
        each.name
        for each in parameters
        if each.default is each.empty and each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)
    ]
    if missing := [name for name in wanted if name not in given]:
        raise RecipeError(
            f"{where}{_line_of(found)}",
            expected=", ".join(offered),
            found=", ".join(missing),
            remedy="Rename it, or give it a default",
            message=f"{where}{_line_of(found)}: {_without_default(missing)}, and Penstock passes only "
            f"{', '.join(offered)}. Rename it, or give it a default.",
        )
    return given


def check_arguments(found: Any, place: Place, setting: str, arguments: Sequence[str]) -> None:
    """Somebody's own function must take these positional arguments.

    Raises:
        RecipeError: it does not; the error names the file and the line.
    """
    function = getattr(found, "forward", found)  # a torch.nn.Module is called with anything
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a function in C does not say what it takes
        return
    try:
        signature.bind(*arguments)
    except TypeError:
        raise RecipeError(
            f"{setting} = {place}{_line_of(function)}",
            expected=f"the parameters ({', '.join(arguments)})",
            found=str(signature),
            remedy="Change the parameters of the function",
        ) from None


def _parameters(found: Any, where: str) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(found).parameters.values())
    except (TypeError, ValueError):
        raise RecipeError(
            where,
            expected="a function or a class whose parameters can be read",
            found=getattr(found, "__name__", type(found).__name__),
            remedy="Put a function around it",
        ) from None


def _nearest(name: str, known: Sequence[str], otherwise: str) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"Did you mean {near[0]}?" if near else otherwise


def _without_default(missing: Sequence[str]) -> str:
    if len(missing) == 1:
        return f"the parameter {missing[0]} has no default"
    return f"the parameters {', '.join(missing)} have no defaults"


def refuse_unknown(
    found: Any, place: Place, setting: str, given: Mapping[str, Any], supplied: Sequence[str] = ()
) -> None:
    """Settings that somebody's own factory has no parameters for are refused.

    Args:
        found: the factory.
        place: where it is.
        setting: that names it, for errors.
        given: its settings.
        supplied: parameters that are not settings, as the caller fills them.

    Raises:
        RecipeError: there is one.
    """
    parameters = _parameters(found, f"{setting} = {place}")
    if any(each.kind is each.VAR_KEYWORD for each in parameters):
        return
    known = [each.name for each in parameters if each.name not in supplied]
    if unknown := [name for name in given if name not in known]:
        remedy = _nearest(unknown[0], known, "Check the name.")
        raise RecipeError(
            f"{setting} = {place}",
            expected=", ".join(known) or "none",
            found=", ".join(unknown),
            remedy=remedy,
            message=f"{setting} = {place} has no setting {unknown[0]}, only {', '.join(known) or 'none'}. {remedy}",
        )


def _line_of(found: Any) -> str:
    try:
        return f", line {inspect.getsourcelines(found)[1]}"
    except (OSError, TypeError):
        return ""


def _module_of_file(place: Place, setting: str) -> ModuleType:
    path = Path(place.source).resolve()
    if not path.is_file():
        raise RecipeError(
            f"{setting} = {place}", expected="a Python file", found="no such file", remedy="Check the path"
        )
    key = str(path), digest(path)
    if key not in _LOADED:
        _LOADED[key] = _executed(
            path, f"{_PREFIX}{hashlib.blake2b(repr(key).encode(), digest_size=8).hexdigest()}", setting, place
        )
    return _LOADED[key]


def _executed(path: Path, name: str, setting: str, place: Place) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None  # noqa: S101 - the file is there
    assert spec.loader is not None  # noqa: S101 - it ends in .py
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickle look there
    with _beside(path.parent) as beside:
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            del sys.modules[name]
            raise _failed(error, path, setting, place) from error
        _SIBLINGS[str(path)] = [file for file in beside() if file != path]
    return module


@contextlib.contextmanager
def _beside(folder: Path) -> Iterator[Callable[[], list[Path]]]:
    """Let a file import what lies beside it, afresh: files of the same names may lie in other folders."""
    before = {name: sys.modules[name] for name in _modules_in(folder) if not name.startswith(_PREFIX)}
    for name in before:
        del sys.modules[name]
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        yield lambda: sorted(set(_modules_in(folder).values()))
    finally:
        sys.path.remove(str(folder))
        for name in _modules_in(folder):
            if not name.startswith(_PREFIX):
                del sys.modules[name]
        sys.modules.update({name: module for name, module in before.items() if name not in sys.modules})


def _modules_in(folder: Path) -> dict[str, Path]:
    """The modules of a folder that are imported, with their files."""
    found = {}
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file and Path(file).parent == folder:
            found[name] = Path(file)
    return found


def siblings(place: Place) -> list[Path]:
    """The files beside that of a place which it imports; known once it was loaded."""
    return _SIBLINGS.get(str(Path(place.source).resolve()), []) if place.is_file else []


def _module(place: Place, setting: str) -> ModuleType:
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


def _failed(error: Exception, path: Path, setting: str, place: Place) -> RecipeError:
    """The error for a file that fails when it is run, with the line in it that did."""
    ending = str(path) if place.is_file else os.path.join(*place.source.split(".")) + ".py"  # noqa: PTH118 - as frames have it
    frames = traceback.extract_tb(error.__traceback__)
    line = next((frame.lineno for frame in reversed(frames) if frame.filename.endswith(ending)), None)
    if isinstance(error, SyntaxError):
        line = error.lineno
    at = f", line {line}" if line else ""
    return RecipeError(
        f"{setting} = {place}{at}",
        expected="Python that can be imported",
        found=f"{type(error).__name__}: {error}",
        remedy="Fix the file",
        message=f"{setting} = {place}{at}: the import fails with {type(error).__name__}: {error}. Fix the file.",
    )

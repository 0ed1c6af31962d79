"""Custom objects looked at and called: the parameters that they take, and what they are given."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from penstock.custom.import_path import ImportPath
from penstock.errors import RecipeError


def call(found: Any, place: ImportPath, setting: str, offered: Mapping[str, Any]) -> Any:
    """Call a custom factory with those of the offered keyword arguments that it takes.

    Raises:
        RecipeError: it cannot be called, or wants something else; the error names file and line.
    """
    return found(**arguments_for(found, place, setting, offered))


def arguments_for(found: Any, place: ImportPath, setting: str, offered: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the offered keyword arguments that a custom factory takes.

    Raises:
        RecipeError: it cannot be called, or wants something else; the error names file and line.
    """
    where = f"{setting} = {place}"
    if not callable(found):
        raise _no_function(where, found)
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
            remedy="Rename it, or give it a default",
            message=f"{where}{_line_of(found)}: {_without_default(missing)}, and Penstock passes only "
            f"{', '.join(offered)}.",
        )
    return given


def check_arguments(found: Any, place: ImportPath, setting: str, arguments: Sequence[str]) -> None:
    """A custom function must take these positional arguments.

    Raises:
        RecipeError: it does not, or cannot be called; the error names the file and the line.
    """
    if not callable(found):
        raise _no_function(f"{setting} = {place}", found)
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


def _no_function(where: str, found: Any) -> RecipeError:
    return RecipeError(
        where, expected="something to call", found=type(found).__name__, remedy="Name a function or a class"
    )


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


def nearest(name: str, known: Sequence[str], otherwise: str) -> str:
    """The question for a name that is nearly a known one, or another sentence."""
    near = difflib.get_close_matches(name, known, n=1)
    return f"Did you mean {near[0]}?" if near else otherwise


def _without_default(missing: Sequence[str]) -> str:
    if len(missing) == 1:
        return f"the parameter {missing[0]} has no default"
    return f"the parameters {', '.join(missing)} have no defaults"


def refuse_unknown(
    found: Any, place: ImportPath, setting: str, given: Mapping[str, Any], supplied: Sequence[str] = ()
) -> None:
    """Settings that a custom factory has no parameters for are refused.

    Raises:
        RecipeError: there is one.
    """
    parameters = _parameters(found, f"{setting} = {place}")
    if any(each.kind is each.VAR_KEYWORD for each in parameters):
        return
    known = [each.name for each in parameters if each.name not in supplied]
    if unknown := [name for name in given if name not in known]:
        remedy = nearest(unknown[0], known, "Check the name.")
        raise RecipeError(
            f"{setting} = {place}",
            remedy=remedy,
            message=f"{setting} = {place} has no setting {unknown[0]}, only {', '.join(known) or 'none'}.",
        )


def _line_of(found: Any) -> str:
    try:
        return f", line {inspect.getsourcelines(found)[1]}"
    except (OSError, TypeError):
        return ""

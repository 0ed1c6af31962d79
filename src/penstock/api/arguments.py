"""Misspelt keyword arguments: which one is probably meant."""

from __future__ import annotations

import difflib
import functools
import inspect
import math
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, get_type_hints

from penstock.config.building import setting_named
from penstock.errors import RecipeError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

P = ParamSpec("P")
T = TypeVar("T")


def suggested(function: Callable[P, T]) -> Callable[P, T]:
    """Wrap a function to suggest the argument or setting that was probably meant by an unknown keyword. Its
    signature has the keywords of a `TypedDict` one by one.

    Python suggests some itself from 3.13 on, but knows no settings.

    Raises:
        TypeError: when called with a keyword that is no parameter.
    """
    signature = _expanded(inspect.signature(function), function.__globals__)
    known = [name for name in signature.parameters if name != "self"]

    @functools.wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> T:
        for name in kwargs:
            if name not in known:
                raise TypeError(f"{function.__name__}() has no argument {name!r}. {_advice(name, known)}")
        return function(*args, **kwargs)

    vars(called)["__signature__"] = signature
    return called


def check_numbers(**given: tuple[float, float, float]) -> None:
    """Check that arguments are numbers within their ranges.

    Args:
        given: (number, lowest, highest) by the names of the arguments.

    Raises:
        RecipeError: an argument is no number, or is outside its range.
    """
    for name, (number, lowest, highest) in given.items():
        if isinstance(number, bool) or not isinstance(number, int | float) or not lowest <= number <= highest:
            reach = f"from {lowest:g} to {highest:g}" if highest < math.inf else f"of at least {lowest:g}"
            raise RecipeError(name, expected=f"a number {reach}", found=repr(number), remedy="Choose one in this range")


def check_name(given: Any, argument: str, remedy: str) -> None:
    """Check that an argument is the name of something.

    Raises:
        RecipeError: it is something else.
    """
    if not isinstance(given, str):
        raise RecipeError(argument, expected=f"the name of a {argument}", found=type(given).__name__, remedy=remedy)


def as_list(names: str | Sequence[str]) -> list[str]:
    """The names as a list; a single name becomes a list of one."""
    return [names] if isinstance(names, str) else [*names]


def _expanded(signature: inspect.Signature, names: Mapping[str, Any]) -> inspect.Signature:
    """A signature with the keywords of `**options: Unpack[Table]` in its place, where the module knows the table."""
    *others, last = signature.parameters.values()
    if last.kind is not last.VAR_KEYWORD:
        return signature
    hints = get_type_hints(names[last.annotation.removeprefix("Unpack[").removesuffix("]")])
    named = [inspect.Parameter(name, last.KEYWORD_ONLY, default=None, annotation=hints[name]) for name in hints]
    return signature.replace(parameters=[*others, *named])


def _advice(name: str, known: list[str]) -> str:
    setting = setting_named(name) if "settings" in known else ""
    own = setting.rpartition(".")[2]
    if own in known:
        return f"Did you mean {own}?"
    if setting:
        return f'Pass settings={{"{setting}": ...}}.'
    near = [each for each in known if each.startswith(name)] or difflib.get_close_matches(name, known, n=1)
    if near:
        return f"Did you mean {' or '.join(near)}?"
    return f"It takes {', '.join(known)}."

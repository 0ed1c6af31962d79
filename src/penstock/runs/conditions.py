"""Conditions that choose runs from a list: `model=unet*`, `mean_iou>0.8`, `optimizer.lr<=0.01`, or a text."""

from __future__ import annotations

import dataclasses
import fnmatch
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from penstock.errors import RunError
from penstock.runs.folder import RunFolder
from penstock.runs.listing import RunSummary, read_recipe

_FORM: Final = re.compile(r"\s*([\w.-]+)\s*(!=|<=|>=|=|<|>)\s*(.*?)\s*")
_ORDER: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_FIELDS: Final = {field.name for field in dataclasses.fields(RunSummary)} | {"name"}


class _Condition(NamedTuple):
    name: str
    sign: str
    value: str

    def holds(self, found: Any) -> bool:
        """Whether a value of a run fits; one that the run does not have fits nothing but `!=`."""
        values = [*found] if isinstance(found, list | tuple) else [found]
        if self.sign in _ORDER:
            return any(self._is_ordered(each) for each in values)
        return any(self._is_equal(each) for each in values) == (self.sign == "=")

    def _is_equal(self, found: Any) -> bool:
        if isinstance(found, bool) or not isinstance(found, int | float):
            text = str(found).lower() if isinstance(found, bool) else str(found)
            return found is not None and fnmatch.fnmatchcase(text, self.value)
        return float(found) == _number(self.value)

    def _is_ordered(self, found: Any) -> bool:
        limit = _number(self.value)
        is_number = isinstance(found, int | float) and not isinstance(found, bool)
        if is_number != (limit is not None) or found is None:
            return False
        return _ORDER[self.sign](found, limit) if is_number else _ORDER[self.sign](str(found), self.value)


def choose(runs: Sequence[RunSummary], conditions: Sequence[str]) -> list[RunSummary]:
    """The runs that fit all of some conditions.

    Args:
        runs: to choose from.
        conditions: each a name, one of = != < <= > >=, and a number or a text, where * and ? stand for any letters.
            The name is a field of `RunSummary`, the metric that decides which checkpoint is the best one, or a setting
            as the recipe names it, such as optimizer.lr. Or a text or pattern that name, task, model, data, state,
            note or a tag contains.

    Raises:
        RunError: no run has what a condition names.
    """
    left = [*runs]
    for text in conditions:
        if match := _FORM.fullmatch(text):
            left = _chosen(left, _Condition(*match.groups()), text)
        else:
            pattern = text if any(letter in text for letter in "*?[") else f"*{text}*"
            left = [run for run in left if any(fnmatch.fnmatch(each, pattern) for each in _texts(run))]
    return left


def _chosen(runs: Sequence[RunSummary], condition: _Condition, text: str) -> list[RunSummary]:
    name = condition.name
    values = {run: _values(run, name) for run in runs}
    if runs and not any(name in held for held in values.values()):
        raise RunError(
            f"--where {text}",
            expected="a column of penstock runs, the metric of a run, or a setting such as optimizer.lr",
            found=name,
            remedy="penstock runs --json names the columns, and recipe.toml of a run the settings",
        )
    return [run for run, held in values.items() if condition.holds(held.get(name))]


def _texts(run: RunSummary) -> list[str]:
    return [run.name, run.task, run.model, run.data, run.state, run.note, *run.tags]


def _values(run: RunSummary, name: str) -> Mapping[str, Any]:
    """The value of a run by its name, perhaps with others; the recipe is read for settings alone."""
    if name in _FIELDS:
        return {name: getattr(run, name)}
    if name == run.metric:
        return {name: run.best}
    try:
        return read_recipe(RunFolder.open(run.path))
    except RunError:
        return {}


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None

"""Values of a step, as lines for people."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch

from penstock.errors import RecipeError
from penstock.session import Hook, Session, Steps
from penstock.session.sharding import whole

Values = Mapping[str, Any]

_WIDE: Final = re.compile(r"\d{4}")
_FEW: Final = 8  # numbers that are printed one by one


def _norm_of_parameters(session: Session) -> float:
    return float(whole(torch.nn.utils.get_total_norm([each.detach() for each in session.model.parameters()])))


_VALUES: Final[dict[str, Callable[[Session], float]]] = {
    "loss": lambda session: session.loss,
    "lr": lambda session: session.lr,
    "epoch": lambda session: session.feed.plan.epoch(session.cursor.position),
    "grad_norm": lambda session: session.grad_norm,
    "param_norm": _norm_of_parameters,
    "step_seconds": lambda session: session.timing["step"],
    "wait_seconds": lambda session: session.timing["wait"],
    "images_per_second": lambda session: session.feed.batch / max(session.timing["step"], 1e-9),
}


class LogValues(Hook):
    """Prints values of a step, which log.txt then has too.

    Args:
        values: any of loss, lr, epoch, grad_norm, param_norm, step_seconds, wait_seconds, images_per_second; and what
            `Hook.wants` takes: outputs, loss_parts, and names of modules, of which mean, standard deviation and range
            are printed.
        every: steps between lines.
        at_end: whether there is a line for the last step too.
        format: a format of the values by name, with _ for the dots of modules, such as "{loss:.3f} at {lr:.1e}"; by
            default each is printed behind its name.
        formatter: makes the line of the values by name instead, from Python.

    Raises:
        RecipeError: no value is named, or the format has a field that is none of them.
    """

    band = "persist"

    def __init__(
        self,
        values: Sequence[str] = ("loss",),
        every: int = 100,
        *,
        at_end: bool = False,
        format: str = "",  # noqa: A002 - what it is
        formatter: Callable[[Values], str] | None = None,
    ) -> None:
        self.names, self.format, self.formatter = tuple(values), format, formatter
        self.every = Steps(every, last=at_end)
        self.wants = tuple(name for name in self.names if name not in _VALUES)
        if _WIDE.search(format):
            raise RecipeError(
                "log_values: format", expected="widths of at most three digits", found=format[:80], remedy="Shorten it"
            )
        if not self.names:
            raise RecipeError(
                "log_values", expected="at least one value", found="none", remedy='Write values = ["loss"]'
            )

    def after_step(self, session: Session) -> None:
        """Print the line."""
        found = {name: _VALUES[name](session) if name in _VALUES else session.values.get(name) for name in self.names}
        session.note(f"step {session.step:>6,}  {self._line(found)}")

    def _line(self, values: Values) -> str:
        if self.formatter:
            return self.formatter(values)
        if not self.format:
            return ", ".join(f"{name} = {_shown(value)}" for name, value in values.items())
        fields = {
            name.replace(".", "_"): value if isinstance(value, float) else _shown(value)
            for name, value in values.items()
        }
        try:
            return self.format.format(**fields)
        except (KeyError, ValueError, IndexError) as error:
            raise RecipeError(
                "log_values",
                expected=f"a format with fields among {', '.join(fields)}",
                found=f"{self.format} ({type(error).__name__}: {error})",
                remedy='Write for example format = "loss {loss:.3f}"',
            ) from None


def _shown(value: Any) -> str:
    """A number; of tensors, in lists and dictionaries too, their mean, standard deviation and range."""
    if isinstance(value, float):
        return f"{value:.4g}"
    tensors = _tensors(value)
    if not tensors:
        return "nothing"
    numbers = torch.cat([tensor.float().flatten() for tensor in tensors])
    if len(numbers) <= _FEW:
        return " ".join(f"{number:.4g}" for number in numbers.tolist())
    mean, deviation = float(numbers.mean()), float(numbers.std())
    return f"mean {mean:.4g}, std {deviation:.4g}, from {float(numbers.min()):.4g} to {float(numbers.max()):.4g}"


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value] if value.numel() else []
    parts = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    return [tensor for part in parts for tensor in _tensors(part)]

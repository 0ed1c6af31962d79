"""What the options of `penstock train` and the parameters of `ps.train` set: one table for both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, TypedDict, get_origin, get_type_hints

from penstock.config.members import flat
from penstock.config.toml import as_settings, joined
from penstock.errors import RecipeError
from penstock.settings.optimizer import Optimizer


class Options(TypedDict, total=False):
    """Keyword arguments of `ps.train` and `ps.resume`; most set the setting of the recipe that is beside them.

    Attributes:
        crop: (height, width) in pixels; a number for a square.
        device: its name, or a `torch.device`.
        optimizer: its name, FILE.py:NAME, or a value with its settings, such as ps.AdamW(lr=1e-3).
        overfit: records to train on and to evaluate on, to see whether the model can learn.
        fast_dev_run: whether to try everything once: 2 steps, an evaluation and a checkpoint, on at most 32 records.
    """

    model: Annotated[str, "model.name"]
    weights: Annotated[str, "model.weights"]
    init: Annotated[str, "init"]
    strict: Annotated[bool, "strict"]
    task: Annotated[str, "task"]
    loss: Annotated[str, "loss.custom"]
    optimizer: Annotated[str | Optimizer, "optimizer"]
    lr: Annotated[float, "optimizer.lr"]
    crop: Annotated[tuple[int, int] | int, "augment.crop"]
    batch: Annotated[int, "train.batch"]
    steps: Annotated[int, "train.steps"]
    epochs: Annotated[float, "train.epochs"]
    patience: Annotated[int, "train.patience"]
    limit: Annotated[int, "data.limit"]
    overfit: int
    fast_dev_run: bool
    seed: Annotated[int, "seed"]
    device: Annotated[str, "train.device"]
    start: Annotated[str, "data.start"]
    until: Annotated[str, "data.until"]
    follow: Annotated[bool, "follow.on"]
    replay_ratio: Annotated[float, "follow.replay_ratio"]
    stall_timeout: Annotated[float, "train.stall_timeout"]
    retries: Annotated[int, "train.retries"]


SETTINGS: Final[dict[str, str]] = {
    name: hint.__metadata__[0]
    for name, hint in get_type_hints(Options, include_extras=True).items()
    if get_origin(hint) is Annotated
}
"""The setting of every option that sets one."""

_FAST: Final = {
    "train.steps": 2, "train.evaluate_every": 2, "train.save_every": 2, "train.log_every": 1,
    "optimizer.warmup_steps": 0, "data.limit": 32,
}  # fmt: skip


def settings_of(
    settings: Mapping[str, Any] | Sequence[str] | None = None,
    *,
    overfit: int | None = None,
    fast_dev_run: bool = False,
    **options: Any,
) -> dict[str, Any]:
    """The settings of the options that were given, and others, named as `section.key`; None and "" were not given.

    Raises:
        RecipeError: a setting has two values, or two steps are to be tried, and epochs were given.
    """
    more = as_settings(settings)
    if isinstance(side := options.get("crop"), int):
        options["crop"] = side, side
    if (device := options.get("device")) is not None:
        options["device"] = str(device)
    given = {SETTINGS[name]: value for name, value in options.items() if value not in (None, "")}
    joined(flat(given), more)
    if "loss.custom" in given:
        given["loss.cross_entropy"] = 0.0
    if fast_dev_run:
        if "train.epochs" in given:
            raise RecipeError(
                "--fast-dev-run",
                remedy="Remove one of the two options",
                message="--fast-dev-run tries two steps, but --epochs asks for more.",
            )
        given |= _FAST
    if overfit is not None:
        given |= {"data.limit": overfit, "data.validation": "train"}
    return {**flat(given), **more}

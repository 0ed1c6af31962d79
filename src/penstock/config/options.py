"""What the options of `penstock train` and the parameters of `ps.train` set: one table for both."""

from __future__ import annotations

from typing import Any, Final, TypedDict

from penstock.errors import RecipeError


class Options(TypedDict, total=False):
    """Keyword arguments of `ps.train` and `ps.resume` that set one setting of the recipe each.

    Attributes:
        model: ARCHITECTURE:BACKBONE, a backbone, or FILE.py:NAME.
        weights: of the backbone: "pretrained", "none" or a file.
        init: run whose weights training starts from.
        strict: False lets `init` have weights that do not fit.
        task: FILE.py:NAME of a task of one's own.
        loss: FILE.py:NAME of a custom loss, in place of cross-entropy.
        optimizer: sgd, adamw, rmsprop, muon, or FILE.py:NAME.
        lr: peak learning rate.
        crop: (height, width) of what the network sees.
        batch: images in a global batch.
        steps: optimizer steps.
        epochs: passes over the training split, instead of steps.
        patience: early stopping: evaluations in a row without a better score.
        limit: largest number of records of each split.
        overfit: records to train on and to evaluate on, to see whether the model can learn.
        fast_dev_run: whether to try everything once: 2 steps, an evaluation and a checkpoint, on at most 32 records.
        seed: of everything random.
        device: auto, cpu, cuda, cuda:1, mps.
        start, until: of a topic: a time, or offsets.
        follow: whether to train on the records of a topic, then on new ones as they arrive.
        replay_ratio: with `follow`: fraction of a batch that is drawn from older records.
        stall_timeout: seconds to wait for a batch before training fails and names the records.
        retries: how often to go on after failures that may pass.
    """

    model: str
    weights: str
    init: str
    strict: bool
    task: str
    loss: str
    optimizer: str
    lr: float
    crop: tuple[int, int]
    batch: int
    steps: int
    epochs: float
    patience: int
    limit: int
    overfit: int
    fast_dev_run: bool
    seed: int
    device: str
    start: str
    until: str
    follow: bool
    replay_ratio: float
    stall_timeout: float
    retries: int


SETTINGS: Final = {
    "model": "model.name",
    "weights": "model.weights",
    "init": "init",
    "strict": "strict",
    "task": "task",
    "loss": "loss.custom",
    "optimizer": "optimizer.name",
    "lr": "optimizer.lr",
    "crop": "augment.crop",
    "batch": "train.batch",
    "steps": "train.steps",
    "epochs": "train.epochs",
    "patience": "train.patience",
    "limit": "data.limit",
    "seed": "seed",
    "device": "train.device",
    "start": "data.start",
    "until": "data.until",
    "follow": "follow.on",
    "replay_ratio": "follow.replay_ratio",
    "stall_timeout": "train.stall_timeout",
    "retries": "train.retries",
}
"""The setting of every option that sets one."""

_FAST: Final = {
    "train.steps": 2, "train.evaluate_every": 2, "train.save_every": 2, "train.log_every": 1,
    "optimizer.warmup_steps": 0, "data.limit": 32,
}  # fmt: skip


def settings_of(*, overfit: int | None = None, fast_dev_run: bool = False, **options: Any) -> dict[str, Any]:
    """The settings of the options that were given, named as `section.key`; None and "" were not.

    Args:
        overfit: records to learn and to evaluate on.
        fast_dev_run: whether to try everything once.
        options: the others of `Options`.

    Raises:
        RecipeError: two steps are to be tried, and epochs were given.
    """
    given = {SETTINGS[name]: value for name, value in options.items() if value not in (None, "")}
    if "loss.custom" in given:
        given["loss.cross_entropy"] = 0.0
    if fast_dev_run:
        if "train.epochs" in given:
            raise RecipeError(
                "--fast-dev-run",
                expected="no --epochs",
                found=f"{given['train.epochs']:g}",
                remedy="Remove one of the two options",
                message="--fast-dev-run tries two steps, but --epochs asks for more.",
            )
        given |= _FAST
    if overfit is not None:
        given |= {"data.limit": overfit, "data.validation": "train"}
    return given

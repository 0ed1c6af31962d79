"""train, recipe."""

from __future__ import annotations

import os
import shlex
import signal
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

import penstock as ps
from penstock.cli import UNFINISHED
from penstock.cli.events import bar, show
from penstock.cli.options import TASKS, Crop, ModelName, TaskName, Trust
from penstock.errors import RecipeError

Optimizer = Annotated[
    str,
    Parameter(
        help="Optimizer: sgd, adamw (with a cosine schedule, a learning rate of 3e-4 and a weight decay of 0.01), "
        "rmsprop, muon, or FILE.py:NAME."
    ),
]
Learnt = Annotated[str, Parameter(help="A packed dataset, a topic (kafka://HOST:PORT/TOPIC), or a recipe in TOML.")]
Set = Annotated[
    tuple[str, ...],  # of a type that is a union, cyclopts converts all values again for each of them
    Parameter(name="--set", help="Any other setting: KEY=VALUE, as listed by penstock recipe. May be repeated."),
]

Steps = Annotated[int | None, Parameter(help="Optimizer steps.")]
Init = Annotated[Path | None, Parameter(help="Run or safetensors file whose weights training starts from.")]
Rate = Annotated[float | None, Parameter(name="--lr", help="Peak learning rate.")]
Until = Annotated[str, Parameter(help="End of a topic: a time, or offsets. By default the current end.")]
Strict = Annotated[
    bool,
    Parameter(
        negative="--no-strict",
        help="Refuse --init if weights other than those of the last layer do not fit; --no-strict loads those that do.",
    ),
]
Start = Annotated[
    str,
    Parameter(
        name="--from", help="Start of a topic: earliest, a time, or offsets as PARTITION:OFFSET, such as 0:100,1:250."
    ),
]
ReplayRatio = Annotated[
    float | None, Parameter(help="With --follow: fraction of a batch that is drawn from older records.")
]
Following = Annotated[
    bool,
    Parameter(
        name="--follow",
        help="Follow a topic: train on its records, then on new ones as they arrive, until Ctrl-C or --steps.",
    ),
]
Epochs = Annotated[
    float | None,
    Parameter(help="Passes over the training split, in place of --steps. The model is evaluated after each."),
]
Patience = Annotated[
    int | None, Parameter(help="Early stopping: number of evaluations in a row without a better score.")
]
Limit = Annotated[int | None, Parameter(help="Largest number of records of each split to train and evaluate on.")]
Overfit = Annotated[
    int | None, Parameter(help="Number of records to train on and evaluate on, to see whether the model can learn.")
]
FastDevRun = Annotated[
    bool,
    Parameter(help="Try everything once: 2 steps, an evaluation and a checkpoint, on at most 32 records."),
]
GoOn = Annotated[
    bool,
    Parameter(
        name="--continue",
        help="Resume the newest run of this --name, or start it if there is none, so that a scheduler can repeat one "
        "command. The dataset may be left out if the run exists.",
    ),
]
Limited = Annotated[
    str, Parameter(name="--max-time", help="Time after which to save and stop, such as 3h55m. --resume goes on.")
]
StallTimeout = Annotated[
    float | None,
    Parameter(help="Seconds to wait for a batch before training fails and names the records. By default 1800."),
]
Retries = Annotated[
    int | None,
    Parameter(help="Retries after failures that may pass, such as a broker or a network disk that does not answer."),
]
AcceptChanges = Annotated[
    bool,
    Parameter(
        help="Go on with a run although data, code or a decoder gives other samples than those it has learnt from.",
    ),
]


def train(
    data: Learnt = "", /, *,
    model: ModelName = "",
    weights: Annotated[str, Parameter(help="Backbone weights: pretrained, none or a file.")] = "",
    init: Init = None, strict: Strict = True,
    steps: Steps = None, epochs: Epochs = None, patience: Patience = None, limit: Limit = None, overfit: Overfit = None,
    fast_dev_run: FastDevRun = False, max_time: Limited = "",
    stall_timeout: StallTimeout = None, retries: Retries = None,
    batch: Annotated[int | None, Parameter(help="Images in a global batch.")] = None,
    crop: Crop = None, rate: Rate = None, optimizer: Optimizer | None = None,
    device: Annotated[str, Parameter(help="Device: auto, cpu, cuda, cuda:1, mps.")] = "",
    seed: Annotated[int | None, Parameter(help="Random seed.")] = None,
    start: Start = "", until: Until = "", follow: Following = False, replay_ratio: ReplayRatio = None,
    settings: Set = (),
    runs: Annotated[Path | None, Parameter(help="Parent folder of the run folders. By default runs.")] = None,
    name: Annotated[str, Parameter(help="Name of the run; its folder is NUMBER-NAME.")] = "", go_on: GoOn = False,
    checkpoint: Annotated[str, Parameter(help="Checkpoint to resume from: last, best, or step-NNNNNNNN.")] = "last",
    resume: Annotated[Path | None, Parameter(help="Run folder to resume instead of starting a run.")] = None,
    accept_changes: AcceptChanges = False, task: TaskName = "",
    loss: Annotated[str, Parameter(help="Custom loss in place of cross-entropy: FILE.py:NAME.")] = "",
    hook: Annotated[list[str] | None, Parameter(help="Hook: a name or FILE.py:NAME. May be repeated.")] = None,
    trust: Trust = False,
) -> int:  # fmt: skip
    """Train a model on a packed dataset, or resume a run.

    Ctrl-C saves and ends; --resume goes on as if nothing had happened. SIGTERM does the same, SIGUSR1 saves. Exit
    codes: 0 finished, 2 an error, 75 stopped by --max-time, 130 and 143 ended by Ctrl-C and SIGTERM.
    """
    beside = {"--name": bool(name), "--runs": runs is not None, "--continue": go_on, data: bool(data)}
    _refuse_beside(resume, checkpoint, beside)
    given: dict[str, Any] = {
        "model": model, "weights": weights, "init": str(init or ""), "strict": None if strict else False, "task": task,
        "loss": loss, "optimizer": optimizer, "lr": rate, "crop": crop, "batch": batch, "steps": steps,
        "epochs": epochs, "patience": patience, "limit": limit, "overfit": overfit, "fast_dev_run": fast_dev_run,
        "seed": seed, "device": device, "start": start, "until": until, "follow": follow or None,
        "replay_ratio": replay_ratio, "stall_timeout": stall_timeout, "retries": retries, "settings": settings,
    }  # fmt: skip
    if resume or data or not (go_on and name):  # else the run that goes on knows its data
        ps.check(ps.Run(resume) if resume else data, **given)
    ps.prepare_process()
    given |= {
        "hooks": hook or (), "max_time": max_time, "on_event": show, "trust": trust, "accept_changes": accept_changes,
    }  # fmt: skip
    with bar() as progress:
        given["progress"] = progress
        if resume:
            run = ps.resume(resume, checkpoint=checkpoint, **given)
        else:
            run = ps.train(data, runs=runs or "runs", name=name, go_on=go_on, **given)
    return _conclude(run)


def _conclude(run: ps.Run) -> int:
    """Say how a training ended and what to do next, on the first rank; the code to exit with."""
    outcome = run.outcome
    assert outcome is not None  # noqa: S101 - it has just ended
    ends_with = 128 + outcome.signal if outcome.signal else 0
    rank, processes = _rank()
    if outcome.is_paused and processes == 1:  # torchrun would take it for a failure
        ends_with = UNFINISHED
    if rank:  # the first one prints
        return ends_with
    if outcome.status in ("interrupted", "stopped"):
        longer = " --patience N" if "train.patience" in outcome.reason else ""
        resume = f"penstock train --resume {shlex.quote(str(run.path))}{longer}"
        print(f"{'saved; ' if outcome.step else ''}go on with: {resume}")
    if run.path.exists() and outcome.signal != signal.SIGTERM:  # who sends that will not wait
        print(f"report {run.report()}")
    if outcome.status == "finished":
        print(f"predict with: penstock predict {shlex.quote(str(run.path))} IMAGES -o predictions")
    return ends_with


def _rank() -> tuple[int, int]:
    """The number of this process, and how many there are, as torchrun says them."""
    started = {"RANK", "WORLD_SIZE"} <= os.environ.keys()
    return (int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])) if started else (0, 1)


def _refuse_beside(resume: Path | None, checkpoint: str, fixed: dict[str, bool]) -> None:
    if resume is not None and (given := [what for what, is_given in fixed.items() if is_given]):
        raise RecipeError(
            f"--resume {resume}",
            remedy=f"Remove {' and '.join(given)}, or remove --resume to start a new run",
            message="--resume continues a run with its own dataset, name and folder.",
        )
    if checkpoint != "last" and resume is None:
        raise RecipeError(
            "--checkpoint",
            remedy="Remove it. --init RUN starts from the best weights of a run",
            message="--checkpoint has no effect without --resume.",
        )


def recipe(
    file: Annotated[Path | None, Parameter(help="A recipe in TOML. By default the defaults are shown.")] = None, /, *,
    task: Annotated[str, Parameter(help=f"Task whose defaults are shown: {TASKS}.")] = "",
    model: Annotated[
        str, Parameter(help="Model whose defaults are shown: cifar10-tutorial and cifar10-fast have their own.")
    ] = "",
    settings: Annotated[
        tuple[str, ...], Parameter(name="--set", help="Setting to change: KEY=VALUE. May be repeated.")
    ] = (),
) -> None:  # fmt: skip
    """Print all settings of a training run with what they mean, as TOML: the defaults, or those of a file.

    `penstock recipe > mine.toml` starts a recipe of one's own.
    """
    print(ps.recipe(file or "", task=task, model=model, settings=settings), end="")

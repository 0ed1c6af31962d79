"""`penstock demo`: the whole path, on images that it makes itself."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter

import penstock as ps
from penstock.errors import OutputError, RunError
from penstock.progress import duration

_SCALE: Final = ("--set", "augment.view.scale=[0.75, 1.25]")
_NETWORK: Final = ("--model", "unet:resnet18", "--weights", "none", "--crop", "96", "128", "--batch", "8")
_STEPS: Final = 210
_MARK: Final = ".penstock-demo"
_SECONDS: Final = 240.0
"""Seconds that training may take."""
_MIN: Final = 30
"""Steps at least, and what their number is a multiple of."""


def demo(*, output: Annotated[Path, Parameter(name=["--output", "-o"], help="Folder to fill.")] = Path("demo")) -> None:
    """Make images, pack them, train on them, evaluate and predict: the whole path in a few minutes.

    Every step is the command that is printed before it, in a process of its own. On a slow machine, training has fewer
    steps.
    """
    began = time.monotonic()
    raw, data, runs = output / "raw", output / "data", output / "runs"
    _claim(output)
    _run("scenes", "-o", raw, "--train", 320, "--val", 40, "--test", 40, "--size", 96, 128)
    _run("inspect", raw)
    _run("pack", raw, "-o", data)
    _run("verify", data)
    _run("show", data, "-o", output / "records.png")
    _run("show", data, "--augmented", "--crop", 96, 128, *_SCALE, "-o", output / "augmented.png")
    before = set(runs.glob("0*"))
    _run("train", data, *_training(_affordable(_seconds(data))), "--runs", runs, "--name", "demo")
    (run,) = set(runs.glob("0*")) - before
    _run("evaluate", run, "--split", "test")
    _run("predict", run, raw / "images" / "test", "-o", output / "predictions")
    _run("replay", run, "--step", 1)
    step = int((run / "checkpoints" / "best").resolve().name.removeprefix("step-"))
    score = json.loads((run / "evaluations" / f"test-{step:08d}.json").read_text())["mean_iou"]
    print(f"\nmean IoU on the test images: {score:.1%}, all in {time.monotonic() - began:.0f} s")
    print("look at:")
    for what, path in (
        ("the records, masks laid over them", output / "records.png"),
        ("what the network is fed", output / "augmented.png"),
        ("the images of step 1", run / "figures" / "step-00000001.png"),
        ("images, labels and predictions", run / "figures" / f"predictions-test-{step:08d}.png"),
        ("predicted masks", output / "predictions"),
        ("the report of the run", run / "report.html"),
    ):
        print(f"  {what:<34} {path}")


def _claim(output: Path) -> None:
    mark = output / _MARK
    others = [path for path in output.iterdir() if not path.name.startswith(".")] if output.is_dir() else []
    if others and not mark.is_file():
        raise OutputError(
            f"-o {output}",
            expected="a new or empty folder, or one that penstock demo has filled",
            found="a folder with other files in it",
            remedy="Choose another folder",
        )
    output.mkdir(parents=True, exist_ok=True)
    mark.touch()


def _seconds(data: Path) -> float:
    """Seconds of a training step here."""
    chosen = {"model.name": "unet:resnet18", "model.weights": "none", "augment.crop": [96, 128], "train.batch": 8}
    return ps.advise(data, find_time=True, settings=chosen)[-1].measured


def _affordable(seconds: float) -> int:
    """Training steps, of which one takes some seconds; fewer than usual are announced."""
    steps = max(_MIN, min(_STEPS, int(_SECONDS / seconds) // _MIN * _MIN))
    if steps < _STEPS:
        print(
            f"\nA training step takes {seconds:.3g} s on this machine. Training has {steps} steps instead of {_STEPS}, "
            f"about {duration(steps * seconds)}; the predictions will be worse."
        )
    return steps


def _training(steps: int) -> tuple[str, ...]:
    """Options of a training that is evaluated three times."""
    return (
        *_NETWORK, "--steps", str(steps), "--optimizer", "adamw", "--lr", "2e-3",
        *_SCALE, "--set", f"optimizer.warmup_steps={min(20, steps // 10)}", "--set", "train.ema_decay=0.98",
        "--set", f"train.evaluate_every={steps // 3}", "--set", f"train.log_every={steps // 6}",
    )  # fmt: skip


def _run(*arguments: object) -> None:
    words = [str(argument) for argument in arguments]
    shown = [f"'{word}'" if " " in word or "[" in word else word for word in words]
    print("\n$ penstock", *shown, flush=True)
    command = [sys.executable, "-m", "penstock", *words]
    code = subprocess.run(command, check=False).returncode  # noqa: S603 - our own commands
    if code:
        raise RunError(
            f"penstock {words[0]}", expected="exit code 0", found=str(code), remedy="See what it printed above"
        )

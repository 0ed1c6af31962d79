"""`penstock demo`: the whole path, on images that it makes itself."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter

from penstock.errors import RunError

_SCALE: Final = ("--set", "augment.scale=[0.75, 1.25]")
_TRAIN: Final = (
    "--model", "unet:resnet18", "--weights", "none", "--crop", "96", "128", "--batch", "8", "--steps", "210",
    "--optimizer", "adamw", "--lr", "2e-3",
    *_SCALE, "--set", "optimizer.warmup_steps=20", "--set", "train.ema_decay=0.98",
    "--set", "train.evaluate_every=70", "--set", "train.log_every=35",
)  # fmt: skip


def demo(
    *,
    output: Annotated[Path, Parameter(name=["--output", "-o"], help="Folder to fill.")] = Path("demo"),
) -> None:
    """Make images, pack them, train on them, evaluate and predict: the whole path in a few minutes.

    Every step is the command that is printed before it, in a process of its own.
    """
    began = time.monotonic()
    raw, data, runs = output / "raw", output / "data", output / "runs"
    _run("scenes", "-o", raw, "--train", 320, "--val", 40, "--test", 40, "--size", 96, 128)
    _run("inspect", raw)
    _run("pack", raw, "-o", data)
    _run("verify", data)
    _run("show", data, "-o", output / "records.png")
    _run("show", data, "--augmented", "--crop", 96, 128, *_SCALE, "-o", output / "augmented.png")
    before = set(runs.glob("0*"))
    _run("train", data, *_TRAIN, "--runs", runs, "--name", "demo")
    (run,) = set(runs.glob("0*")) - before
    _run("evaluate", run, "--split", "test")
    shutil.rmtree(output / "predictions", ignore_errors=True)  # of an older demo
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

"""From kill -9 to the first new step, at the beginning, in the middle and at the end of an epoch.

python bench/resuming.py DATA    DATA is CamVid, packed

A training is killed by SIGKILL as its checkpoint of a step is on the disk. A new process goes on with it: the time counts
from its start until its first step is done, with all that Python and PyTorch need to start. Each is repeated, on copies of
the run.
"""

from __future__ import annotations

import os
import shutil
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path

import common

REPEATS, BATCH, IMAGES = common.sized((5, 8, 367), (1, 2, 6))
STEPS = common.sized({"0": 1, "50": IMAGES // BATCH // 2, "99": IMAGES // BATCH}, {"0": 1})

BEGIN = """
import os, signal, sys
from pathlib import Path
import penstock as ps
from penstock import Hook

class Kill(Hook):
    def after_save(self, session, path):
        if path.name == f"step-{int(sys.argv[3]):08d}":
            os.kill(os.getpid(), signal.SIGKILL)

ps.train(sys.argv[1], runs=sys.argv[2], model="deeplabv3plus:resnet18", weights="none", crop=(192, 192), batch=int(sys.argv[4]),
         steps=90, hooks=[Kill()],
         settings={"train.save_every": int(sys.argv[3]), "train.evaluate_every": 90})
"""
GO_ON = """
import os, sys, time
import penstock as ps
from penstock import Hook

class First(Hook):
    def on_start(self, session):
        self.started, self.step = time.time(), session.step
    def after_step(self, session):
        print("took", self.started, time.time(), self.step, flush=True)
        os._exit(0)

ps.resume(sys.argv[1], hooks=[First()])
"""


def killed(data: str, runs: Path, step: int) -> Path:
    """A run that was killed behind the checkpoint of a step."""
    done = common.run([sys.executable, "-c", BEGIN, data, str(runs), str(step), str(BATCH)])
    if done.returncode != -signal.SIGKILL:
        raise SystemExit(f"the training was to be killed, and ended with {done.returncode}")
    return next(runs.glob("0*"))


def timed(run: Path, copy: Path, step: int) -> tuple[float, float]:
    """Seconds until training begins, and until its first step is done."""
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(run, copy, symlinks=True)
    began = time.time()
    _, started, ended, reached = common.last_line([sys.executable, "-c", GO_ON, str(copy)]).split()
    if int(reached) != step:
        raise SystemExit(f"the run was to go on from step {step}, and did so from {reached}")
    return float(started) - began, float(ended) - began


def main() -> None:
    """Measure, and write down."""
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, step in STEPS.items():
            run = killed(sys.argv[1], Path(folder) / name, step)
            pairs = [timed(run, Path(folder) / "copy", step) for _ in range(REPEATS)]
            started, ended = (statistics.median(column) for column in zip(*pairs, strict=True))
            found[name] = {"step": step, "started": round(started, 2), "first_step": round(ended, 2)}
    common.write(
        "resuming",
        "python bench/resuming.py DATA",
        {"versions": common.versions("penstock", "torch"), "repeats": REPEATS, "epochs": found},
    )


if __name__ == "__main__":
    main()

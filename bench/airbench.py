"""airbench94_muon itself, in float32 on the CPU, on the pixels that bench/cifar.py trains on: accuracy after every epoch.

python bench/airbench.py AIRBENCH BINARY WORK    AIRBENCH is a clone of KellerJordan/cifar10-airbench

Nothing of that program is kept here: its file is read where it is, and told to use the CPU, whole floats and a plain clock.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import common
import numpy as np
import torch

RECORD = 1 + 3 * 32 * 32  # bytes of a label and its planes
CHANGES = {
    'torch.device("cuda")': 'torch.device("cpu")',
    ".half()": ".float()",
    ".bfloat16()": ".float()",
    "@torch.compile\n": "",
    "torch.cuda.Event(enable_timing=True)": "Clock()",
    "torch.cuda.synchronize()": "None",
}


class Clock:
    """In place of an event on a card."""

    def record(self) -> None:
        self.at = time.perf_counter()

    def elapsed_time(self, other: Clock) -> float:
        return 1e3 * (other.at - self.at)


def main() -> None:
    source, data, work = Path(sys.argv[1]) / "airbench94_muon.py", Path(sys.argv[2]), Path(sys.argv[3])
    pixels(data, work / "cifar10")
    program, found = adapted(source.read_text()), []
    program.print_training_details = lambda values, is_final_entry: found.append(seen(program, values, is_final_entry))
    os.chdir(work)
    torch.manual_seed(0)
    network = program.CifarNet().to(memory_format=torch.channels_last)
    program.main(0, network)
    common.write(
        "airbench",
        "python bench/airbench.py AIRBENCH BINARY WORK",
        {"versions": common.versions("torch"), "epochs": found[:-1], "looked": found[-1]},
    )


def pixels(data: Path, to: Path) -> None:
    """The binary version as the two files that airbench keeps."""
    to.mkdir(parents=True, exist_ok=True)
    for name, files in (
        ("train", sorted(data.rglob("data_batch_*.bin"))),
        ("test", list(data.rglob("test_batch.bin"))),
    ):
        rows = np.concatenate([np.fromfile(file, np.uint8).reshape(-1, RECORD) for file in files])
        images = torch.from_numpy(rows[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1).copy())
        kept = {"images": images, "labels": torch.from_numpy(rows[:, 0].astype(np.int64)), "classes": []}
        torch.save(kept, to / f"{name}.pt")


def adapted(text: str) -> ModuleType:
    """The program as a module of this process, for a machine without a card."""
    for old, new in CHANGES.items():
        if old not in text:
            message = f"this airbench94_muon.py is another one: it has no {old!r}"
            raise SystemExit(message)
        text = text.replace(old, new)
    program = ModuleType("airbench")
    program.Clock = Clock  # type: ignore[attr-defined]
    exec(compile(text, "airbench94_muon.py", "exec"), program.__dict__)  # noqa: S102 - what this is for
    return program


def seen(program: Any, values: dict[str, Any], last: bool) -> dict[str, float]:
    """What one of its lines says; of the last one also the accuracy in the mirror."""
    if last:
        mirrored = program.evaluate(values["model"], values["test_loader"], 1)
        found = {"mirrored": mirrored, "six": values["tta_val_acc"]}
    else:
        found = {"epoch": 1 + values["epoch"], "seconds": round(values["time_seconds"]), "top1": values["val_acc"]}
    print(found, flush=True)
    return found


if __name__ == "__main__":
    main()

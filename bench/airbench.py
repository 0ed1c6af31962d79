"""airbench94_muon itself, in float32 on the CPU, on the pixels that bench/cifar.py trains on: accuracy after every epoch.

python bench/airbench.py AIRBENCH BINARY WORK [SEEDS]    AIRBENCH is a clone of KellerJordan/cifar10-airbench

It is trained from as many seeds as said, from 0 on; what a seed found is kept in WORK, and a second call goes on with the next.
Nothing of that program is kept here: its file is read where it is, and told to use the CPU, whole floats and a plain clock.
"""

from __future__ import annotations

import json
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
    source, data, work = (Path(word).resolve() for word in sys.argv[1:4])
    seeds = int(sys.argv[4]) if len(sys.argv) > 4 else 1
    pixels(data, work / "cifar10")
    program = adapted((source / "airbench94_muon.py").read_text())
    os.chdir(work)
    found = [trained(program, seed, work / f"seed{seed}.json") for seed in range(seeds)]
    common.write(
        "airbench" if common.cifar_pixels(data) == "original" else "airbench_jpeg",
        "python bench/airbench.py AIRBENCH BINARY WORK",
        {
            "versions": common.versions("torch"),
            "epochs": found[0][:-1],
            "tta": found[0][-1],
            "seeds": [{"top1": each[-2]["top1"], "tta": each[-1]["six"]} for each in found],
        },
    )


def trained(program: Any, seed: int, kept: Path) -> list[dict[str, float]]:
    """What every epoch of one training found, and last what its final weights did; kept in a file."""
    if kept.exists():
        return json.loads(kept.read_text())
    found: list[dict[str, float]] = []
    program.print_training_details = lambda values, is_final_entry: found.append(seen(program, values, is_final_entry))
    torch.manual_seed(seed)
    program.main(seed, program.CifarNet().to(memory_format=torch.channels_last))
    kept.write_text(json.dumps(found))
    return found


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

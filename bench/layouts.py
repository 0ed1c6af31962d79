"""Steps on a CPU: channels first or last in memory, by turns; and what freed memory costs, by turns.

python bench/layouts.py [PAIRS]    random images, a minute a network on two cores

The first decides `penstock.devices.training_layout`, the second `penstock.devices.keep_freed_memory`: one process that
does it, one that does not, each waiting while the other takes a step.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import common
import torch
from torch import nn

from penstock import devices
from penstock.models import build_classifier, build_segmenter

LAYOUTS = (torch.contiguous_format, torch.channels_last)
WARM = common.sized(3, 1)
NETWORKS = {
    "deeplabv3plus:resnet18": (11, (8, 3, 176, 240)),
    "deeplabv3plus:mobilenetv2_100": (11, (8, 3, 176, 240)),
    "unet:resnet50": (11, (4, 3, 128, 128)),
    "resnet18": (10, (16, 3, 224, 224)),
    "cifar10-fast": (10, (128, 3, 32, 32)),
}
if common.SMOKE:
    NETWORKS = {"cifar10-fast": (10, (8, 3, 32, 32))}
MEMORY = ("given back", "kept")


class Stepper:
    """One network with its optimizer and a random batch, in a layout or the one that Penstock would choose."""

    def __init__(self, name: str, layout: torch.memory_format | None = None) -> None:
        classes, shape = NETWORKS[name]
        dense = ":" in name
        torch.manual_seed(0)
        made = build_segmenter(name, classes, "none") if dense else build_classifier(name, classes, "none")
        cpu = torch.device("cpu")
        layout = layout or devices.training_layout(made, cpu)
        self.network = devices.place(made, cpu, layout).train()
        self.images = torch.randn(shape).contiguous(memory_format=layout)
        self.labels = torch.randint(0, classes, (shape[0], *shape[2:]) if dense else (shape[0],))
        self.optimizer = torch.optim.AdamW(self.network.parameters(), 1e-4, fused=True)
        self.seconds: list[float] = []

    def step(self) -> None:
        began = time.perf_counter()
        loss = nn.functional.cross_entropy(self.network(self.images), self.labels)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.seconds.append(time.perf_counter() - began)


def main() -> None:
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 6
    common.write(
        "layouts",
        "python bench/layouts.py",
        {
            "versions": common.versions("penstock", "torch"),
            "pairs": pairs,
            "layouts": {name: layouts(name, pairs) for name in NETWORKS},
            "memory": {name: memory(name, pairs) for name in NETWORKS},
        },
    )


def layouts(name: str, pairs: int) -> dict[str, float]:
    first, last = (Stepper(name, layout) for layout in LAYOUTS)
    chosen = devices.training_layout(first.network, torch.device("cpu"))
    for _ in range(WARM + pairs):
        first.step()
        last.step()
    return compared(first.seconds, last.seconds, "first", "last") | {"chosen_first": chosen is LAYOUTS[0]}


def compared(ours: list[float], theirs: list[float], name: str, other: str) -> dict[str, Any]:
    """Medians, and the median of the ratios of neighbours."""
    kept = list(zip(ours, theirs, strict=True))[WARM:]
    medians = [statistics.median(column) for column in zip(*kept, strict=True)]
    return {name: medians[0], other: medians[1], "ratio": statistics.median(b / a for a, b in kept)}


def memory(name: str, pairs: int) -> dict[str, Any]:
    command = [sys.executable, __file__, "steps", name]
    with (
        subprocess.Popen([*command, MEMORY[0]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as given,
        subprocess.Popen([*command, MEMORY[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as kept,
    ):
        seconds = [[asked(process) for process in (kept, given)] for _ in range(WARM + pairs)]
        peaks = [float(process.communicate()[0]) for process in (kept, given)]
    found = compared([each[0] for each in seconds], [each[1] for each in seconds], "kept", "given_back")
    return found | {"kept_mib": peaks[0], "given_back_mib": peaks[1]}


def asked(process: subprocess.Popen[str]) -> float:
    """The seconds of one more step."""
    assert process.stdin is not None
    assert process.stdout is not None
    print(file=process.stdin, flush=True)
    return float(process.stdout.readline())


def steps(name: str, how: str) -> None:
    """A step for every line of standard input; at its end, the peak of resident memory in MiB."""
    if how == "kept":
        devices.keep_freed_memory()
    stepper = Stepper(name)
    for _ in sys.stdin:
        stepper.step()
        print(stepper.seconds[-1], flush=True)
    peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    print(int(peak.split()[1]) / 1024, flush=True)


if __name__ == "__main__":
    steps(*sys.argv[2:]) if sys.argv[1:2] == ["steps"] else main()

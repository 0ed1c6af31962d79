"""CIFAR-10: the tutorial's network and recipe, and a fast one, from random weights; accuracy over steps and seconds.

python bench/cifar.py BINARY WORK [TUTORIAL_STEPS [SEEDS]]    BINARY holds the binary version; a second call resumes

The fast one is trained from as many seeds as said, from 0 on. Results are kept apart by whose the pixels are: cifar.json of
the original ones, cifar_jpeg.json of those that went through JPEG, as any others are taken for.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import common
from common import penstock

AIM, PUBLISHED = 0.86, (60_000, 100_000)  # what the tutorial's page promises, and after how many steps
FAST = common.sized([], ["--steps", "2", "--batch", "16"])  # otherwise as its recipe has it
LOOKS = ["--checkpoint", "last", "--flip", "--shift", "1"]  # airbench's


def main() -> None:
    data, work = Path(sys.argv[1]), Path(sys.argv[2])
    steps = sys.argv[3] if len(sys.argv) > 3 else "1200"
    seeds = int(sys.argv[4]) if len(sys.argv) > 4 else 1
    penstock("pack", str(data), "-o", str(work / "data"))
    found = {
        "cifar10-tutorial": network(work, "cifar10-tutorial", "--steps", steps),
        "cifar10-fast": network(work, "cifar10-fast", *FAST),
    }
    others = [network(work, "cifar10-fast", *FAST, "--set", f"seed={seed}") for seed in range(1, seeds)]
    found["cifar10-fast"]["seeds"] = [
        {"top1": each["curve"][-1]["top1"], "tta": each["tta"]} for each in (found["cifar10-fast"], *others)
    ]
    pixels = common.cifar_pixels(data)
    common.write(
        "cifar" if pixels == "original" else "cifar_jpeg",
        "python bench/cifar.py BINARY WORK",
        {
            "versions": common.versions("penstock", "torch", "timm"),
            "commands": [
                "penstock pack BINARY -o WORK/data",
                f"penstock train WORK/data --model cifar10-tutorial --steps {steps} --set data.validation=test",
                "penstock train WORK/data --model cifar10-fast --set data.validation=test [--set seed=N]",
                f"penstock evaluate RUN --split test {common.said(LOOKS)}",
            ],
            "aim": AIM,
            "published_steps": PUBLISHED,
            "networks": found,
        },
    )


def network(work: Path, name: str, *more: str) -> dict[str, Any]:
    """One training, and its last weights' accuracy over airbench's six looks."""
    folder = work / "-".join([name, *(word.replace("=", "") for word in more if "seed" in word)])
    run = common.trained(folder, str(work / "data"), "--model", name, *more, "--set", "data.validation=test")
    penstock("evaluate", str(run), "--split", "test", *LOOKS)
    looked = json.loads(next((run / "evaluations").glob("test-*-flip-shift1.json")).read_text())
    return {"curve": curve(run), "tta": looked["top1"]}


def curve(run: Path) -> list[dict[str, float]]:
    """Accuracy on the test images after steps and seconds of training, evaluations not counted."""
    totals = common.seconds(run)
    return [
        {"step": line["step"], "seconds": round(totals[line["step"] - 1]), "top1": line["evaluation"]["top1"]}
        for line in common.lines(run / "metrics.jsonl")
        if "evaluation" in line
    ]


if __name__ == "__main__":
    main()

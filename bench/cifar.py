"""CIFAR-10: the tutorial's network and recipe, and a fast one, from random weights; accuracy over steps and seconds.

python bench/cifar.py BINARY WORK [TUTORIAL_STEPS]    BINARY holds the binary version; a second call resumes

The pixels may be those of another version (say so beside the figures): what is compared is what was trained here.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import common
from common import penstock

AIM, PUBLISHED = 0.86, (60_000, 100_000)  # what the tutorial's page promises, and after how many steps
LOOKS = ["--checkpoint", "last", "--flip", "--shift", "1"]  # airbench's


def main() -> None:
    data, work = Path(sys.argv[1]), Path(sys.argv[2])
    steps = sys.argv[3] if len(sys.argv) > 3 else "1200"
    penstock("pack", str(data), "-o", str(work / "data"))
    found = {}
    for name, more in (("cifar10-tutorial", ["--steps", steps]), ("cifar10-fast", [])):
        words = [str(work / "data"), "--model", name, *more, "--set", "data.validation=test"]
        run = common.trained(work / name, *words)
        penstock("evaluate", str(run), "--split", "test", *LOOKS)
        looked = json.loads(next((run / "evaluations").glob("test-*-flip-shift1.json")).read_text())
        found[name] = {"curve": curve(run), "looked": looked["top1"]}
    common.write(
        "cifar",
        "python bench/cifar.py BINARY WORK",
        {
            "versions": common.versions("penstock", "torch", "timm"),
            "commands": [
                "penstock pack BINARY -o WORK/data",
                f"penstock train WORK/data --model cifar10-tutorial --steps {steps} --set data.validation=test",
                "penstock train WORK/data --model cifar10-fast --set data.validation=test",
                f"penstock evaluate RUN --split test {common.said(LOOKS)}",
            ],
            "aim": AIM,
            "published_steps": PUBLISHED,
            "networks": found,
        },
    )


def curve(run: Path) -> list[dict[str, float]]:
    """Accuracy on the test pictures after steps and seconds of training, evaluations not counted."""
    totals = common.seconds(run)
    return [
        {"step": line["step"], "seconds": round(totals[line["step"] - 1]), "top1": line["evaluation"]["top1"]}
        for line in common.lines(run / "metrics.jsonl")
        if "evaluation" in line
    ]


if __name__ == "__main__":
    main()

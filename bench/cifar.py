"""CIFAR-10: the tutorial's network and recipe, and a fast one, from random weights; accuracy over steps and seconds.

python bench/cifar.py BINARY WORK [TUTORIAL_STEPS]    BINARY holds the binary version; a second call resumes

The pixels may be those of another version (say so beside the figures): what is compared is what was trained here.
"""

from __future__ import annotations

import sys
from pathlib import Path

import common
from common import penstock

AIM = 0.86  # what the tutorial's page promises


def main() -> None:
    data, work = Path(sys.argv[1]), Path(sys.argv[2])
    steps = sys.argv[3] if len(sys.argv) > 3 else "8000"
    penstock("pack", str(data), "-o", str(work / "data"))
    found = {}
    for name, more in (("cifar10-tutorial", ["--steps", steps]), ("cifar10-fast", [])):
        words = [str(work / "data"), "--model", name, *more, "--set", "data.validation=test"]
        found[name] = curve(common.trained(work / name, *words))
    common.write(
        "cifar",
        "python bench/cifar.py BINARY WORK",
        {
            "versions": common.versions("penstock", "torch", "timm"),
            "commands": [
                "penstock pack BINARY -o WORK/data",
                f"penstock train WORK/data --model cifar10-tutorial --steps {steps} --set data.validation=test",
                "penstock train WORK/data --model cifar10-fast --set data.validation=test",
            ],
            "aim": AIM,
            "curves": found,
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

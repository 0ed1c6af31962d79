"""CamVid through the command line: inspect, pack, train from random weights, evaluate on the test split, predict.

python bench/camvid.py DATA WORK        DATA holds images/ and masks/; WORK is filled, and a second call resumes
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import common
from common import penstock

CLASSES = "sky,building,pole,road,pavement,tree,sign symbol,fence,car,pedestrian,bicyclist"
STEPS, WARMUP, BATCH, MODEL = common.sized(
    ("1400", 50, "8", "deeplabv3plus:resnet18"), ("2", 0, "2", "deeplabv3plus:test_resnet")
)
TRAIN = [
    "--model", MODEL, "--weights", "none", "--crop", "176", "240", "--batch", BATCH,
    "--steps", STEPS, "--optimizer", "adamw", "--lr", "1e-3",
    "--set", "augment.jitter={}", "--set", "augment.view.scale=[0.75, 1.5]", "--set", f"optimizer.warmup_steps={WARMUP}", "--set", "train.ema_decay=0.99",
    "--set", "train.evaluate_every=200", "--set", "train.save_every=50",
]  # fmt: skip


def main() -> None:
    data, work = Path(sys.argv[1]), Path(sys.argv[2])
    work.mkdir(parents=True, exist_ok=True)
    penstock("inspect", str(data), "--classes", CLASSES, "--ignore", "11")
    penstock("pack", str(data), "-o", str(work / "data"), "--classes", CLASSES, "--ignore", "11")
    run = common.trained(work, str(work / "data"), *TRAIN)
    penstock("evaluate", str(run), "--split", "test")
    penstock("predict", str(run), str(data / "images" / "test"), "-o", str(work / "predictions"))
    collect(run, data, work)


def collect(run: Path, data: Path, work: Path) -> None:
    """The figures, from the files that the commands wrote."""
    timings, metrics = (common.lines(run / name) for name in ("timings.jsonl", "metrics.jsonl"))
    common.write(
        "camvid",
        "python bench/camvid.py CAMVID WORK",
        {
            "versions": common.versions("penstock", "torch", "timm", "segmentation-models-pytorch"),
            "commands": [
                f"penstock inspect CAMVID --classes '{CLASSES}' --ignore 11",
                f"penstock pack CAMVID -o WORK/data --classes '{CLASSES}' --ignore 11",
                f"penstock train WORK/data {common.said(TRAIN)} --runs WORK/runs",
                f"penstock evaluate WORK/runs/{run.name} --split test",
                f"penstock predict WORK/runs/{run.name} CAMVID/images/test -o WORK/predictions",
            ],
            "train_seconds": round(sum(line["seconds"] for line in timings)),
            "wait_seconds": round(sum(line["wait"] for line in timings), 1),
            "steps_run": len(timings),
            "events": [line["event"] for line in common.lines(run / "events.jsonl")],
            "validation": [line for line in metrics if "evaluation" in line],
            "test": json.loads(max((run / "evaluations").glob("test-*.json")).read_text()),
            "predictions": len(list((work / "predictions").glob("*-overlay.png"))),
        },
    )


if __name__ == "__main__":
    main()

"""Blood cells: a detector trained from random weights on Pascal VOC boxes, scored by mAP on the test split.

python bench/cells.py BCCD WORK    BCCD holds JPEGImages/ and Annotations/; WORK is filled, and a second call resumes
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import common
from common import penstock

TRAIN = [
    "--model", "ssd:resnet18", "--weights", "none", "--steps", "700", "--batch", "8", "--crop", "320", "320",
    "--lr", "0.01", "--set", "optimizer.warmup=50", "--set", "augment.resize_range=[320,427]",
    "--set", "augment.scale=[0.8,1.6]", "--set", "augment.scale_step=0", "--set", "train.frozen_norms=false",
    "--set", "train.average=0.99", "--set", "train.evaluate_every=350",
]  # fmt: skip


def main() -> None:
    data, work = Path(sys.argv[1]), Path(sys.argv[2])
    penstock("pack", str(data), "-o", str(work / "data"))
    penstock("show", str(work / "data"), "-o", str(work / "packed.png"))
    run = common.trained(work, str(work / "data"), *TRAIN)
    penstock("evaluate", str(run), "--split", "test")
    common.write(
        "cells",
        "python bench/cells.py BCCD WORK",
        {
            "versions": common.versions("penstock", "torch", "torchvision", "timm", "faster-coco-eval"),
            "commands": [
                "penstock pack BCCD -o WORK/data",
                f"penstock train WORK/data {common.said(TRAIN)} --runs WORK/runs",
                f"penstock evaluate WORK/runs/{run.name} --split test",
            ],
            "train_seconds": round(common.seconds(run)[-1]),
            "test": json.loads(max((run / "evaluations").glob("test-*.json")).read_text()),
        },
    )


if __name__ == "__main__":
    main()

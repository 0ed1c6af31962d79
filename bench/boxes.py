"""Detectors trained from random weights, scored by mAP on images that they have not seen: blood cells, fruits and nuts.

python bench/boxes.py BCCD FRUITS WORK    BCCD holds JPEGImages/ and Annotations/, FRUITS images/ and a COCO file; WORK is
                                          filled, and a second call resumes
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import common
from common import penstock

STEPS, WARMUP, CROP, RESIZED, BATCH, MODEL = common.sized(
    ({"cells": 700, "fruits": 200}, 50, 320, 427, "8", "ssd:resnet18"),
    ({"cells": 2, "fruits": 2}, 0, 64, 80, "2", "ssd:test_resnet"),
)
TRAIN = [
    "--model", MODEL, "--weights", "none", "--batch", BATCH, "--crop", str(CROP), str(CROP), "--lr", "0.01",
    "--set", f"optimizer.warmup_steps={WARMUP}", "--set", "augment.jitter={}", "--set", f"augment.resize_range=[{CROP},{RESIZED}]", "--set", "augment.view.scale=[0.8,1.6]",
    "--set", "augment.view.scale_step=0", "--set", "train.freeze_bn=false", "--set", "train.ema_decay=0.99",
]  # fmt: skip
DIVIDED = {"cells": [], "fruits": ["--validation", "0.34"]}  # 18 photos come without a split
SPLIT = {"cells": "test", "fruits": "val"}


def main() -> None:
    bccd, fruits, work = (Path(word) for word in sys.argv[1:4])
    sources = {"cells": bccd, "fruits": fruits}
    common.write(
        "boxes",
        "python bench/boxes.py BCCD FRUITS WORK",
        {
            "versions": common.versions("penstock", "torch", "torchvision", "timm", "faster-coco-eval"),
            "data": {name: learnt(name, source, work / name) for name, source in sources.items()},
        },
    )


def learnt(name: str, source: Path, work: Path) -> dict[str, object]:
    penstock("pack", str(source), "-o", str(work / "data"), *DIVIDED[name])
    penstock("show", str(work / "data"), "-o", str(work / "packed.png"))
    words = [*TRAIN, "--steps", str(STEPS[name]), "--set", f"train.evaluate_every={STEPS[name] // 2}"]
    run = common.trained(work, str(work / "data"), *words)
    penstock("evaluate", str(run), "--split", SPLIT[name])
    described = json.loads((work / "data" / "dataset.json").read_text())
    return {
        "commands": [
            f"penstock pack {' '.join([name.upper(), '-o', 'WORK/data', *DIVIDED[name]])}",
            f"penstock train WORK/data {common.said(words)} --runs WORK/runs",
            f"penstock evaluate WORK/runs/{run.name} --split {SPLIT[name]}",
        ],
        "images": {split: facts["records"] for split, facts in described["splits"].items()},
        "split": SPLIT[name],
        "scores": json.loads(max((run / "evaluations").glob(f"{SPLIT[name]}-*.json")).read_text()),
    }


if __name__ == "__main__":
    main()

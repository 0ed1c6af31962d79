"""The hippocampus in MRI volumes: packed as slices, a third of the cases held out, trained from random weights, predicted
back to NIfTI and scored by Dice, case by case.

python bench/hippocampus.py DATA WORK    DATA holds images/ and labels/; WORK is filled, and a second call resumes
"""

from __future__ import annotations

import csv
import os
import sys
from pathlib import Path

import common
import nibabel
import numpy as np
from common import penstock

CLASSES = "background,anterior,posterior"
STEPS, BATCH = common.sized(("900", "16"), ("2", "2"))
TRAIN = [
    "--model", "unet:resnet18", "--weights", "none", "--steps", STEPS, "--batch", BATCH, "--crop", "64", "64",
    "--optimizer", "adamw", "--lr", "0.001", "--set", "augment.jitter={}", "--set", "augment.rotate=15", "--set", "augment.view.scale=[0.8,1.25]",
    "--set", "augment.view.scale_step=0", "--set", "augment.flip=0", "--set", "loss.dice=1", "--set", "train.ema_decay=0.99",
    "--set", "train.evaluate_every=300",
]  # fmt: skip


def measured(name: str, packing: list[str], training: list[str], packages: list[str]) -> None:
    """All of it, with some options of packing and training and the versions of some packages."""
    data, work = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    packing = [*packing, "--classes", CLASSES]
    divide(data, work / "raw")
    penstock("pack", str(work / "raw"), "-o", str(work / "data"), *packing)
    penstock("show", str(work / "data"), "-o", str(work / "packed.png"))
    run = common.trained(work, str(work / "data"), *training)
    held, truth = work / "raw" / "images" / "val", work / "raw" / "labels" / "val"
    penstock("predict", str(run), str(held), "-o", str(work / "out"), "--labels", str(truth), "--checkpoint", "last")
    rows = list(csv.DictReader((work / "out" / "dice.csv").read_text().splitlines()))
    cases = [f"{row['case']}.nii.gz" for row in rows]
    common.write(
        name,
        f"python bench/{name}.py HIPPOCAMPUS WORK",
        {
            "versions": common.versions("penstock", "torch", *packages, "nibabel"),
            "commands": [
                f"penstock pack WORK/raw -o WORK/data {common.said(packing)}",
                f"penstock train WORK/data {common.said(training)} --runs WORK/runs",
                f"penstock predict WORK/runs/{run.name} WORK/raw/images/val -o WORK/out --labels WORK/raw/labels/val "
                "--checkpoint last",
            ],
            "trained_on": len(list((work / "raw" / "images" / "train").iterdir())),
            "held_out": len(rows),
            "train_seconds": round(common.seconds(run)[-1]),
            "dice": {each: summary([float(row[each]) for row in rows]) for each in CLASSES.split(",")[1:]},
            "agree": all(agrees(work / "out" / case, held / case) for case in cases),
        },
    )


def divide(data: Path, raw: Path) -> None:
    """Links to the volumes, every third of which is held out, in the order of their names."""
    for number, path in enumerate(sorted((data / "images").iterdir())):
        for kind in ("images", "labels"):
            link = raw / kind / ("val" if number % 3 == 2 else "train") / path.name
            link.parent.mkdir(parents=True, exist_ok=True)
            if not link.exists():
                os.symlink(data / kind / path.name, link)


def summary(values: list[float]) -> dict[str, float]:
    ordered = sorted(values)
    return {
        "mean": float(np.mean(values)),
        "median": float(np.median(values)),
        "lowest": ordered[0],
        "highest": ordered[-1],
    }


def agrees(answer: Path, source: Path) -> bool:
    """Whether nibabel finds the answer on the voxels of its source."""
    a, b = nibabel.load(answer), nibabel.load(source)
    return a.shape == b.shape and np.array_equal(a.affine, b.affine) and a.header.get_zooms() == b.header.get_zooms()


if __name__ == "__main__":
    measured("hippocampus", [], TRAIN, ["timm", "segmentation-models-pytorch"])

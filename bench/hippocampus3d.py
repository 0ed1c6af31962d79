"""The same hippocampus volumes kept whole, for a network of three dimensions: MONAI's U-Net on patches from random weights.

python bench/hippocampus3d.py DATA WORK    DATA holds images/ and labels/; WORK is filled, and a second call resumes
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import common
from common import penstock
from hippocampus import CLASSES, agrees, divide, summary

TRAIN = [
    "--steps", "600", "--batch", "2", "--crop", "56", "40", "--set", "augment.slices=40", "--set", "augment.flip=0",
    "--set", "train.average=0.99", "--set", "train.evaluate_every=300",
]  # fmt: skip


def main() -> None:
    data, work = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    divide(data, work / "raw")
    penstock("pack", str(work / "raw"), "-o", str(work / "data"), "--layout", "nifti-volumes", "--classes", CLASSES)
    penstock("show", str(work / "data"), "-o", str(work / "packed.png"))
    run = common.trained(work, str(work / "data"), *TRAIN)
    held, truth = work / "raw" / "images" / "val", work / "raw" / "labels" / "val"
    penstock("predict", str(run), str(held), "-o", str(work / "out"), "--labels", str(truth))
    rows = list(csv.DictReader((work / "out" / "dice.csv").read_text().splitlines()))
    names = CLASSES.split(",")[1:]
    common.write(
        "hippocampus3d",
        "python bench/hippocampus3d.py HIPPOCAMPUS WORK",
        {
            "versions": common.versions("penstock", "torch", "monai", "nibabel"),
            "commands": [
                f"penstock pack WORK/raw -o WORK/data --layout nifti-volumes --classes {CLASSES}",
                f"penstock train WORK/data {common.said(TRAIN)} --runs WORK/runs",
                f"penstock predict WORK/runs/{run.name} WORK/raw/images/val -o WORK/out --labels WORK/raw/labels/val",
            ],
            "trained_on": len(list((work / "raw" / "images" / "train").iterdir())),
            "held_out": len(rows),
            "train_seconds": round(common.seconds(run)[-1]),
            "dice": {name: summary([float(row[name]) for row in rows]) for name in names},
            "agree": all(
                agrees(work / "out" / f"{row['case']}.nii.gz", held / f"{row['case']}.nii.gz") for row in rows
            ),
        },
    )


if __name__ == "__main__":
    main()

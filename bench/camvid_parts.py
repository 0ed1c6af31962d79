"""CamVid: what class weights, hard pixel mining and several sizes at evaluation bring, two seeds each.

python bench/camvid_parts.py CAMVID WORK    WORK is filled, and a second call resumes

Short trainings of a small network at half size, so that the differences can be had in an hour on two cores: what each
part brings here need not be what it brings to a large network trained for days.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import common
from camvid import CLASSES
from common import penstock

SEEDS, STEPS, WARMUP, BATCH, MODEL = common.sized(
    ((0, 1), "300", 50, "8", "deeplabv3plus:resnet18"), ((0,), "1", 0, "2", "deeplabv3plus:test_resnet")
)
SIZES = {"one size": ["0.5"], "three sizes, each also mirrored": ["0.375", "0.5", "0.75"]}
TRAIN = [
    "--model", MODEL, "--weights", "none", "--crop", "96", "128", "--batch", BATCH, "--steps", STEPS,
    "--optimizer", "adamw", "--lr", "1e-3", "--set", "augment.jitter={}", "--set", "augment.view.scale=[0.375, 0.75]", "--set", "augment.view.scale_step=0",
    "--set", f"optimizer.warmup_steps={WARMUP}", "--set", "data.validation=", "--set", "train.save_every=100",
]  # fmt: skip
PARTS = {
    "plain": [],
    "class weights (inverse frequency)": ["--set", "loss.class_weights=inverse"],
    "OHEM: the hardest quarter of the pixels": [
        "--set",
        "loss.ohem_ratio=0.25",
        "--set",
        f"loss.ohem_warmup_steps={3 * WARMUP}",
    ],
}


def main() -> None:
    data, work = Path(sys.argv[1]), Path(sys.argv[2])
    penstock("pack", str(data), "-o", str(work / "data"), "--classes", CLASSES, "--ignore", "11")
    found = {
        name: [scored(work / f"{number}-{seed}", work / "data", [*more, "--seed", str(seed)]) for seed in SEEDS]
        for number, (name, more) in enumerate(PARTS.items())
    }
    common.write(
        "camvid_parts",
        "python bench/camvid_parts.py CAMVID WORK",
        {
            "versions": common.versions("penstock", "torch", "timm", "segmentation-models-pytorch"),
            "commands": [
                f"penstock train WORK/data {common.said([*TRAIN, *more])} --seed SEED" for more in PARTS.values()
            ]
            + [f"penstock evaluate RUN --split test --scales {words(sizes)}" for sizes in SIZES.values()],
            "seeds": SEEDS,
            "parts": found,
        },
    )


def words(sizes: list[str]) -> str:
    return " ".join(sizes) + (" --flip" if len(sizes) > 1 else "")


def scored(work: Path, data: Path, more: list[str]) -> dict[str, dict[str, float]]:
    """Scores on the test split of one training, looked at in each way."""
    run = common.trained(work, str(data), *TRAIN, *more)
    return {name: looked(run, sizes) for name, sizes in SIZES.items()}


def looked(run: Path, sizes: list[str]) -> dict[str, float]:
    pattern = f"test-*-x{','.join(sizes)}{'-flip' * (len(sizes) > 1)}.json"
    if not list((run / "evaluations").glob(pattern)):
        penstock("evaluate", str(run), "--split", "test", "--images", "0", "--scales", *words(sizes).split())
    scores = json.loads(next((run / "evaluations").glob(pattern)).read_text())
    return {name: scores[name] for name in ("mean_iou", "pixel_accuracy")} | {
        entry["name"]: entry["iou"] for entry in scores["classes"]
    }


if __name__ == "__main__":
    main()

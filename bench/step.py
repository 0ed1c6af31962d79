"""Training steps side by side: penstock train, a plain loop, torchvision's reference loop, and Lightning.

python bench/step.py CAMVID WORK [REPEATS]    CAMVID holds images/ and masks/

The same network (segmentation_models.pytorch's DeepLabV3+ on ResNet-18, random weights), AdamW, float32, batches of 8
images, random scale, crop and flip, from files, each with its own data path; peers read through torch's DataLoader with
two worker processes. The peers run in .venv-bench (bench/requirements.txt), or in what PENSTOCK_BENCH_PYTHON names. A step
is all from one batch to the next, but for Penstock's, whose clock leaves out its hooks: bench/session.py times those.
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path

import common
from common import penstock

STEPS, WARM, BATCH, CROP, SCALE = common.sized((24, 6, 8, (176, 240), (0.75, 1.5)), (2, 1, 2, (64, 64), (0.75, 1.5)))
PEERS = Path(__file__).parent / "peers"
LOOPS = {
    "plain": "torchvision",
    "plain, channels last": "torchvision",
    "torchvision": "torchvision",
    "lightning": "lightning",
}
"""Peers, and the module that each needs."""
if common.SMOKE:
    LOOPS = {name: LOOPS[name] for name in ("plain", "lightning")}
TRAIN = [
    "--model", "deeplabv3plus:resnet18", "--weights", "none", "--crop", *map(str, CROP), "--batch", str(BATCH),
    "--steps", str(STEPS), "--optimizer", "adamw", "--lr", "1e-3", "--set", f"augment.view.scale={list(SCALE)}",
    "--set", "augment.jitter={}", "--set", "augment.view.scale_step=0", "--set", "data.validation=", "--set", f"train.save_every={STEPS}",
]  # fmt: skip


def main() -> None:
    data, work = Path(sys.argv[1]), Path(sys.argv[2])
    repeats = int(sys.argv[3]) if len(sys.argv) > 3 else 4
    work.mkdir(parents=True, exist_ok=True)
    penstock("pack", str(data), "-o", str(work / "data"), "--ignore", "11")
    loops = common.installed({name: (common.PEERS,) for name in LOOPS}, LOOPS)
    found: dict[str, list[dict[str, float]]] = {name: [] for name in ("penstock", *loops)}
    for repeat in range(repeats):
        found["penstock"].append(ours(work, repeat))
        for loop in loops:
            found[loop].append(peer(loop, data))
    common.write(
        "step",
        "python bench/step.py CAMVID WORK",
        {
            "versions": common.versions("penstock", "torch", "torchvision", "segmentation-models-pytorch"),
            "lightning": common.peer_version("lightning") if "lightning" in loops else "",
            "peers_torch": common.peer_version("torch") if loops else "",
            "batch": BATCH,
            "crop": CROP,
            "steps": STEPS - WARM,
            "loops": {
                name: {
                    "seconds": common.summary([each["seconds"] for each in runs]),
                    "peak_mib": common.summary([each["peak_mib"] for each in runs]),
                }
                for name, runs in found.items()
            },
        },
    )


def ours(work: Path, repeat: int) -> dict[str, float]:
    words = ["train", str(work / "data"), *TRAIN, "--runs", str(work / f"runs-{repeat}")]
    peak = float(program("penstock_train.py", *words, python=sys.executable))
    timings = common.lines(min((work / f"runs-{repeat}").glob("0*")) / "timings.jsonl")
    return said(
        "penstock", {"seconds": statistics.median(line["seconds"] for line in timings[WARM:]), "peak_mib": peak}
    )


def peer(loop: str, data: Path) -> dict[str, float]:
    how = json.dumps([STEPS, WARM, BATCH, CROP, SCALE])
    return said(loop, json.loads(program("loops.py", loop, str(data), how)))


def said(loop: str, found: dict[str, float]) -> dict[str, float]:
    print(f"{loop}: {found['seconds']:.3f} s a step, {found['peak_mib']:.0f} MiB", file=sys.stderr)
    return found


def program(name: str, *arguments: str, python: str = "") -> str:
    """The last line that a program prints."""
    return common.last_line([python or common.PEERS, str(PEERS / name), *arguments])


if __name__ == "__main__":
    main()

"""Images per second of Penstock's feed and its peers: the same JPEGs, the same cores, in turn, each in its own process.

    python bench/feed.py [WORK]      peers come from .venv-bench (see requirements.txt), or from PENSTOCK_BENCH_PYTHON

Two tasks: (a) random resized crop to 224, image only; (b) DeepLab's random scale, crop to 513 and flip, image and mask.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

import common
import photos

HERE = Path(__file__).parent
REPEATS = common.sized(5, 1)
CONTENDERS = {
    "penstock": (sys.executable, "penstock_feed.py"),
    "tf.data, decode_and_crop_jpeg": (common.PEERS, "tfdata.py"),
    "grain": (common.PEERS, "grain_feed.py"),
    "SPDL": (common.PEERS, "spdl_feed.py"),
    "LitData": (common.PEERS, "litdata_feed.py"),
    "torch DataLoader + torchvision": (sys.executable, "torch_feed.py"),
    "native calls": (sys.executable, "native_calls.py"),
}
PACKAGES = {
    "tf.data, decode_and_crop_jpeg": ("tensorflow", "tensorflow-cpu"),
    "grain": ("grain", "grain"),
    "SPDL": ("spdl", "spdl"),
    "LitData": ("litdata", "litdata"),
}
"""What a contender imports, and the package that it is in."""


@dataclass(frozen=True)
class Workload:
    """What is measured: a task on a set of photographs, with so many images in a pass."""

    what: str
    photos: str
    task: str
    images: int


WORKLOADS = {
    "a": Workload("375 x 500, random resized crop 224", "photos", "a", common.sized(640, 8)),
    "a, seekable": Workload("the same, packed with `--seekable`", "seekable", "a", common.sized(640, 8)),
    "b": Workload("375 x 500, scale, crop 513 and flip, with masks", "photos", "b", common.sized(640, 8)),
    "b, large": Workload("1024 x 1024, the same", "large", "b", common.sized(320, 4)),
    "b, large, seekable": Workload(
        "1024 x 1024, packed with `--seekable`, the same", "large-seekable", "b", common.sized(320, 4)
    ),
    "a, huge": Workload("3000 x 4000, random resized crop 224", "huge", "a", common.sized(96, 4)),
    "a, huge, seekable": Workload(
        "3000 x 4000, packed with `--seekable`, random resized crop 224", "huge-seekable", "a", common.sized(96, 4)
    ),
    "b, huge, seekable": Workload(
        "3000 x 4000, packed with `--seekable`, scale, crop 513 and flip, with masks",
        "huge-seekable",
        "b",
        common.sized(96, 4),
    ),
}


def main() -> None:
    work = Path(sys.argv[1] if len(sys.argv) > 1 else "/tmp/penstock-bench-feed")
    contenders = common.installed(CONTENDERS, {name: module for name, (module, _) in PACKAGES.items()})
    folders = {each.photos: photos.made(work, each.photos) for each in WORKLOADS.values()}
    rates: dict[str, dict[str, list[float]]] = {key: {name: [] for name in contenders} for key in WORKLOADS}
    for repeat in range(REPEATS):
        for key, workload in WORKLOADS.items():
            for name, command in contenders.items():
                rate = run(command, folders[workload.photos], workload)
                rates[key][name].append(rate)
                print(f"{repeat + 1}/{REPEATS} {key} {name}: {rate:.0f} images/s", file=sys.stderr)
        write(rates)  # as all of them take an hour


def run(command: tuple[str, ...], folder: Path, workload: Workload) -> float:
    python, program = command
    arguments = [python, str(HERE / "peers" / program), str(folder), workload.task, str(workload.images)]
    return max(json.loads(common.last_line(arguments, {"OMP_NUM_THREADS": "1", "TF_ENABLE_ONEDNN_OPTS": "1"})))


def write(rates: dict[str, dict[str, list[float]]]) -> None:
    results = {}
    for key, found in rates.items():
        ours = found["penstock"]
        results[key] = {
            "what": WORKLOADS[key].what,
            "images_per_second": {name: common.summary(values) for name, values in found.items()},
            "penstock_is_times": {
                name: common.summary([a / b for a, b in zip(ours, values, strict=True)])
                for name, values in found.items()
                if name != "penstock"
            },
        }
    versions = common.versions("penstock", "torch", "torchvision", "opencv-python-headless", "simplejpeg")
    there = {PACKAGES[name][1] for name in next(iter(rates.values())) if name in PACKAGES}
    versions |= {package: common.peer_version(package) for package in sorted(there)}
    repeats = len(next(iter(rates["a"].values())))
    about = (
        f"The figures are medians of {repeats} repeats, in which the contenders take turns. Each repeat is the better of two "
        "passes over 96 to 640 images, after one pass that is not counted."
    )
    common.write("feed", "python bench/feed.py", {"versions": versions, "method": about, "scenarios": results})


if __name__ == "__main__":
    main()

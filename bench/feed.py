"""Images per second of Penstock's feed and its peers: the same JPEGs, the same cores, in turn, each in its own process.

    python bench/feed.py [WORK]      peers come from .venv-bench (see requirements.txt), or from PENSTOCK_BENCH_PYTHON

(a) random resized crop to 224, image only; (b) DeepLab's random scale, crop to 513 and flip, image and mask.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import common

from penstock.datasets import PackOptions, inspect, pack, scenes

HERE = Path(__file__).parent
SCENES, IMAGES, REPEATS = common.sized((1000, 640, 5), (8, 8, 1))
CONTENDERS = {
    "penstock": (sys.executable, "penstock_feed.py"),
    "tf.data": (common.PEERS, "tfdata.py", "full"),
    "tf.data, decode_and_crop_jpeg": (common.PEERS, "tfdata.py", "crop"),
    "grain": (common.PEERS, "grain_feed.py"),
    "torch DataLoader + torchvision": (sys.executable, "torch_feed.py"),
    "bare decode": (sys.executable, "bare_decode.py"),
}
MODULES = {"tf.data": "tensorflow", "tf.data, decode_and_crop_jpeg": "tensorflow", "grain": "grain"}
SCENARIOS = {"a": "random resized crop 224", "b": "scale, crop 513 and flip, with masks"}


def main() -> None:
    work = Path(sys.argv[1] if len(sys.argv) > 1 else "/tmp/penstock-bench-feed")
    make(work)
    contenders = common.installed(CONTENDERS, MODULES)
    rates: dict[str, dict[str, list[float]]] = {s: {name: [] for name in contenders} for s in SCENARIOS}
    for repeat in range(REPEATS):
        for scenario in SCENARIOS:
            for name, command in contenders.items():
                rate = run(command, work, scenario)
                rates[scenario][name].append(rate)
                print(f"{repeat + 1}/{REPEATS} {scenario} {name}: {rate:.0f} images/s", file=sys.stderr)
    write(rates)


def make(work: Path) -> None:
    """1,000 scenes of 375 x 500, about 50 KB each: as shards, and as files for the peers that want files."""
    if (work / "dataset.json").exists():
        return
    raw = work.with_name(work.name + "-raw")
    scenes.write_folder(raw, {"train": SCENES}, (375, 500), seed=1)
    pack(inspect(raw), work, PackOptions(shard_bytes=16 << 20))
    (work / "files").mkdir()
    for path in [*raw.glob("images/*/*"), *raw.glob("masks/*/*")]:
        path.rename(work / "files" / path.name)


def run(command: tuple[str, ...], work: Path, scenario: str) -> float:
    python, program, *more = command
    arguments = [python, str(HERE / "peers" / program), str(work), scenario, str(IMAGES), *more]
    return max(json.loads(common.last_line(arguments, {"OMP_NUM_THREADS": "1", "TF_ENABLE_ONEDNN_OPTS": "1"})))


def write(rates: dict[str, dict[str, list[float]]]) -> None:
    results = {}
    for scenario, found in rates.items():
        ours = found["penstock"]
        results[scenario] = {
            "what": SCENARIOS[scenario],
            "images_per_second": {name: common.summary(values) for name, values in found.items()},
            "penstock_is_times": {
                name: common.summary([a / b for a, b in zip(ours, values, strict=True)])
                for name, values in found.items()
                if name != "penstock"
            },
        }
    versions = common.versions("penstock", "torch", "torchvision", "opencv-python-headless", "simplejpeg")
    for contender, package in {"tf.data": "tensorflow-cpu", "grain": "grain"}.items():
        if contender in rates["a"]:
            versions[package] = common.peer_version(package)
    about = (
        f"The figures are medians of {REPEATS} repeats, in which the contenders take turns. Each repeat is the better of two "
        f"passes over {IMAGES} images, after one pass that is not counted."
    )
    common.write("feed", "python bench/feed.py", {"versions": versions, "method": about, "scenarios": results})


if __name__ == "__main__":
    main()

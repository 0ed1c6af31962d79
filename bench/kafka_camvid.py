"""CamVid published to three brokers and trained from there, beside the same training from shards: the same bytes.

python bench/kafka_camvid.py CAMVID
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from pathlib import Path

import common

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))
from support import broker  # noqa: E402 - the tests' own cluster
from camvid import CLASSES, penstock  # noqa: E402

NODES, STEPS, MODEL, CROP = common.sized(
    (3, "40", "deeplabv3plus:resnet18", ("176", "240")), (1, "2", "unet:test_resnet", ("64", "96"))
)
TRAIN = [
    "--model", MODEL, "--weights", "none", "--crop", *CROP, "--batch", "8", "--steps", STEPS,
    "--optimizer", "adamw", "--lr", "1e-3", "--seed", "5", "--set", "augment.jitter={}", "--set", "data.block=16", "--set", "data.shuffle_window=4",
    "--set", f"train.evaluate_every={STEPS}", "--set", "train.log_origins=true", "--set", "train.ema_decay=0.9",
]  # fmt: skip


def main() -> None:
    data = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        penstock(
            "pack", str(data), "-o", str(work / "data"), "--classes", CLASSES, "--ignore", "11", "--shard-size", "4"
        )
        with broker.Cluster(work / "kafka", nodes=NODES) as cluster:
            url = f"kafka://{cluster.servers}/camvid"
            penstock(
                "publish",
                str(work / "data"),
                url,
                "--create",
                "--replicas",
                str(NODES),
                "--split",
                "train",
                "--split",
                "val",
            )
            penstock("train", url, *TRAIN, "--runs", str(work / "topic"))
        penstock("train", str(work / "data"), *TRAIN, "--runs", str(work / "shards"))
        found = {place: facts(next((work / place).iterdir())) for place in ("shards", "topic")}
        partitions = len(json.loads((work / "data" / "dataset.json").read_text())["splits"]["train"]["shards"])
    same = {key: found["shards"][key] == found["topic"][key] for key in found["shards"]}
    print(same, file=sys.stderr)
    assert all(same.values())
    common.write(
        "kafka_camvid",
        "python bench/kafka_camvid.py CAMVID",
        {
            "versions": common.versions("penstock", "torch", "confluent-kafka"),
            "nodes": NODES,
            "partitions": partitions,
            "train": " ".join(TRAIN),
            "identical": sorted(same),
            "sha256": found["topic"],
        },
    )


def facts(run: Path) -> dict[str, str]:
    """The digests of what must be the same."""
    last = (run / "checkpoints" / "last").resolve()
    files = [*sorted(last.glob("*.safetensors")), run / "metrics.jsonl"]
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


if __name__ == "__main__":
    main()

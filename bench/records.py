"""Records written by Penstock read by TensorFlow, and TensorFlow's by Penstock: counts, fields and bytes compared.

python bench/records.py      TensorFlow comes from .venv-bench, or from PENSTOCK_BENCH_PYTHON
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import common

from penstock.datasets import PackOptions, inspect, pack, scenes
from penstock.records.example import Fields
from penstock.sources import FilesSource

TENSORFLOW = """
import glob, hashlib, json, sys, tensorflow as tf
spec = {"image/encoded": tf.string, "image/filename": tf.string, "image/format": tf.string, "image/height": tf.int64,
        "image/width": tf.int64, "image/channels": tf.int64, "image/segmentation/class/encoded": tf.string,
        "image/segmentation/class/format": tf.string}
spec = {k: tf.io.FixedLenFeature([], t) for k, t in spec.items()}
read, writers = {}, {"": tf.io.TFRecordWriter(sys.argv[2] + "/plain.tfrecord")}
writers["GZIP"] = tf.io.TFRecordWriter(sys.argv[2] + "/gzip.tfrecord", "GZIP")
writers["ZLIB"] = tf.io.TFRecordWriter(sys.argv[2] + "/zlib.tfrecord", "ZLIB")
for record in tf.data.TFRecordDataset(sorted(glob.glob(sys.argv[1] + "/*.tfrecord"))):
    f = tf.io.parse_single_example(record, spec)
    image = tf.io.decode_jpeg(f["image/encoded"]); mask = tf.io.decode_png(f["image/segmentation/class/encoded"])
    assert image.shape[:2] == mask.shape[:2] == (f["image/height"], f["image/width"])
    key = f["image/filename"].numpy().decode()
    read[key] = [hashlib.sha256(f[n].numpy()).hexdigest() for n in ("image/encoded", "image/segmentation/class/encoded")]
    for writer in writers.values(): writer.write(record.numpy())
for writer in writers.values(): writer.close()
print(json.dumps([tf.__version__, read]))
"""


def main() -> None:
    if not common.imports(common.PEERS, "tensorflow"):
        sys.exit(f"skipped, as tensorflow is not installed for {common.PEERS}")
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        scenes.write_folder(work / "raw", {"train": 60}, (96, 128))
        dataset = pack(inspect(work / "raw"), work / "data", PackOptions(shard_bytes=200_000))
        (work / "tf").mkdir()
        command = [common.PEERS, "-c", TENSORFLOW, str(dataset.folder), str(work / "tf")]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        version, read = json.loads(done.stdout.splitlines()[-1])
        ours = digests(dataset.source("train"))
        assert read == ours, "TensorFlow read something else"
        for kind in ("plain", "gzip", "zlib"):
            assert digests(FilesSource(work / "tf" / f"{kind}.tfrecord")) == ours, kind
        found = {"tensorflow_reads_ours": len(read), "we_read_tensorflows": {"plain": 60, "GZIP": 60, "ZLIB": 60}}
    common.write("records", "python bench/records.py", {"versions": {"tensorflow-cpu": version}, "identical": found})


def digests(source: FilesSource) -> dict[str, list[str]]:
    found = {}
    for partition in source.snapshot().partitions:
        for record in source.read(partition.name, partition.start, partition.stop):
            fields = Fields(record.payload, record.origin)
            names = ("image/encoded", "image/segmentation/class/encoded")
            digest = [hashlib.sha256(fields.first_bytes(name)).hexdigest() for name in names]
            found[fields.first_bytes("image/filename").decode()] = digest
    return found


if __name__ == "__main__":
    main()

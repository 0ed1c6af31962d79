"""TFRecord shards: framing, index, reading, writing, and the fields of a record.

example.py  `tf.train.Example` without TensorFlow
framing.py  the TFRecord framing, byte for byte as TensorFlow writes it
index.py    the sidecar index of a shard
reader.py   random and sequential access to the records of one shard
schema.py   the fields of a record, task by task, with the keys of TensorFlow's DeepLab and TF-slim
writer.py   writing a shard
"""

from penstock.records.example import Fields, encode
from penstock.records.reader import Shard, open_shard, read_all
from penstock.records.schema import SegmentationRecord
from penstock.records.writer import ShardWriter

__all__ = [
    "Fields",
    "SegmentationRecord",
    "Shard",
    "ShardWriter",
    "encode",
    "open_shard",
    "read_all",
]

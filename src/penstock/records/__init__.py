"""TFRecord shards: framing, index, reading and writing. Nothing here knows what a record is for.

example.py  `tf.train.Example` without TensorFlow
framing.py  the TFRecord framing, byte for byte as TensorFlow writes it
index.py    the sidecar index of a shard
manifest.py what the records of a dataset are called, with digests of their images and labels
reader.py   random and sequential access to the records of one shard
writer.py   writing a shard
"""

from penstock.records.example import Fields, encode
from penstock.records.reader import Shard, open_shard, read_all
from penstock.records.writer import ShardWriter

__all__ = ["Fields", "Shard", "ShardWriter", "encode", "open_shard", "read_all"]

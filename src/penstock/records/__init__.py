"""TFRecord shards: framing, index, reading, writing, and the fields of a record."""

from penstock.records.example import Fields, encode
from penstock.records.reader import Shard, open_shard, read_all
from penstock.records.schema import ClassificationRecord, SegmentationRecord
from penstock.records.writer import ShardWriter

__all__ = [
    "ClassificationRecord",
    "Fields",
    "SegmentationRecord",
    "Shard",
    "ShardWriter",
    "encode",
    "open_shard",
    "read_all",
]

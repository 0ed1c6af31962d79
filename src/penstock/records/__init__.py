"""TFRecord shards: framing, index, reading, writing, and the fields of a record."""

from penstock.records.reader import Shard, open_shard, read_all
from penstock.records.schema import ClassificationRecord, SegmentationRecord
from penstock.records.writer import ShardWriter

__all__ = ["ClassificationRecord", "SegmentationRecord", "Shard", "ShardWriter", "open_shard", "read_all"]

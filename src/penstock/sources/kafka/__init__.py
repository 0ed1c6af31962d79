"""Kafka topics as sources.

log.py        the seam: what a topic is, and reading a range of offsets
library.py    librdkafka itself, an extra
client.py     the seam over librdkafka: waiting, holes, the end of a partition
admin.py      questions about a topic
producer.py   writing
fake.py       the seam in memory, with all that makes real ones hard
source.py     KafkaSource: snapshots, blocks, and what must not have changed
ranges.py     where to begin and to end, as people say it
blocks.py     blocks that are kept for a while
settings.py   addresses and librdkafka's settings
mistakes.py   the errors
partitions.py  what the partitions of a snapshot say about the topic that they were taken of, and whether it is still
"""

from penstock.sources.kafka.client import KafkaLog
from penstock.sources.kafka.fake import FakeLog
from penstock.sources.kafka.log import Log, Message, Topic
from penstock.sources.kafka.mistakes import nothing
from penstock.sources.kafka.ranges import Range, parse_range
from penstock.sources.kafka.settings import TopicAddress, is_topic
from penstock.sources.kafka.source import KafkaSource, together

__all__ = [
    "FakeLog",
    "KafkaLog",
    "KafkaSource",
    "Log",
    "Message",
    "Range",
    "Topic",
    "TopicAddress",
    "is_topic",
    "nothing",
    "parse_range",
    "together",
]

"""Kafka: datasets in topics, which can be published, pulled, trained on and followed while they grow.

location.py      where such a dataset is: kafka://HOST:PORT/TOPIC
dataset.py       a packed dataset whose splits are topics
topic_format.py  what records say of their dataset
publishing.py    shards to topics
pulling.py       topics to shards
verification.py  reading every record of a topic back
log.py           the seam: what a topic is, and reading a range of offsets
library.py       librdkafka itself, an extra
client.py        the seam over librdkafka: waiting, holes, the end of a partition
admin.py         questions about a topic
producer.py      writing
fake.py          the seam in memory, with all that makes real ones hard
source.py        KafkaSource: snapshots, blocks, and what must not have changed
ranges.py        where to begin and to end, as people say it
blocks.py        blocks that are kept for a while
settings.py      addresses and librdkafka's settings
mistakes.py      the errors
partitions.py    what the partitions of a snapshot say about the topic that they were taken of, and whether it is still
"""

from typing import Final

from penstock.datasets.locations import Scheme
from penstock.extensions.kafka.client import KafkaLog
from penstock.extensions.kafka.dataset import TopicDataset
from penstock.extensions.kafka.fake import FakeLog
from penstock.extensions.kafka.publishing import Publisher, publish
from penstock.extensions.kafka.pulling import pull
from penstock.extensions.kafka.ranges import Range
from penstock.extensions.kafka.settings import TopicAddress
from penstock.extensions.kafka.source import KafkaSource, together
from penstock.extensions.kafka.topic_format import About

SCHEMES: Final = {"kafka": Scheme("penstock.extensions.kafka.location:TopicLocation", "kafka://HOST:PORT/TOPIC")}
"""The places of datasets that it brings, by the scheme of their URIs."""

__all__ = [
    "SCHEMES",
    "About",
    "FakeLog",
    "KafkaLog",
    "KafkaSource",
    "Publisher",
    "Range",
    "TopicAddress",
    "TopicDataset",
    "publish",
    "pull",
    "together",
]

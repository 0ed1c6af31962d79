"""A dataset in topics of a real broker."""

from __future__ import annotations

import uuid

import pytest

from penstock.datasets import Creation
from penstock.extensions.kafka import TopicAddress
from penstock.extensions.kafka.publishing import publish


@pytest.fixture(scope="module")
def published(broker, packed):
    """The packed dataset in topics of its own."""
    address = TopicAddress(broker.servers, f"scenes-{uuid.uuid4().hex[:6]}")
    for split in ("train", "val"):
        publish(packed, address, split, Creation(len(packed.split(split).shards)))
    return address

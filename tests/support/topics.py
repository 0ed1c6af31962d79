"""Fake topics with records, and what reading them says."""

from __future__ import annotations

import pytest

from penstock.errors import SourceError
from penstock.extensions.kafka import FakeLog


def filled(partitions=2, records=50, holes=()):
    log = FakeLog("t", partitions)
    for partition in range(partitions):
        for i in range(records):
            if i in holes:
                log.hole(partition)
            else:
                log.append(b"%d" % (1000 * partition + i), partition)
    return log


def refused(action, message):
    with pytest.raises(SourceError) as caught:
        action()
    assert str(caught.value) == message

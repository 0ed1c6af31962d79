from __future__ import annotations

import pytest

from penstock.extensions.kafka import TopicAddress, admin


@pytest.mark.parametrize("name", ["FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH", "OFFSET_NOT_AVAILABLE"])
def test_a_topic_is_asked_again_while_its_leaders_move(monkeypatch, name):
    """Not all brokers hear of an election at once: a resume just after a kill met this."""
    kafka = pytest.importorskip("confluent_kafka")
    predictions = [kafka.KafkaException(kafka.KafkaError(getattr(kafka.KafkaError, name))), "the topic"]

    def described(*_):
        prediction = predictions.pop(0)
        if isinstance(prediction, Exception):
            raise prediction
        return prediction

    monkeypatch.setattr(admin, "_describe", described)

    assert admin.describe(None, TopicAddress("localhost:1", "t"), 5.0) == "the topic"
    assert predictions == []

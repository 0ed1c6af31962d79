from __future__ import annotations

from types import SimpleNamespace

from support import miniatures
from support.errors import refused

from penstock.datasets.description import Description
from penstock.extensions.kafka.log import Message
from penstock.extensions.kafka.topic_format import DIGEST, digest
from penstock.extensions.kafka.verification import check_message
from penstock.kinds.fields import ClassificationRecord, encode_classification
from penstock.values import Record


def test_a_record_is_held_against_its_digest_if_it_has_one():
    payload = encode_classification(ClassificationRecord(miniatures.make_image(), 1, "x", "jpeg", 24, 32))
    dataset = SimpleNamespace(description=Description("classification", ("a", "b"), 255, {}, "a Kafka topic"))
    record = Record("t/0#7", payload)
    for headers in ((), ((DIGEST, digest(payload)),)):
        check_message(dataset, Message(7, payload, headers=headers), record)
    refused(
        check_message, dataset, Message(7, payload, headers=((DIGEST, b"0" * 32),)), record,
        message=f"t/0#7: expected a record with digest {'0' * 32}, found {digest(payload).decode()}. Something changed the "
        "record after it was published: publish it again.",
    )  # fmt: skip

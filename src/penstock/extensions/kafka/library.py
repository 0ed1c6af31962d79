"""librdkafka's Python module, which is an extra: imported when it is first needed."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from penstock.errors import SourceError, not_installed


def librdkafka(module: str = "confluent_kafka") -> Any:
    """The module confluent_kafka, or one inside it.

    Raises:
        SourceError: it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        raise not_installed("Reading Kafka topics", "confluent-kafka", "Install penstock[kafka]") from None


def opened(kind: str, settings: Mapping[str, Any], module: str = "confluent_kafka") -> Any:
    """A client: an AdminClient, a Consumer or a Producer.

    Raises:
        SourceError: confluent-kafka is not installed, or does not know one of the settings.
    """
    make = getattr(librdkafka(module), kind)
    try:
        return make(dict(settings))
    except librdkafka().KafkaException as error:
        raise SourceError(
            "the settings of Kafka",
            expected="properties that librdkafka knows",
            found=error.args[0].str(),
            remedy="Fix the file that PENSTOCK_KAFKA_PROPERTIES names, or the PENSTOCK_KAFKA_... variable",
        ) from None

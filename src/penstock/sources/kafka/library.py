"""librdkafka's Python module, which is an extra: imported when it is first needed."""

from __future__ import annotations

import importlib
from typing import Any

from penstock.errors import SourceError


def librdkafka(module: str = "confluent_kafka") -> Any:
    """The module confluent_kafka, or one inside it.

    Raises:
        SourceError: it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        raise SourceError(
            "kafka://",
            expected="the Kafka client",
            found="that confluent-kafka is not installed",
            remedy="Install it with pip install 'penstock[kafka]'",
        ) from None

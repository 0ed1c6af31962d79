"""Where a topic is, and how librdkafka is to speak to its cluster.

A URL names servers and topic, never a secret. What else librdkafka can be told (TLS, SASL, timeouts) comes from a
properties file that `PENSTOCK_KAFKA_PROPERTIES` names, and from variables such as `PENSTOCK_KAFKA_SASL_PASSWORD` for
`sasl.password`; neither is ever written to a recipe, a checkpoint or a log.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, Self
from urllib.parse import urlsplit

from penstock.errors import SourceError

SCHEME: Final = "kafka://"
_FILE: Final = "PENSTOCK_KAFKA_PROPERTIES"
_PREFIX: Final = "PENSTOCK_KAFKA_"
_PORT: Final = ":9092"
_LOGGER: Final = logging.getLogger("penstock.kafka")
# What exactness rests on: files that are shared with other programs often say otherwise.
_READING: Final[dict[str, str | bool]] = {
    "enable.auto.commit": False,
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
    "isolation.level": "read_committed",
}
_WRITING: Final[dict[str, str | bool]] = {"enable.idempotence": True, "acks": "all"}


@dataclass(frozen=True, slots=True)
class TopicAddress:
    """A topic of a cluster; `servers` are its bootstrap servers, `host:port,...`."""

    servers: str
    topic: str

    @classmethod
    def parse(cls, url: str) -> Self:
        """Read `kafka://host[:port][,host[:port]...]/topic`.

        Raises:
            SourceError: it is none.
        """
        wanted, remedy = "kafka://HOST:PORT/TOPIC", "Write the address in this form"
        try:
            parts = urlsplit(url)
        except ValueError as error:
            raise SourceError(url, expected=wanted, found=str(error), remedy=remedy) from None
        topic = parts.path.strip("/")
        is_one = parts.scheme == "kafka" and parts.netloc and topic and "/" not in topic and url.isprintable()
        if not is_one or "@" in parts.netloc:
            secret = "@" in parts.netloc
            raise SourceError(
                url.replace(parts.netloc, "...") if secret else url,
                expected=wanted,
                found="a user or password in it" if secret else "another address",
                remedy=f"Put secrets into the file that {_FILE} names" if secret else remedy,
            )
        hosts = [host if ":" in host else host + _PORT for host in parts.netloc.split(",")]
        return cls(",".join(hosts), topic)

    def __str__(self) -> str:
        return f"{SCHEME}{self.servers}/{self.topic}"


def properties(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The user's settings for librdkafka: of the file, then of the variables, which win.

    Raises:
        SourceError: the file cannot be read, or a line of it is no `key=value`.
    """
    found: dict[str, str] = {}
    if path := environment.get(_FILE):
        found |= _read(Path(path))
    for name, value in environment.items():
        if name.startswith(_PREFIX) and name not in {_FILE, "PENSTOCK_KAFKA_JARS"}:
            found[name.removeprefix(_PREFIX).lower().replace("_", ".")] = value
    return found


def _read(path: Path) -> dict[str, str]:
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError(
            str(path), expected="a properties file", found=str(error), remedy=f"Check the path in {_FILE}"
        ) from None
    found = {}
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith(("#", "!")):
            continue
        key, equals, value = text.partition("=")
        if not equals:
            raise SourceError(
                f"{path}, line {number}", expected="key=value", found="no equals sign", remedy="Fix that line"
            )
        found[key.strip()] = value.strip()
    return found


def reading(servers: str) -> dict[str, str | int | bool]:
    """Settings of a consumer; docs/kafka.md says why and what each does to throughput."""
    return {
        "bootstrap.servers": servers,
        "group.id": "penstock",  # asked for by the client; never joined, committed to or read
        "check.crcs": True,
        "max.partition.fetch.bytes": 2 << 20,
        "fetch.wait.max.ms": 100,
        "fetch.queue.backoff.ms": 10,
        "queued.max.messages.kbytes": 8 << 10,
        "reconnect.backoff.max.ms": 1000,
        "log_level": 0,
        **_without(_READING),
        **_READING,
    }


def writing(servers: str) -> dict[str, str | int | bool]:
    """Settings of an idempotent producer."""
    return {
        "bootstrap.servers": servers,
        "message.max.bytes": 64 << 20,  # the broker's own limit decides
        "batch.size": 4 << 20,
        "queue.buffering.max.kbytes": 64 << 10,
        "linger.ms": 5,
        "compression.type": "none",  # JPEG and PNG do not shrink
        "log_level": 0,
        **_without(_WRITING),
        **_WRITING,
    }


def _without(fixed: Mapping[str, str | bool]) -> dict[str, str]:
    """The user's settings without those that are fixed; says so where one differs."""
    found = properties()
    for key in fixed.keys() & found.keys():
        _say_fixed(key, found.pop(key), str(fixed[key]).lower())
    return found


@cache
def _say_fixed(key: str, value: str, ours: str) -> None:
    if value.lower() != ours:
        _LOGGER.warning("%s=%s is not used: exactness needs %s", key, value, ours)

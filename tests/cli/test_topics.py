from __future__ import annotations

import pytest
from support.commands import call


def test_a_place_without_a_scheme_is_no_address(tmp_path, capsys):
    code, _, err = call("download", "cifar10", "-o", tmp_path, "--url", "host/c.tar.gz", capsys=capsys)

    assert (code, err.splitlines()[-1]) == (
        2,
        "error: host/c.tar.gz: expected the archive, found no address: begin it with https://, or file:// for a file of "
        "this machine. Run the command again: it goes on where it broke off. Or download c.tar.gz by hand into the output folder.",
    )


def test_a_property_that_kafka_does_not_know_is_named(capsys, monkeypatch):
    pytest.importorskip("confluent_kafka")
    monkeypatch.setenv("PENSTOCK_KAFKA_KEY_DESERIALIZER", "text")
    code, _, err = call("verify", "kafka://localhost:1/topic", capsys=capsys)

    assert (code, err.splitlines()[-1]) == (
        2,
        "error: the settings of Kafka: expected properties that librdkafka knows, found No such configuration property: "
        '"key.deserializer". Fix the file that PENSTOCK_KAFKA_PROPERTIES names, or the PENSTOCK_KAFKA_... variable.',
    )


def test_an_address_that_is_none_is_named(tmp_path, capsys):
    code, _, err = call("download", "cifar10", "-o", tmp_path, "--url", "https://[::1", capsys=capsys)

    assert code == 2
    assert err.startswith("error: https://[::1: expected the archive, found ")

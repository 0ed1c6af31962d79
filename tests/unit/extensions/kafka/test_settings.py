from __future__ import annotations

from support.topics import refused

from penstock.extensions.kafka import TopicAddress, settings


class TestAddress:
    def test_urls(self):
        assert TopicAddress.parse("kafka://a,b:1/t") == TopicAddress("a:9092,b:1", "t")
        assert str(TopicAddress.parse("kafka://a/t")) == "kafka://a:9092/t"

    def test_others_are_refused_without_their_secrets(self):
        refused(
            lambda: TopicAddress.parse("kafka://me:secret@host/t"),
            "kafka://.../t: expected kafka://HOST:PORT/TOPIC, found a user or password in it. Put secrets into the file "
            "that PENSTOCK_KAFKA_PROPERTIES names.",
        )
        refused(
            lambda: TopicAddress.parse("kafka://\udce9/t"),
            "kafka://\udce9/t: expected kafka://HOST:PORT/TOPIC, found another address. Write the address in this form.",
        )
        refused(
            lambda: TopicAddress.parse("kafka://[host/t"),
            "kafka://[host/t: expected kafka://HOST:PORT/TOPIC, found Invalid IPv6 URL. Write the address in this form.",
        )
        refused(
            lambda: TopicAddress.parse("kafka://host"),
            "kafka://host: expected kafka://HOST:PORT/TOPIC, found another address. Write the address in this form.",
        )

    def test_properties_come_from_a_file_and_from_variables(self, tmp_path):
        file = tmp_path / "p"
        file.write_text(
            "# a comment\n! another = 1\nsecurity.protocol = SASL_SSL\nsasl.username=me=you\nsasl.password=old\n\n"
        )
        found = settings.properties(
            {"PENSTOCK_KAFKA_PROPERTIES": str(file), "PENSTOCK_KAFKA_SASL_PASSWORD": "x", "OTHER": "y"}
        )

        assert found == {"security.protocol": "SASL_SSL", "sasl.username": "me=you", "sasl.password": "x"}
        file.write_text("nonsense")
        refused(
            lambda: settings.properties({"PENSTOCK_KAFKA_PROPERTIES": str(file)}),
            f"{file}, line 1: expected key=value, found no equals sign. Fix that line.",
        )

    def test_damaged_records_are_not_trusted(self):
        assert settings.reading("h:1")["check.crcs"] is True

    def test_what_exactness_rests_on_is_fixed_and_said(self, monkeypatch, caplog):
        monkeypatch.setenv("PENSTOCK_KAFKA_AUTO_OFFSET_RESET", "latest")
        monkeypatch.setenv("PENSTOCK_KAFKA_ISOLATION_LEVEL", "read_committed")
        monkeypatch.setenv("PENSTOCK_KAFKA_ACKS", "1")
        monkeypatch.setenv("PENSTOCK_KAFKA_FETCH_WAIT_MAX_MS", "7")
        settings._say_fixed.cache_clear()
        settings.reading("h:1")  # said once
        reading = settings.reading("h:1")
        writing = settings.writing("h:1")

        assert (reading["auto.offset.reset"], reading["isolation.level"], writing["acks"]) == (
            "error",
            "read_committed",
            "all",
        )
        assert reading["fetch.wait.max.ms"] == "7"
        assert [record.message for record in caplog.records] == [
            "auto.offset.reset=latest is not used: exactness needs error",
            "acks=1 is not used: exactness needs all",
        ]

from __future__ import annotations

import json
import re

import msgspec
import pytest

from penstock.datasets import FolderDataset
from penstock.errors import DatasetError, SourceError
from penstock.extensions.kafka import About, FakeLog, Range, TopicAddress, TopicDataset, publishing
from penstock.extensions.kafka.dataset import TopicState
from penstock.extensions.kafka.ranges import parse_range


class TestTopics:
    def test_ranges_of_partitions_that_are_not_there_are_refused(self):
        log = FakeLog("t", 2)
        for words, found in (("0:1,5:9", "0, 5"), ("1:1,1:9", "1, 1")):
            with pytest.raises(SourceError) as caught:
                parse_range(log, "", words)
            assert str(caught.value) == (
                f"--until {words}: expected partitions of t (0, 1), each at most once, found {found}. Change the list."
            )

    def test_the_most_boxes_of_a_image_are_said(self):
        about = About("detection", ("a",), objects=600)
        assert json.loads(about.encoded())["objects"] == 600
        assert "objects" not in json.loads(About("detection", ("a",)).encoded())

    def test_other_shards_than_were_packed_are_not_published(self, packed, tmp_path, monkeypatch):
        for path in packed.folder.iterdir():
            (tmp_path / path.name).write_bytes(path.read_bytes())
        first, second = packed.split("train").shards[:2]
        (tmp_path / first.name).write_bytes((packed.folder / second.name).read_bytes())
        (tmp_path / f"{first.name}.index").unlink(missing_ok=True)
        monkeypatch.setattr(publishing, "KafkaLog", lambda _: pytest.fail("it was asked"))
        with pytest.raises(DatasetError, match=re.escape(f"{first.name}: expected the {first.records} records that")):
            publishing.publish(FolderDataset.open(tmp_path), TopicAddress("h:1", "t"), "train")


def test_a_record_that_arrives_otherwise_than_it_was_sent_is_an_error(broker, packed, monkeypatch):
    import uuid

    from penstock.datasets import Creation
    from penstock.errors import DatasetError
    from penstock.extensions.kafka import TopicAddress, publish, publishing

    own = publishing.TopicWriter.send
    monkeypatch.setattr(
        publishing.TopicWriter, "send", lambda self, payload, *rest: own(self, payload[:-1] + b"?", *rest)
    )
    with pytest.raises(DatasetError, match="other records"):
        publish(packed, TopicAddress(broker.servers, f"bent-{uuid.uuid4().hex[:6]}"), "train", Creation(2))


def test_a_topic_says_what_its_volumes_are():
    about = About("segmentation", ("a", "b"), channels=1, slices=3)

    assert msgspec.json.decode(about.encoded(), type=About) == about
    assert b"slices" not in About("segmentation", ("a", "b")).encoded()
    assert b"original" not in About("segmentation", ("a", "b")).encoded()


@pytest.mark.parametrize("first", [{"task": 7, "records": 1}, {"task": "matting", "classes": []}])
def test_what_is_kept_of_a_first_record_is_checked(first):
    with pytest.raises(DatasetError) as caught:
        TopicState.of(first)

    assert str(caught.value) == (
        "data.json: expected what the first record of a topic says, found something else. Restore the file from a copy "
        "of the run."
    )


class TestWhatATopicSays:
    ABOUT = About(
        "segmentation", ("a", "b"), original=(4, 7), value_range=(-160.0, 240.0), channels=1, bits=16, mean=(0.5,),
        std=(0.25,), modalities=1, mapping=((21, 255),), colors=((1, 2, 3), (4, 5, 6)),
    )  # fmt: skip

    def dataset(self):
        part = parse_range(FakeLog("t", 1), "0:2", "0:5")
        return TopicDataset(
            TopicAddress("h:1", "t"), part, TopicState(self.ABOUT, 3), lambda address: FakeLog(address.topic, 1)
        )

    def test_a_range_is_one_of_the_records_that_are_trained_on(self):
        dataset = self.dataset()

        assert dataset.source("train").range == dataset.range != Range()
        assert dataset.source("val").range == Range()

    def test_all_of_it_is_described(self):
        described = self.dataset().description
        names = (
            "classes",
            "original",
            "value_range",
            "channels",
            "bits",
            "mean",
            "std",
            "modalities",
            "mapping",
            "colors",
        )

        assert {name: getattr(described, name) for name in names} == {name: getattr(self.ABOUT, name) for name in names}

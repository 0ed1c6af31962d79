from __future__ import annotations

import json
import signal
import threading
import uuid

import pytest
from support import processes
from support.commands import call

from penstock.datasets import Creation, FolderDataset
from penstock.errors import DatasetError
from penstock.extensions.kafka import About, Publisher, TopicAddress, TopicDataset
from penstock.extensions.kafka.publishing import publish

pytestmark = pytest.mark.slow


class TestPublish:
    def test_records_keys_and_headers(self, published, packed):
        source = TopicDataset(published).source("train")
        snapshot = source.snapshot()
        shards = packed.split("train").shards

        assert [len(p) for p in snapshot.partitions] == [shard.records for shard in shards]
        for partition, shard in zip(snapshot.partitions, shards, strict=True):
            records = list(packed.source("train").read(shard.name, 0, shard.records))
            messages = list(source.messages(partition.name, partition.start, partition.stop))
            assert [m.value for m in messages] == [r.payload for r in records]
            assert [m.key for m in messages] == [r.origin.encode() for r in records]
            assert {name for name, _ in messages[0].headers} == {
                "penstock-origin",
                "penstock-digest",
                "penstock-dataset",
            }

    def test_again_sends_nothing(self, published, packed):
        found = publish(packed, published, "train")

        assert (found.records, found.sent) == (21, 0)

    def test_through_the_command_line(self, broker, packed, tmp_path, capsys):
        url = f"kafka://{broker.servers}/cli-{uuid.uuid4().hex[:6]}"
        topic = url.rpartition("/")[2]
        code, _, err = call("publish", packed.folder, url, capsys=capsys)
        assert (code, err.splitlines()[-1]) == (
            2,
            f"error: {url}: expected a topic of that name, found none. Check the name, or publish to it with penstock "
            "publish DIR URL --create.",
        )
        code, out, _ = call("publish", packed.folder, url, "--create", "--retention", 48, capsys=capsys)
        assert (code, out) == (
            0,
            f"train: 21 records in topic {topic}, 21 sent now, all read back\n"
            "  3 partitions, records of at most 16,777,216 bytes, kept for 48 hours\n"
            f"val: 7 records in topic {topic}.val, 7 sent now, all read back\n"
            "  1 partition, records of at most 16,777,216 bytes, kept for 48 hours\n",
        )
        code, out, _ = call("inspect", url, capsys=capsys)
        assert code == 0
        assert out.splitlines()[:4] == [
            f"{url}: segmentation, records in Kafka",
            "classes (6): ground, disk, box, triangle, star, ring",
            "ignore label: 255",
            f"train: 21 offsets in topic {topic}, height x width at most 64 x 96",
        ]
        assert call("verify", url, capsys=capsys)[:2] == (0, "28 records are sound, 0 faults\n")
        assert call("show", url, "-n", 4, "-o", tmp_path / "a.png", capsys=capsys)[0] == 0
        assert (
            call("show", url, "--augmented", "--set", "augment.crop=[32,32]", "-o", tmp_path / "b.png", capsys=capsys)[
                0
            ]
            == 0
        )
        code, out, _ = call("pull", url, "-o", tmp_path / "pulled", "--split", "train", "--split", "val", capsys=capsys)
        assert (code, out) == (
            0,
            f"train: 21 records in 1 shard\nval: 7 records in 1 shard\ndataset {tmp_path}/pulled\n",
        )
        pulled = FolderDataset.open(tmp_path / "pulled")
        theirs, ours = pulled.description.splits["train"], packed.description.splits["train"]
        assert (theirs.per_class, theirs.image_pixels) == (ours.per_class, ours.image_pixels)
        assert call("verify", tmp_path / "pulled", capsys=capsys)[0] == 0
        note = json.loads((tmp_path / "pulled/provenance.json").read_text())["splits"][0]
        assert (note["source"], note["records"], note["offsets_without_a_record"]) == (f"kafka://{topic}", 21, 0)

    def test_records_that_come_without_end_are_sent_as_they_come(self, broker, packed):
        address = TopicAddress(broker.servers, f"camera-{uuid.uuid4().hex[:6]}")
        shard = packed.split("train").shards[0]
        records = list(packed.source("train").read(shard.name, 0, shard.records))
        about = About("segmentation", packed.description.classes)
        with Publisher(address, about, creation=Creation(2)) as publisher:
            for record in records:
                publisher.send(record.origin, record.payload)
            publisher.flush()
            assert publisher.writer.acknowledged == len(records)
        dataset = TopicDataset(address)
        source = dataset.source("train")
        found = [r.payload for p in source.snapshot().partitions for r in source.read(p.name, p.start, p.stop)]

        assert sorted(found) == sorted(r.payload for r in records)
        assert dataset.description.classes == packed.description.classes

    def test_a_camera_that_was_killed_learns_what_arrived(self, broker, packed):
        address = TopicAddress(broker.servers, f"camera-{uuid.uuid4().hex[:6]}")
        about = About("segmentation", packed.description.classes)
        with Publisher(address, about, creation=Creation(3)) as publisher:
            assert publisher.recent() == set()
            for frame in range(30):
                publisher.send(str(frame), b"payload")
        with Publisher(address, about) as publisher:
            assert publisher.recent() == {str(frame) for frame in range(30)}
            assert len(publisher.recent(2)) == 6
            done = threading.Event()

            def write():
                while not done.wait(0.01):
                    publisher.send("more", b"payload")

            thread = threading.Thread(target=write)
            thread.start()
            try:
                assert "more" in Publisher(address, about).recent(5)
            finally:
                done.set()
                thread.join()

    def test_other_records_in_the_topic_are_refused(self, broker, packed):
        topic = broker.topic(3)
        topic.append(b"something")
        with pytest.raises(DatasetError) as caught:
            publish(packed, topic.log.address)
        assert str(caught.value) == (
            f"{topic.log.name}/0: expected an empty partition, or the first records of this dataset, found 1 other "
            "records. Publish to a new topic, with --create."
        )

    def test_records_that_are_too_large_are_named_before_anything_is_lost(self, broker, packed):
        topic = broker.topic(3, max_message_bytes=2000)
        with pytest.raises(
            DatasetError, match=r"expected a record of at most 2,000 bytes, the topic's max\.message\.bytes"
        ):
            publish(packed, topic.log.address)

    def test_a_publishing_that_is_killed_goes_on_without_a_second_copy(self, broker, packed):
        address = TopicAddress(broker.servers, f"killed-{uuid.uuid4().hex[:6]}")
        program = (
            "import os, signal, sys; from pathlib import Path\n"
            "from penstock.datasets import FolderDataset\n"
            "from penstock.extensions.kafka import publishing\n"
            "from penstock.extensions.kafka import TopicAddress\n"
            "from penstock.datasets import Creation\n"
            "from penstock.extensions.kafka.producer import TopicWriter\n"
            "send, left = TopicWriter.send, [int(sys.argv[4])]\n"
            "def dying(self, *a):\n"
            "    send(self, *a); self._producer.flush(0.05 if left[0] % 2 else 5); left[0] -= 1\n"
            "    if not left[0]: os.kill(os.getpid(), signal.SIGKILL)\n"
            "TopicWriter.send = dying\n"
            "publishing.publish(FolderDataset.open(Path(sys.argv[1])), TopicAddress(*sys.argv[2:4]), 'train', Creation(3))\n"
        )
        for after in (2, 5, 1, 4):
            done = processes.run("-c", program, packed.folder, address.servers, address.topic, after)
            assert done.returncode == -signal.SIGKILL, done.stderr
        found = publish(packed, address)

        assert found.records == 21
        assert 0 < found.sent < 21

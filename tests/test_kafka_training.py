"""From shards to a topic to a trained model, through the command line, on a real broker; the same bytes as from shards."""

from __future__ import annotations

import dataclasses
import json
import shutil
import signal
import subprocess
import threading
import time
import uuid

import processes
import pytest
from test_cli import call
from training import Stop, recipe

from penstock.assembly import open_parts
from penstock.datasets import About, FolderDataset, Publisher, TopicDataset
from penstock.datasets.publishing import publish
from penstock.datasets.topic_format import digest
from penstock.errors import DatasetError, PenstockError
from penstock.sources.kafka import Address
from penstock.sources.kafka.producer import Creation, Writer
from penstock.training import resume, train

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def published(broker, packed):
    """The packed dataset in topics of its own."""
    address = Address(broker.servers, f"scenes-{uuid.uuid4().hex[:6]}")
    for split in ("train", "val"):
        publish(packed, address, split, Creation(len(packed.split(split).shards)))
    return address


def weights(folder):
    last = (folder.path / "checkpoints" / "last").resolve()
    return {path.name: path.read_bytes() for path in sorted(last.glob("*.safetensors"))}


def origins(folder):
    return [json.loads(line)["origins"] for line in (folder.path / "origins.jsonl").read_text().splitlines()]


def learning(place, *, block=1, window=1, validation="val", **options):
    chosen = recipe(place, **options)
    data = dataclasses.replace(chosen.data, block=block, window=window, validation=validation)
    return dataclasses.replace(chosen, data=data)


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
        address = Address(broker.servers, f"camera-{uuid.uuid4().hex[:6]}")
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
        address = Address(broker.servers, f"camera-{uuid.uuid4().hex[:6]}")
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
            f"{topic.log.name}/0: expected an empty partition, or what publishing this dataset began, found 1 other "
            "records. Publish to a new topic, with --create."
        )

    def test_records_that_are_too_large_are_named_before_anything_is_lost(self, broker, packed):
        topic = broker.topic(3, max_message_bytes=2000)
        with pytest.raises(
            DatasetError, match=r"expected a record of at most 2,000 bytes, the topic's max\.message\.bytes"
        ):
            publish(packed, topic.log.address)

    def test_a_publishing_that_is_killed_goes_on_without_a_second_copy(self, broker, packed):
        address = Address(broker.servers, f"killed-{uuid.uuid4().hex[:6]}")
        program = (
            "import os, signal, sys; from pathlib import Path\n"
            "from penstock.datasets import FolderDataset, publishing\n"
            "from penstock.sources.kafka import Address\n"
            "from penstock.sources.kafka.producer import Creation, Writer\n"
            "send, left = Writer.send, [int(sys.argv[4])]\n"
            "def dying(self, *a):\n"
            "    send(self, *a); self._producer.flush(0.05 if left[0] % 2 else 5); left[0] -= 1\n"
            "    if not left[0]: os.kill(os.getpid(), signal.SIGKILL)\n"
            "Writer.send = dying\n"
            "publishing.publish(FolderDataset.open(Path(sys.argv[1])), Address(*sys.argv[2:4]), 'train', Creation(3))\n"
        )
        for after in (2, 5, 1, 4):
            done = processes.run("-c", program, packed.folder, address.servers, address.topic, after)
            assert done.returncode == -signal.SIGKILL, done.stderr
        found = publish(packed, address)

        assert found.records == 21
        assert 0 < found.sent < 21


class TestOthers:
    """Other programs on the same topics."""

    @pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed")
    def test_kcat_reads_what_was_published(self, published, packed):
        command = ["kcat", "-b", published.servers, "-t", published.topic, "-C", "-e", "-q", "-f", "%p %o %k %S %h\\n"]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
        shards = packed.split("train").shards
        expected = {
            f"{number} {offset} {record.origin} {len(record.payload)}": digest(record.payload).decode()
            for number, shard in enumerate(shards)
            for offset, record in enumerate(packed.source("train").read(shard.name, 0, shard.records))
        }
        found = {line.partition(" penstock-")[0]: line for line in done.stdout.splitlines()}

        assert found.keys() == expected.keys()
        for place, line in found.items():
            assert f"penstock-digest={expected[place]}" in line

    def test_what_another_producer_wrote_in_the_documented_format_trains(self, broker, packed, tmp_path):
        topic = broker.topic()
        about = b'{"task": "segmentation", "classes": ["ground", "disk", "box", "triangle", "star", "ring"]}'
        (first, *others) = packed.split("train").shards
        for shard in (first, *others):
            for record in packed.source("train").read(shard.name, 0, shard.records):
                topic.append(record.payload, headers=[("penstock-dataset", about)])
        with topic.transaction(commit=False):
            topic.append(b"aborted")
        run, outcome = train(learning(topic.log.address, validation="", steps=12), tmp_path)

        assert outcome.status == "finished"
        seen = [origin for step in origins(run) for origin in step]
        records = {f"{topic.log.name}/0#{offset}" for offset in range(21)}
        # What was aborted and the marker behind it take two offsets, and are positions without a record.
        assert set(seen[:23]) == records | {f"{topic.log.name}/0#{offset} (blank)" for offset in (21, 22)}

    def test_a_training_reads_from_and_until_where_its_recipe_says(self, published, packed, tmp_path):
        chosen = learning(published, validation="", steps=4)
        data = dataclasses.replace(chosen.data, start="0:1,1:3,2:0", until="0:4,1:6,2:2")
        run, _ = train(dataclasses.replace(chosen, data=data), tmp_path)
        seen = {origin for step in origins(run) for origin in step}

        assert seen == {
            f"{published.topic}/{place}" for place in ["0#1", "0#2", "0#3", "1#3", "1#4", "1#5", "2#0", "2#1"]
        }

    def test_a_topic_that_does_not_say_what_it_holds_is_named(self, broker, tmp_path):
        topic = broker.topic()
        topic.append(b"something")
        with pytest.raises(DatasetError) as caught:
            train(learning(topic.log.address), tmp_path)
        assert str(caught.value) == (
            f"kafka://{topic.log.name}: expected a header penstock-dataset in the first record, that names task and "
            "classes, found none. Publish with penstock publish, or add the header where the records are produced "
            "(docs/kafka.md)."
        )

    @pytest.mark.parametrize("payload", [b"nonsense", b""])
    def test_records_that_are_none_are_named_by_training_and_by_verify(self, broker, packed, tmp_path, payload, capsys):
        topic = broker.topic()
        about = [("penstock-dataset", b'{"task": "segmentation", "classes": ["a", "b"]}')]
        topic.append(payload, headers=about)
        place = f"{topic.log.name}/0#0"
        with pytest.raises(PenstockError, match=f"^{place}: expected "):
            train(learning(topic.log.address, validation=""), tmp_path)
        code, out, _ = call("verify", str(topic.log.address), capsys=capsys)
        assert code == 1, out
        assert f"{place}: expected " in out


class TestTraining:
    def test_weights_are_those_of_training_from_shards(self, published, packed, tmp_path):
        options = {"steps": 12, "block": 4, "window": 2, "log_origins": True}
        shards, _ = train(learning(packed.folder, **options), tmp_path / "a")
        topic, _ = train(learning(published, **options), tmp_path / "b")

        assert weights(topic) == weights(shards)
        assert (topic.path / "metrics.jsonl").read_bytes() == (shards.path / "metrics.jsonl").read_bytes()
        names = {shard.name: f"{published.topic}/{i}" for i, shard in enumerate(packed.split("train").shards)}
        renamed = [[f"{names[o.partition('#')[0]]}#{o.partition('#')[2]}" for o in step] for step in origins(shards)]
        assert origins(topic) == renamed

    def test_a_resumed_run_reads_the_snapshot_it_began_with(self, broker, packed, tmp_path):
        address = Address(broker.servers, f"grows-{uuid.uuid4().hex[:6]}")
        for split in ("train", "val"):
            publish(packed, address, split, Creation(1))
        whole, _ = train(learning(address), tmp_path / "whole")

        stopped, _ = train(learning(address), tmp_path / "stopped", hooks=[Stop(5)])
        record = next(iter(packed.source("train").read(packed.split("train").shards[0].name, 0, 1)))
        with Writer(address) as writer:
            writer.send(record.payload, b"new", partition=0)
        assert len(open_parts(learning(address)).plan) == 22
        resume(stopped.path)

        assert weights(stopped) == weights(whole)
        assert origins(stopped) == origins(whole)

    def test_retention_is_an_error_before_training_starts(self, broker, packed, tmp_path):
        address = Address(broker.servers, f"short-{uuid.uuid4().hex[:6]}")
        publish(packed, address, "train", Creation(1, retention_hours=24))
        run, _ = train(learning(address, steps=2, validation=""), tmp_path)
        from confluent_kafka import TopicPartition

        place = TopicPartition(address.topic, 0, 3)
        broker.admin.delete_records([place])[place].result(30)
        with pytest.raises(
            PenstockError,
            match=r"/0: expected offsets from 0 on, found that 0 to 2 are deleted \(the topic keeps records for 24 hours\)",
        ):
            resume(run.path, ["train.steps=4"])

    def test_the_command_line_trains_evaluates_and_replays(self, published, tmp_path, capsys):
        words = ["--model", "unet:test_resnet", "--weights", "none", "--batch", 4, "--crop", 32, 32, "--steps", 3]
        code, out, err = call("train", str(published), *words, "--runs", tmp_path, "--until", "0:5", capsys=capsys)
        assert code == 0, err
        (run,) = tmp_path.iterdir()
        assert call("evaluate", run, capsys=capsys)[0] == 0
        code, out, _ = call("replay", run, "--step", 2, capsys=capsys)
        assert code == 0
        assert f"({published.topic}/" in out
        assert 'until = "0:5"' in (run / "recipe.toml").read_text()


@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks_share_a_topic_and_a_killed_run_goes_on_with_another_number(published, packed, tmp_path, ranks):
    """Killed by SIGKILL in the middle, resumed at another world size: the global batches follow as if nothing had been."""
    options = {
        "steps": 30,
        "block": 4,
        "window": 2,
        "log_origins": True,
        "save_every": 2,
        "evaluate_every": 100,
        "batch": 6,
    }
    whole, _ = train(learning(published, **options), tmp_path / "whole")
    (tmp_path / "recipe.toml").write_text((whole.path / "recipe.toml").read_text())
    runs = tmp_path / "runs"
    first = processes.Ranks(ranks, ["-m", "penstock", "train", tmp_path / "recipe.toml", "--runs", runs])
    end = time.monotonic() + 120
    while not list(runs.glob("*/checkpoints/step-*4")) and time.monotonic() < end:
        time.sleep(0.01)
    first.kill()
    (run,) = runs.iterdir()
    assert not (run / "report.html").exists()
    assert (run / "events.jsonl").read_text().count("\n") == 1, "it ended before it was killed"
    done = processes.ranks(4 - ranks if ranks == 3 else 3, "-m", "penstock", "train", "--resume", run)

    assert done.returncode == 0, done.stdout + done.stderr
    assert (run / "origins.jsonl").read_text() == (whole.path / "origins.jsonl").read_text()

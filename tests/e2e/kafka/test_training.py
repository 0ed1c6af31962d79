from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
import time
import uuid

import pytest
from support import processes
from support.commands import call
from support.training import Stop, recipe

from penstock.assembly import open_experiment
from penstock.datasets import Creation
from penstock.errors import DatasetError, PenstockError
from penstock.extensions.kafka import TopicAddress
from penstock.extensions.kafka.producer import TopicWriter
from penstock.extensions.kafka.publishing import publish
from penstock.extensions.kafka.topic_format import digest
from penstock.training import resume, train

pytestmark = pytest.mark.slow


def weights(folder):
    last = (folder.path / "checkpoints" / "last").resolve()
    return {path.name: path.read_bytes() for path in sorted(last.glob("*.safetensors"))}


def origins(folder):
    return [json.loads(line)["origins"] for line in (folder.path / "origins.jsonl").read_text().splitlines()]


def learning(place, *, block=1, window=1, validation="val", **options):
    chosen = recipe(place, **options)
    data = dataclasses.replace(chosen.data, block=block, shuffle_window=window, validation=validation)
    return dataclasses.replace(chosen, data=data)


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
        address = TopicAddress(broker.servers, f"grows-{uuid.uuid4().hex[:6]}")
        for split in ("train", "val"):
            publish(packed, address, split, Creation(1))
        whole, _ = train(learning(address), tmp_path / "whole")

        stopped, _ = train(learning(address), tmp_path / "stopped", hooks=[Stop(5)])
        record = next(iter(packed.source("train").read(packed.split("train").shards[0].name, 0, 1)))
        with TopicWriter(address) as writer:
            writer.send(record.payload, b"new", partition=0)
        assert len(open_experiment(learning(address)).plan) == 22
        resume(stopped.path)

        assert weights(stopped) == weights(whole)
        assert origins(stopped) == origins(whole)

    def test_retention_is_an_error_before_training_starts(self, broker, packed, tmp_path):
        address = TopicAddress(broker.servers, f"short-{uuid.uuid4().hex[:6]}")
        publish(packed, address, "train", Creation(1, retention_hours=24))
        run, _ = train(learning(address, steps=2, validation=""), tmp_path)
        from confluent_kafka import TopicPartition

        place = TopicPartition(address.topic, 0, 3)
        broker.admin.delete_records([place])[place].result(30)
        with pytest.raises(
            PenstockError,
            match=r"/0: the offsets 0 to 2 are needed, but deleted \(the topic keeps records for 24 hours\)",
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


@pytest.mark.parametrize("ranks", [2, pytest.param(3, marks=pytest.mark.soak)])
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

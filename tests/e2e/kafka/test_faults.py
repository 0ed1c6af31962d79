"""Brokers that are killed, paused and cut off: readers wait, say so, go on, and lose nothing."""

from __future__ import annotations

import dataclasses
import os
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from support import broker as brokers
from support import processes
from support.processes import quiet
from support.proxy import Proxy
from support.training import Stop, recipe, state
from support.worlds import RealWorld

from penstock.datasets import Creation, PackOptions, inspect, pack
from penstock.errors import SourceError
from penstock.extensions.kafka import KafkaLog, KafkaSource, TopicAddress
from penstock.extensions.kafka.publishing import publish
from penstock.session import Hook
from penstock.training import resume, train

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Three nodes of our own, to be treated badly."""
    need_broker()
    with brokers.Cluster(tmp_path_factory.mktemp("three"), nodes=3) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def filled(cluster):
    """A topic of 3 partitions on all nodes, with 400 records each."""
    world = RealWorld(cluster.servers)
    topic = world.topic(3)
    for partition in range(3):
        topic.append(*[b"%d/%d" % (partition, i) + bytes(2000) for i in range(400)], partition=partition)
    yield topic
    world.close()


def leader(topic, partition):
    """The node that leads a partition."""
    about = topic.world.admin.list_topics(topic.log.name, timeout=20).topics[topic.log.name]
    return about.partitions[partition].leader - 1


class Reading:
    """A whole pass over the topic in a thread of its own, in small steps."""

    def __init__(self, topic, timeout=60.0):
        self.log = KafkaLog(TopicAddress(topic.world.servers, topic.log.name), timeout)
        self.source = KafkaSource(self.log, block=8, memory=0)
        self.found, self.error = [], None
        self.snapshot = self.source.snapshot()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        try:
            for partition in self.snapshot.partitions:
                for record in self.source.read(partition.name, partition.start, partition.stop):
                    self.found.append(record)
                    time.sleep(0.002)
        except SourceError as error:
            self.error = error

    def until(self, count, seconds=60):
        end = time.monotonic() + seconds
        while len(self.found) < count and self.thread.is_alive():
            assert time.monotonic() < end
            time.sleep(0.01)

    def exact(self):
        self.thread.join(120)
        assert self.error is None, str(self.error)
        expected = [(p, o) for p in range(3) for o in range(400)]
        assert [tuple(map(int, r.payload.split(b"\0")[0].split(b"/"))) for r in self.found] == expected
        self.log.close()


def test_a_killed_leader_is_waited_for_and_another_takes_over(cluster, filled):
    reading = Reading(filled)
    reading.until(30)
    node = cluster.nodes[leader(filled, 0)]
    node.kill()
    reading.until(300)
    node.restart()
    reading.exact()


@pytest.mark.soak  # one that is killed is waited for above
def test_a_paused_leader_is_waited_for(cluster, filled):
    reading = Reading(filled)
    reading.until(30)
    node = cluster.nodes[leader(filled, 0)]
    node.signal(signal.SIGSTOP)
    time.sleep(6)
    node.signal(signal.SIGCONT)
    reading.exact()


def test_a_cluster_that_goes_away_altogether_and_comes_back(cluster, filled, caplog):
    reading = Reading(filled)
    reading.until(30)
    for node in cluster.nodes:
        node.kill()
    time.sleep(8)
    assert any("waiting for" in message for message in caplog.messages)
    for node in cluster.nodes:
        node.start()
    for node in cluster.nodes:
        node.wait()
    reading.exact()


def test_a_stall_past_the_limit_is_an_error_with_a_name(cluster, filled):
    reading = Reading(filled, timeout=4.0)
    reading.until(30)
    for node in cluster.nodes:
        node.signal(signal.SIGSTOP)
    reading.thread.join(60)
    for node in cluster.nodes:
        node.signal(signal.SIGCONT)

    assert not reading.thread.is_alive()
    message = str(reading.error)
    assert message.startswith(f"{filled.log.name}/")
    assert " within 4 seconds, found nothing (" in message
    assert message.endswith("Bring the broker back, then go on with --resume; no record is lost.")
    reading.log.close()


def test_a_range_that_does_not_come_within_the_limit_is_an_error_with_a_name(cluster, filled):
    log = KafkaLog(TopicAddress(filled.world.servers, filled.log.name), timeout=4.0)
    log.fetch(0, 0, 8)
    with ThreadPoolExecutor(1) as pool:
        for node in cluster.nodes:
            node.signal(signal.SIGSTOP)
        try:
            error = pool.submit(log.fetch, 1, 0, 8).exception(30)
        finally:
            for node in cluster.nodes:
                node.signal(signal.SIGCONT)

    assert str(error).startswith(f"{filled.log.name}/1: expected offset 0 within 4 seconds, found nothing (")
    log.close()


def test_a_reader_that_is_forked_reads_on(cluster, filled):
    program = (
        "import os, sys\n"
        "from penstock.extensions.kafka import TopicAddress, KafkaLog, KafkaSource\n"
        "source = KafkaSource(KafkaLog(TopicAddress(*sys.argv[1:3])), memory=0)\n"
        "name = source.snapshot().partitions[0].name\n"
        "read = lambda: [r.payload[:5] for r in source.read(name, 100, 164)]\n"
        "mine = read()\n"
        "child = os.fork()\n"
        "if not child: sys.exit(0 if read() == mine else 3)\n"
        "status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])\n"
        "assert read() == mine\n"
        "sys.exit(status)"
    )
    command = [sys.executable, "-c", program, filled.world.servers, filled.log.name]
    assert subprocess.run(command, check=False, timeout=60).returncode == 0


def test_closing_ends_its_threads(cluster, filled):
    before = threading.active_count()
    log = KafkaLog(TopicAddress(filled.world.servers, filled.log.name))
    log.fetch(0, 0, 400)
    log.close()

    assert threading.active_count() == before
    assert len(log.fetch(0, 0, 4)) == 4
    log.close()


class Pause(Hook):
    """Stops the broker at one point of a training, and presses Ctrl-C where nothing can come any more."""

    def __init__(self, node, point):
        self.node, self.point = node, point

    def on_start(self, session):
        if self.point == "training":
            self.pause()

    def after_step(self, session):
        if self.point == "evaluation" and session.step == session.options.evaluate_every:
            self.pause()

    def pause(self):
        self.node.signal(signal.SIGSTOP)
        threading.Timer(2, os.kill, (os.getpid(), signal.SIGINT)).start()


@pytest.mark.parametrize(("point", "step"), [("training", 2), pytest.param("evaluation", 4, marks=pytest.mark.soak)])
def test_ctrl_c_is_heard_while_a_broker_is_away(tmp_path, raw, point, step):
    """Nothing is lost by it: the run goes on to the same bytes."""
    need_broker()
    dataset = pack(inspect(raw), tmp_path / "data", PackOptions(shard_bytes=6000))  # val in two partitions, one unread
    assert len(dataset.split("val").shards) > 1
    with brokers.Cluster(tmp_path / "one", nodes=1) as cluster:
        address = TopicAddress(cluster.servers, "away")
        for split in ("train", "val"):
            publish(dataset, address, split, Creation(2))
        chosen = recipe(address)
        chosen = dataclasses.replace(chosen, data=dataclasses.replace(chosen.data, block=1, shuffle_window=1))
        whole, _ = train(chosen, tmp_path, "whole")
        cut, _ = train(chosen, tmp_path, "cut", hooks=[Stop(2)])
        _, outcome = resume(cut.path, hooks=[Pause(cluster.nodes[0], point)])
        cluster.nodes[0].signal(signal.SIGCONT)

        assert (outcome.status, outcome.step) == ("interrupted", step)
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("penstock-feed")]
        resume(cut.path)
    assert state(cut.path) == state(whole.path)


def need_broker():
    if reason := brokers.missing():
        if os.environ.get("PENSTOCK_REQUIRE_KAFKA"):
            pytest.fail(f"no Kafka brokers: {reason}")
        pytest.skip(f"no Kafka brokers: {reason}")


@pytest.mark.soak  # a cluster that goes away altogether is waited for above
def test_connections_that_are_reset_or_cut_are_waited_for(tmp_path):
    need_broker()
    with Proxy() as proxy, brokers.Cluster(tmp_path, advertised=proxy.port) as cluster:
        proxy.target = cluster.nodes[0].port
        world = RealWorld(f"127.0.0.1:{proxy.port}")
        topic = world.topic(3)
        for partition in range(3):
            topic.append(*[b"%d/%d" % (partition, i) + b"\0" * 2000 for i in range(400)], partition=partition)
        reading = Reading(topic)
        for count in (50, 120, 300):
            reading.until(count)
            proxy.reset()
        reading.until(500)
        proxy.cut()
        time.sleep(3)
        proxy.heal()
        reading.exact()
        world.close()


def test_tls_and_sasl_by_properties_and_no_secret_anywhere(tmp_path, packed):
    """Publish and train over TLS with SCRAM, then look for the password in all that was written and printed."""
    need_broker()
    password = "hunter2-and-more"
    with brokers.Cluster(tmp_path / "kafka", user="trainer", password=password) as cluster:
        file = tmp_path / "client.properties"
        file.write_text(
            "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-256\nsasl.username=trainer\n"
            f"ssl.ca.location={cluster.nodes[0].home}/ca.pem\n"
        )
        url = f"kafka://{cluster.secure}/secret"
        settings = {"PENSTOCK_KAFKA_PROPERTIES": str(file), "PENSTOCK_KAFKA_SASL_PASSWORD": password}
        words = [
            "--model",
            "unet:test_resnet",
            "--weights",
            "none",
            "--batch",
            "4",
            "--crop",
            "32",
            "32",
            "--steps",
            "2",
        ]
        runs = tmp_path / "runs"

        def penstock(*arguments, **more):
            return processes.run("-m", "penstock", *arguments, env={**quiet(), **settings, **more}, timeout=120)

        done = [
            penstock("publish", str(packed.folder), url, "--create"),
            penstock("train", url, *words, "--runs", str(runs)),
        ]
        wrong = penstock("verify", url, PENSTOCK_KAFKA_SASL_PASSWORD="wrong")
        token = penstock(
            "verify",
            url,
            PENSTOCK_KAFKA_SASL_MECHANISM="OAUTHBEARER",
            PENSTOCK_KAFKA_SASL_OAUTHBEARER_CONFIG="principal=trainer",
            PENSTOCK_KAFKA_ENABLE_SASL_OAUTHBEARER_UNSECURE_JWT="true",
        )

    assert [(one.returncode, one.stderr[-500:]) for one in done if one.returncode] == []
    assert (token.returncode, token.stdout) == (0, "28 records are sound, 0 faults\n"), token.stderr
    assert wrong.returncode == 2
    assert re.sub(r"sasl_ssl://\S+: | \(after \d+ms[^)]*\)", "", wrong.stderr) == (
        f"error: kafka://{cluster.secure}: the broker refuses the credentials (SASL authentication error: Authentication failed "
        "during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256). Check user and password in "
        "PENSTOCK_KAFKA_PROPERTIES, or in the PENSTOCK_KAFKA_... variables.\n"
    )
    shown = "".join(one.stdout + one.stderr for one in (*done, wrong)).encode()
    written = b"".join(path.read_bytes() for path in runs.rglob("*") if path.is_file())
    assert password.encode() not in shown + written
    assert len(written) > 10_000

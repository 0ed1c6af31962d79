"""The same deeds done to a fake topic and to one of a real cluster, so that one suite can hold both to one word."""

from __future__ import annotations

import contextlib
import time
import uuid

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from penstock.extensions.kafka import FakeLog, KafkaLog, TopicAddress


class FakeWorld:
    """Topics in memory."""

    real = False

    def topic(self, partitions=1, **settings):
        log = FakeLog(f"t-{uuid.uuid4().hex[:8]}", partitions)
        log.settings.update({key.replace("_", "."): str(value) for key, value in settings.items()})
        return FakeTopic(log)


class FakeTopic:
    def __init__(self, log):
        self.log = log

    def append(self, *values, partition=0, key=None, headers=(), milliseconds=0):
        for value in values:
            self.log.append(value, partition, key=key, headers=headers, milliseconds=milliseconds)

    @contextlib.contextmanager
    def transaction(self, *, commit=True, partition=0):
        self.log.open_transaction(partition)
        yield
        (self.log.commit if commit else self.log.abort)(partition)

    def committed(self, group):
        return {number: offset for (name, number), offset in self.log.committed.items() if name == group}

    def expire(self, low, partition=0):
        self.log.expire(partition, low)

    def recreate(self):
        self.log.recreate()

    def grow(self, partitions):
        self.log.grow(partitions)


class RealWorld:
    """Topics of a cluster."""

    real = True

    def __init__(self, servers):
        self.servers = servers
        self.admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        self.logs = []

    def topic(self, partitions=1, **settings):
        name = f"t-{uuid.uuid4().hex[:8]}"
        self.create(name, partitions, settings)
        log = KafkaLog(TopicAddress(self.servers, name), timeout=30)
        self.logs.append(log)
        return RealTopic(self, log, partitions, settings)

    def create(self, name, partitions, settings):
        config = {key.replace("_", "."): str(value) for key, value in settings.items()}
        new = NewTopic(name, partitions, config=config)
        self.admin.create_topics([new])[name].result(30)
        end = time.monotonic() + 30
        while len(self.admin.list_topics(name, timeout=10).topics[name].partitions) != partitions:
            assert time.monotonic() < end
            time.sleep(0.05)

    def close(self):
        for log in self.logs:
            log.close()


class RealTopic:
    def __init__(self, world, log, partitions, settings):
        self.world, self.log, self.partitions, self.settings = world, log, partitions, settings
        self.producer = self._producer()
        self.writing = self.producer

    def _producer(self, **more):
        options = {"enable.idempotence": True, "message.max.bytes": 16 << 20, "linger.ms": 1, "log_level": 0}
        return Producer({"bootstrap.servers": self.world.servers, **options, **more})

    def append(self, *values, partition=0, key=None, headers=(), milliseconds=0):
        failed = []
        for value in values:
            self.writing.produce(
                self.log.name,
                value,
                key=key,
                partition=partition,
                headers=list(headers),
                timestamp=milliseconds,
                on_delivery=lambda error, _: failed.append(error) if error else None,
            )
        assert self.writing.flush(30) == 0
        assert not failed

    @contextlib.contextmanager
    def transaction(self, *, commit=True, partition=0):
        self.writing = self._producer(**{"transactional.id": uuid.uuid4().hex})
        self.writing.init_transactions(30)
        self.writing.begin_transaction()
        yield
        (self.writing.commit_transaction if commit else self.writing.abort_transaction)(30)
        self.writing = self.producer
        self._settle(partition)

    def _settle(self, partition):
        """Wait until the marker is stable."""
        before, end = -1, time.monotonic() + 10
        while time.monotonic() < end:
            stop = self.log.topic().extents[partition].stop
            if stop == before:
                return
            before = stop
            time.sleep(0.1)

    def committed(self, group):
        prediction = self.world.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
        found = prediction[group].result(30).topic_partitions
        return {place.partition: place.offset for place in found if place.topic == self.log.name}

    def expire(self, low, partition=0):
        place = TopicPartition(self.log.name, partition, low)
        self.world.admin.delete_records([place])[place].result(30)

    def recreate(self):
        self.world.admin.delete_topics([self.log.name])[self.log.name].result(30)
        end = time.monotonic() + 30
        while True:
            try:
                self.world.create(self.log.name, self.partitions, self.settings)
            except KafkaException:
                assert time.monotonic() < end
                time.sleep(0.2)
            else:
                break
        self.producer = self.writing = self._producer()

    def grow(self, partitions):
        self.world.admin.create_partitions([NewPartitions(self.log.name, partitions)])[self.log.name].result(30)
        end = time.monotonic() + 30
        while len(self.log.topic().extents) != partitions:
            assert time.monotonic() < end
            time.sleep(0.05)
        self.producer = self.writing = self._producer()

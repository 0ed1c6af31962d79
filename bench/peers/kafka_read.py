"""Reads a whole topic, in one of several ways: SERVERS TOPIC HOW RECORDS. Prints records per second and peak memory."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from pathlib import Path

servers, topic, how, records = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])


def bare(passes):
    """librdkafka as its examples use it, with the checks that training needs."""
    from confluent_kafka import Consumer, KafkaError, TopicPartition

    settings = {"bootstrap.servers": servers, "group.id": "x", "enable.auto.commit": False, "check.crcs": True}
    settings |= {"auto.offset.reset": "error", "enable.partition.eof": True, "fetch.wait.max.ms": 100}
    settings |= {"max.partition.fetch.bytes": 8 << 20}
    consumer = Consumer(settings)
    numbers = list(consumer.list_topics(topic).topics[topic].partitions)
    for _ in range(passes):
        consumer.assign([TopicPartition(topic, number, 0) for number in numbers])
        seen = ended = 0
        while ended < len(numbers):
            for message in consumer.consume(64, 0.05):
                if message.error() is None:
                    seen += len(message.value()) > 0
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    ended += 1
        yield seen
    consumer.close()


def penstock(passes, order):
    """The feed's threads over a topic, records being only counted."""
    from penstock.feed import Feed, Field
    from penstock.order import Plan
    from penstock.extensions.kafka import TopicAddress, KafkaLog, KafkaSource

    class Count:
        fields = {"size": Field((), "int64")}

        def __call__(self, record, generator, out):
            out["size"][...] = len(record.payload)

    log = KafkaLog(TopicAddress(servers, topic))
    for number in range(passes):
        source = KafkaSource(log)  # without the last pass's blocks
        snapshot = source.snapshot()
        shuffle = shuffled(order, source.record_bytes)
        plan = Plan(snapshot, number, shuffle)
        feed = Feed(plan, source, Count(), batch=32, augment=False, threads=4)
        yield int(sum(batch.weight.sum() for batch in feed.walk()))
    log.close()


def shuffled(order, size):
    """A shuffle from words: none, the one that a training would choose, or bytes of a block and blocks of a window."""
    from penstock.order import Shuffle
    from penstock.extensions.kafka import together

    if order == "natural":
        return None
    if order == "chosen":
        block = together(size, 16 << 20, 1024)
        return Shuffle(block, max(2, min(64, (64 << 20) // (block * size))))
    length, window = (int(part) for part in order.split("/"))
    return Shuffle(max(1, length // size), window)


async def aio(passes):
    from aiokafka import AIOKafkaConsumer, TopicPartition

    consumer = AIOKafkaConsumer(bootstrap_servers=servers, enable_auto_commit=False, max_partition_fetch_bytes=8 << 20)
    await consumer.start()
    await consumer._client.force_metadata_update()
    numbers = sorted(
        await consumer._client.fetch_all_metadata() and consumer._client.cluster.partitions_for_topic(topic)
    )
    places = [TopicPartition(topic, number) for number in numbers]
    consumer.assign(places)
    rates = []
    for _ in range(passes):
        began = time.perf_counter()
        for place in places:
            consumer.seek(place, 0)
        seen = 0
        while seen < records:
            found = await consumer.getmany(timeout_ms=500)
            seen += sum(len(messages) for messages in found.values())
        rates.append(seen / (time.perf_counter() - began))
    await consumer.stop()
    return rates


def pure(passes):
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=servers, enable_auto_commit=False, max_partition_fetch_bytes=8 << 20)
    places = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic)]
    consumer.assign(places)
    for _ in range(passes):
        for place in places:
            consumer.seek(place, 0)
        seen = 0
        while seen < records:
            seen += sum(len(messages) for messages in consumer.poll(500).values())
        yield seen
    consumer.close()


def timed(passes):
    rates, began = [], time.perf_counter()
    for seen in passes:
        assert seen == records, (seen, records)
        rates.append(seen / (time.perf_counter() - began))
        began = time.perf_counter()
    return rates


def peak():
    """Most memory that this process held, in MiB (getrusage would say the parent's, if that held more)."""
    return int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]) >> 10


def main():
    if how == "bare":
        rates = timed(bare(3))
    elif how == "aiokafka":
        rates = asyncio.run(aio(3))
    elif how == "kafka-python":
        rates = timed(pure(3))
    else:
        rates = timed(penstock(3, how))
    print(json.dumps({"rates": rates[1:], "memory": peak()}))


if __name__ == "__main__":
    main()

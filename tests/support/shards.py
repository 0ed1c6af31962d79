"""Shards of given payloads."""

from __future__ import annotations

from penstock.records import ShardWriter, open_shard


def write(path, items):
    with ShardWriter(path) as writer:
        for item in items:
            writer.write(item)
    return path


def payloads_of(path):
    shard = open_shard(path)
    return [record.payload for record in shard.read(0, len(shard))]

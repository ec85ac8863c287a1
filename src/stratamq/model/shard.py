"""Shards: what they are called, what they are configured with, where their ends are."""

from __future__ import annotations

from typing import NamedTuple

from stratamq.model.types import Offset, ShardName, TopicId


def shard_name(topic_id: TopicId, partition: int) -> ShardName:
    return ShardName(f"{topic_id}_{partition}")


def split_shard_name(name: ShardName) -> tuple[TopicId, int]:
    topic_id, _, partition = name.rpartition("_")
    return TopicId(topic_id), int(partition)


class ShardOffsets(NamedTuple):
    """start <= high_watermark <= end. Consumers see start..high_watermark - 1."""

    start: Offset
    high_watermark: Offset
    end: Offset

"""From the topics and partitions of a request to shards and back."""

from __future__ import annotations

from typing import NamedTuple

from stratamq.meta.topics import BrokerCacheManager
from stratamq.model.errors import TopicNotFound
from stratamq.model.shard import shard_name, split_shard_name
from stratamq.model.topic import Topic
from stratamq.model.types import ShardName, TopicId
from stratamq.wire.kafka.protocol import NO_UUID, ErrorCode


class Place(NamedTuple):
    """Where a partition is, or why it is nowhere."""

    shard: ShardName | None
    error: ErrorCode = ErrorCode.NONE


class Places:
    """Topics are named by id where the version does so, else by name."""

    def __init__(self, cache: BrokerCacheManager, *, by_id: bool) -> None:
        self._cache = cache
        self._by_id = by_id

    def topic(self, name: str, topic_id: bytes) -> Topic | None:
        try:
            if self._by_id:
                return self._cache.topic_by_id(TopicId(topic_id.hex()))
            return self._cache.topic(name)
        except TopicNotFound:
            return None

    def place(self, topic: Topic | None, partition: int) -> Place:
        if topic is None and self._by_id:
            return Place(None, ErrorCode.UNKNOWN_TOPIC_ID)
        if topic is None or not 0 <= partition < topic.partitions:
            return Place(None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return Place(shard_name(topic.topic_id, partition))

    def names(self, topic: Topic) -> dict[str, str | bytes]:
        """The fields by which a response names a topic."""
        if self._by_id:
            return {"topic_id": bytes.fromhex(topic.topic_id)}
        return {"name": topic.name}

    def owner(self, shard: ShardName) -> tuple[Topic, int] | None:
        topic_id, partition = split_shard_name(shard)
        try:
            return self._cache.topic_by_id(topic_id), partition
        except TopicNotFound:
            return None


def wire_id(topic: Topic | None) -> bytes:
    return NO_UUID if topic is None else bytes.fromhex(topic.topic_id)

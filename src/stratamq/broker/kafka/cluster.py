"""The cluster as the metadata has it: brokers, topics, and who leads and holds each partition."""

from __future__ import annotations

import base64
import os
from collections.abc import Sequence
from typing import NamedTuple

from stratamq.broker.kafka.contract import Services
from stratamq.broker.kafka.errors import Refused
from stratamq.meta.nodes import NodeMeta
from stratamq.meta.segments import SegmentMeta
from stratamq.meta.shards import StorageCacheManager
from stratamq.meta.state import MetaState
from stratamq.meta.topics import BrokerCacheManager
from stratamq.model.entropy import Entropy, random_uuid
from stratamq.model.errors import TopicNotFound
from stratamq.model.shard import shard_name, split_shard_name
from stratamq.model.topic import Topic
from stratamq.model.types import NO_EPOCH, NodeId, ShardName, TopicId
from stratamq.wire.kafka.protocol import NO_UUID, ErrorCode

NO_NODE = -1


class Broker(NamedTuple):
    node_id: NodeId
    host: str
    port: int


def new_cluster_id(entropy: Entropy = os.urandom) -> str:
    """A random UUID in 22 characters, as Kafka writes its own."""
    return base64.urlsafe_b64encode(random_uuid(entropy).bytes).decode().rstrip("=")


def brokers(state: MetaState) -> Sequence[Broker]:
    """The live nodes, each at the address it registered for clients."""
    return [_broker(state.nodes[node]) for node in state.live_nodes()]


def all_brokers(state: MetaState) -> Sequence[Broker]:
    """Also those that are not live now."""
    return [_broker(state.nodes[node]) for node in sorted(state.nodes)]


def controller(state: MetaState) -> int:
    """Any live node will do: each passes changes on to the Meta Service."""
    return min(state.live_nodes(), default=NO_NODE)


def _broker(node: NodeMeta) -> Broker:
    host, _, port = node.address.rpartition(":")
    return Broker(node.node_id, host.strip("[]"), int(port) if port.isdigit() else 0)


# -- topics and partitions -------------------------------------------------------------------------


def uuid_of(topic: Topic) -> bytes:
    """The topic's id as the wire has it."""
    return bytes.fromhex(topic.topic_id)


def find_topic(cache: BrokerCacheManager, name: str, topic_id: bytes = NO_UUID) -> Topic:
    """By id where there is one, by name otherwise."""
    if topic_id == NO_UUID:
        return cache.topic(name)
    try:
        return cache.topic_by_id(TopicId(topic_id.hex()))
    except TopicNotFound:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_ID) from None


class FoundShard(NamedTuple):
    """The shard of a partition, or why there is none."""

    shard: ShardName | None
    error: ErrorCode = ErrorCode.NONE


class ShardLookup:
    """From the topics and partitions of a request to shards and back. Topics are named by id where
    the version of the API does so, else by name."""

    def __init__(self, cache: BrokerCacheManager, *, by_id: bool) -> None:
        self._cache = cache
        self._by_id = by_id

    def topic(self, name: str, topic_id: bytes = NO_UUID) -> Topic | None:
        try:
            if self._by_id:
                return self._cache.topic_by_id(TopicId(topic_id.hex()))
            return self._cache.topic(name)
        except TopicNotFound:
            return None

    def shard(self, topic: Topic | None, partition: int) -> FoundShard:
        if topic is None and self._by_id:
            return FoundShard(None, ErrorCode.UNKNOWN_TOPIC_ID)
        if topic is None or not 0 <= partition < topic.partitions:
            return FoundShard(None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return FoundShard(shard_name(topic.topic_id, partition))

    def partition(self, shard: ShardName) -> tuple[Topic, int] | None:
        """The topic and partition number of a shard; None where the topic is gone."""
        topic_id, partition = split_shard_name(shard)
        try:
            return self._cache.topic_by_id(topic_id), partition
        except TopicNotFound:
            return None


class PartitionState(NamedTuple):
    """Who leads a partition and who holds replicas of it, as answers report it."""

    error: ErrorCode
    leader: int
    epoch: int
    replicas: Sequence[int]
    isr: Sequence[int]
    offline: Sequence[int]


def partition_state(services: Services, topic: Topic, partition: int) -> PartitionState:
    segment = active_segment(services.storage_cache, topic, partition)
    if segment is None or segment.leader is None:
        replicas = () if segment is None else segment.replicas
        return PartitionState(
            ErrorCode.LEADER_NOT_AVAILABLE, NO_NODE, NO_EPOCH, replicas, (), offline=replicas
        )
    nodes = services.meta.state.nodes
    offline = [
        node for node in segment.replicas if (known := nodes.get(node)) is None or not known.live
    ]
    return PartitionState(
        ErrorCode.NONE,
        segment.leader,
        segment.leader_epoch,
        segment.replicas,
        segment.isr,
        offline,
    )


def active_segment(shards: StorageCacheManager, topic: Topic, partition: int) -> SegmentMeta | None:
    """The segment that is being written: it has the leader and the replicas."""
    entry = shards.shard(shard_name(topic.topic_id, partition))
    return None if entry is None else entry.active

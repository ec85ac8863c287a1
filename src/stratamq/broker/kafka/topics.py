"""Topics and partitions, as requests name them: by name, by id, by leader epoch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from stratamq.broker.kafka.cluster import NOBODY
from stratamq.broker.kafka.contract import Services
from stratamq.meta.caches import BrokerCacheManager
from stratamq.meta.entities import SegmentMeta
from stratamq.model.errors import StrataError, TopicNotFound
from stratamq.model.shard import shard_name
from stratamq.model.topic import Topic
from stratamq.model.types import NO_EPOCH, TopicId
from stratamq.wire.kafka.protocol import NO_UUID, ErrorCode


class Refused(StrataError):
    """What was asked for cannot be done; `code` is the whole answer."""

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        super().__init__(message or code.text)
        self.code = code


def uuid_of(topic: Topic) -> bytes:
    """The topic's id as the wire has it."""
    return bytes.fromhex(topic.topic_id)


def find(cache: BrokerCacheManager, name: str, topic_id: bytes = NO_UUID) -> Topic:
    """By id where there is one, by name otherwise."""
    if topic_id == NO_UUID:
        return cache.topic(name)
    try:
        return cache.topic_by_id(TopicId(topic_id.hex()))
    except TopicNotFound:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_ID) from None


def lead(services: Services, topic: Topic, partition: int, client_epoch: int = -1) -> int:
    """The leader epoch under which this node leads the partition.

    Refused when it does not, or when the client says it knows another epoch.
    """
    if not 0 <= partition < topic.partitions:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    segment = active(services, topic, partition)
    if segment is None:
        return NO_EPOCH
    if segment.leader != services.node_id:
        raise Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    check_epoch(segment.leader_epoch, client_epoch)
    return segment.leader_epoch


def check_epoch(epoch: int, client_epoch: int) -> None:
    """Refuse a client that says it knows another leader epoch; -1 says nothing."""
    if client_epoch >= 0 and client_epoch != epoch:
        raise Refused(
            ErrorCode.FENCED_LEADER_EPOCH
            if client_epoch < epoch
            else ErrorCode.UNKNOWN_LEADER_EPOCH
        )


class Standing(NamedTuple):
    """Who leads a partition and who holds it, as clients are told."""

    error: ErrorCode
    leader: int
    epoch: int
    replicas: Sequence[int]
    isr: Sequence[int]
    offline: Sequence[int]


def standing(services: Services, topic: Topic, partition: int) -> Standing:
    segment = active(services, topic, partition)
    if segment is None or segment.leader is None:
        replicas = () if segment is None else segment.replicas
        return Standing(
            ErrorCode.LEADER_NOT_AVAILABLE, NOBODY, NO_EPOCH, replicas, (), offline=replicas
        )
    nodes = services.meta.state.nodes
    offline = [
        node for node in segment.replicas if (known := nodes.get(node)) is None or not known.live
    ]
    return Standing(
        ErrorCode.NONE,
        segment.leader,
        segment.leader_epoch,
        segment.replicas,
        segment.isr,
        offline,
    )


def active(services: Services, topic: Topic, partition: int) -> SegmentMeta | None:
    """The segment that is being written: it has the leader and the replicas."""
    entry = services.storage_cache.shard(shard_name(topic.topic_id, partition))
    return None if entry is None else entry.active

"""What classic consumers say and hear inside JoinGroup and SyncGroup, as topics and partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from stratamq.broker.kafka.groups.classic.members import Protocol
from stratamq.broker.kafka.groups.consumer.members import Partition, Partitions, TopicInfo
from stratamq.wire.kafka.protocol import decode_embedded, encode_embedded
from stratamq.wire.kafka.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from stratamq.wire.kafka.protocol.schema import message_of

CONSUMER = "consumer"
"""The protocol type of consumers. Connect and others have their own, which is not ours to read."""

LAST_VERSION = message_of(ConsumerProtocolAssignment).versions.last

TopicInfos = Mapping[str, TopicInfo]


class EmbeddedSubscription(NamedTuple):
    names: frozenset[str]
    owned: Partitions
    rack_id: str | None


def read_subscription(protocols: tuple[Protocol, ...], topics: TopicInfos) -> EmbeddedSubscription:
    """A client says the same under each of its protocols. ProtocolError when it is not readable."""
    _, said = decode_embedded(ConsumerProtocolSubscription, protocols[0].metadata)
    return EmbeddedSubscription(
        names=frozenset(said.topics),
        owned=_partitions(said.owned_partitions, topics),
        rack_id=said.rack_id,
    )


def read_assignment(assignment: bytes, topics: TopicInfos) -> Partitions:
    """Partitions of topics that exist; none where nothing was assigned yet."""
    if not assignment:
        return frozenset()
    _, said = decode_embedded(ConsumerProtocolAssignment, assignment)
    return _partitions(said.assigned_partitions, topics)


def write_assignment(
    partitions: Partitions, topics: TopicInfos, protocols: tuple[Protocol, ...]
) -> bytes:
    """In the version in which the member that has these protocols subscribes."""
    version = min(int.from_bytes(protocols[0].metadata[:2], "big"), LAST_VERSION)
    names = {info.topic_id: name for name, info in topics.items()}
    numbers: dict[str, list[int]] = {}
    for topic_id, number in sorted(partitions):
        if topic_id in names:
            numbers.setdefault(names[topic_id], []).append(number)
    assigned = [TopicPartition(topic=one, partitions=some) for one, some in numbers.items()]
    return encode_embedded(ConsumerProtocolAssignment(assigned_partitions=assigned), version)


def _partitions(said: Iterable[TopicPartition], topics: TopicInfos) -> Partitions:
    return frozenset(
        Partition(topics[one.topic].topic_id, number)
        for one in said
        if one.topic in topics
        for number in one.partitions
        if 0 <= number < topics[one.topic].partitions
    )

"""Which topics a group reads, as far as a coordinator can know."""

from __future__ import annotations

from stratamq.broker.kafka.groups.classic.group import ClassicGroup
from stratamq.broker.kafka.groups.consumer.group import ConsumerGroup
from stratamq.wire.kafka.protocol import ProtocolError, decode_embedded
from stratamq.wire.kafka.protocol.messages.consumer_protocol import ConsumerProtocolSubscription


def subscribed_topics(group: ClassicGroup | ConsumerGroup) -> frozenset[str] | None:
    """Topic names; None when the members' language is not ours to understand."""
    if isinstance(group, ConsumerGroup):
        return frozenset(group.target.topics)
    if group.protocol_type != "consumer" or group.protocol is None:
        return None
    topics: set[str] = set()
    for member in group.roster:
        try:
            metadata = member.metadata(group.protocol)
            _, subscription = decode_embedded(ConsumerProtocolSubscription, metadata)
        except ProtocolError:
            return None
        topics.update(subscription.topics)
    return frozenset(topics)

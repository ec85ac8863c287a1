"""What a client knows of its cluster: nodes, topics, and who leads what. Values, no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from stratamq.client.options import Server
from stratamq.wire.kafka.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseTopic,
)

NO_NODE = -1


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionView:
    index: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicView:
    name: str
    topic_id: bytes
    is_internal: bool
    partitions: tuple[PartitionView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """The cluster as one node saw it at one moment."""

    nodes: Mapping[int, Server]
    topics: Mapping[str, TopicView] = field(default_factory=dict)
    cluster_id: str | None = None
    controller: int = NO_NODE

    def leader(self, place: TopicPartition) -> Server | None:
        topic = self.topics.get(place.topic)
        if topic is None or place.partition >= len(topic.partitions):
            return None
        return self.nodes.get(topic.partitions[place.partition].leader)

    def with_topics(self, newer: ClusterView) -> ClusterView:
        """What the newer one says, and of other topics what was known before."""
        return ClusterView(
            nodes=newer.nodes,
            topics={**self.topics, **newer.topics},
            cluster_id=newer.cluster_id,
            controller=newer.controller,
        )


def cluster_of(response: MetadataResponse) -> ClusterView:
    """Topics that have an error are left out: the caller looks at those."""
    good = [_topic(one) for one in response.topics if one.name and not one.error_code]
    return ClusterView(
        nodes={one.node_id: Server(one.host, one.port) for one in response.brokers},
        topics={topic.name: topic for topic in good},
        cluster_id=response.cluster_id,
        controller=response.controller_id,
    )


def _topic(one: MetadataResponseTopic) -> TopicView:
    ordered = sorted(one.partitions, key=lambda part: part.partition_index)
    return TopicView(
        name=one.name or "",
        topic_id=bytes(one.topic_id),
        is_internal=one.is_internal,
        partitions=tuple(
            PartitionView(
                index=part.partition_index,
                leader=part.leader_id,
                leader_epoch=part.leader_epoch,
                replicas=tuple(part.replica_nodes),
                isr=tuple(part.isr_nodes),
            )
            for part in ordered
        ),
    )

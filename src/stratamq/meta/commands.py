"""What the Meta Service can be asked to change. `apply` is pure, so ids, times and placements come
with the command."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from stratamq.meta.access import AlterQuota, CreateAcl, DeleteAcl, DeleteCredential, SaveCredential
from stratamq.meta.resource_configs import AlterResourceConfig
from stratamq.meta.tier import TierCommand
from stratamq.meta.transactions import DeleteTransaction, SaveTransaction, TakeProducerIds
from stratamq.model.dataclass import dataclass
from stratamq.model.shard import SegmentEvent
from stratamq.model.topic import Topic
from stratamq.model.types import (
    NO_EPOCH,
    NO_TIMESTAMP,
    LeaderEpoch,
    NodeId,
    Offset,
    ShardName,
    TimestampMs,
    TopicId,
)

# -- topics: creating -> ready -> deleting -> gone -------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopic:
    """Reserve the name. The topic is hidden until ConfirmTopic; `creator` must confirm or delete
    it."""

    topic: Topic
    creator: NodeId


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmTopic:
    """Every shard is there: show the topic to users."""

    topic_id: TopicId


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopic:
    """First phase: the topic is gone for users. Its shards' data may be deleted from now on."""

    topic_id: TopicId


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveTopic:
    """Second phase, when the data is gone: forget the topic, its shards, segments and group
    offsets."""

    topic_id: TopicId


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitions:
    """Show shards that were created before: the topic has `partitions` from now on."""

    topic_id: TopicId
    partitions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterTopicConfig:
    """Give settings new values, and take others back to their defaults."""

    topic_id: TopicId
    put: Mapping[str, object] = field(default_factory=dict)
    reset: frozenset[str] = frozenset()


# -- shards and segments ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateShard:
    """Register the next partition's shard of a topic. Idempotent."""

    topic_id: TopicId
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteShard:
    """First phase, for a shard of an unfinished growth: from now on the topic cannot get it, and
    its data may be deleted. Idempotent."""

    shard: ShardName


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveShard:
    """Second phase, when the data is gone: forget the topic's last shard. Idempotent."""

    shard: ShardName


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateSegment:
    """Register a shard's next segment. All replicas start in sync: an empty log equals an empty
    log.

    While the segment before it is active, this one waits for its start offset.
    """

    shard: ShardName
    seq: int
    replicas: tuple[NodeId, ...]
    leader: NodeId


@dataclass(frozen=True, slots=True, kw_only=True)
class SealSegment:
    """The writer fixed the end: nothing is written to this segment any more."""

    shard: ShardName
    seq: int
    epoch: int
    end_offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmSealed:
    """All replicas were compared and are equal: release the leader."""

    shard: ShardName
    seq: int
    epoch: int
    size_bytes: int
    checksum: str
    first_timestamp: TimestampMs = NO_TIMESTAMP
    max_timestamp: TimestampMs = NO_TIMESTAMP


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeSegment:
    """Any other step of a sealed segment's life: uploaded, fetched back, expired."""

    shard: ShardName
    seq: int
    epoch: int
    event: SegmentEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveSegment:
    """Forget a shard's oldest segment, which is DELETING and whose data is gone."""

    shard: ShardName
    seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateIsr:
    """Compare-and-set on the segment's epoch: the caller decided on what it knew at `epoch`."""

    shard: ShardName
    seq: int
    epoch: int
    isr: tuple[NodeId, ...]
    leader: NodeId | None


# -- nodes -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterNode:
    """The node is there, at this address. Idempotent."""

    node_id: NodeId
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LoseNode:
    """The node is gone, for now."""

    node_id: NodeId


# -- groups ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitOffset:
    """One entry of CommitOffsets."""

    shard: ShardName
    offset: Offset
    metadata: str = ""
    leader_epoch: LeaderEpoch = NO_EPOCH


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitOffsets:
    """How far a group has come, in any number of shards: all are committed, or none."""

    group: str
    offsets: tuple[CommitOffset, ...]
    commit_ms: TimestampMs = NO_TIMESTAMP


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOffsets:
    """Forget a group's offsets in these shards; those it has none in are left out."""

    group: str
    shards: frozenset[ShardName]


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveGroup:
    """Remember a group's members. Its epoch never goes back, whatever protocol it changes to."""

    group: str
    kind: str
    epoch: int
    document: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroup:
    """Forget a group: its offsets, those that wait for a transaction, and its members."""

    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPendingOffsets:
    """What a producer's transaction will commit for a group, all entries or none."""

    producer_id: int
    group: str
    offsets: tuple[CommitOffset, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EndPendingOffsets:
    """The producer's transaction is over: what was pending is committed, or dropped. Idempotent."""

    producer_id: int
    commit: bool
    commit_ms: TimestampMs = NO_TIMESTAMP


Command = (
    CreateTopic
    | ConfirmTopic
    | DeleteTopic
    | RemoveTopic
    | AddPartitions
    | AlterTopicConfig
    | CreateShard
    | DeleteShard
    | RemoveShard
    | CreateSegment
    | SealSegment
    | ConfirmSealed
    | ChangeSegment
    | RemoveSegment
    | TierCommand
    | UpdateIsr
    | RegisterNode
    | LoseNode
    | CommitOffsets
    | DeleteOffsets
    | SaveGroup
    | DeleteGroup
    | AddPendingOffsets
    | EndPendingOffsets
    | TakeProducerIds
    | SaveTransaction
    | DeleteTransaction
    | CreateAcl
    | DeleteAcl
    | SaveCredential
    | DeleteCredential
    | AlterQuota
    | AlterResourceConfig
)

"""The things the Meta Service keeps a row for. Each has a key that never changes."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from stratamq.meta.access import AccessEntity, CredentialKey, QuotaScope
from stratamq.meta.resource_configs import ConfigScope, ResourceConfig
from stratamq.meta.tier import TierEntity, TierKey
from stratamq.meta.transactions import ProducerEntity
from stratamq.model.access import AclRule
from stratamq.model.dataclass import dataclass
from stratamq.model.shard import SegmentState
from stratamq.model.topic import Topic
from stratamq.model.types import (
    NO_EPOCH,
    NO_OFFSET,
    NO_TIMESTAMP,
    LeaderEpoch,
    NodeId,
    Offset,
    ShardName,
    TimestampMs,
    TopicId,
)

FIRST_EPOCH = LeaderEpoch(0)


class TopicPhase(StrEnum):
    """CREATING and DELETING reserve the name but are hidden from users: a topic is there whole or
    not at all."""

    CREATING = "creating"
    READY = "ready"
    DELETING = "deleting"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMeta:
    """A topic and how far its life has come. `creator` is the node that must finish or undo its
    creation."""

    topic: Topic
    phase: TopicPhase
    creator: NodeId

    @property
    def key(self) -> TopicId:
        return self.topic.topic_id


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardMeta:
    """A shard. One that is `deleting` never comes into use again."""

    name: ShardName
    topic_id: TopicId
    partition: int
    deleting: bool = False

    @property
    def key(self) -> ShardName:
        return self.name


class SegmentKey(NamedTuple):
    shard: ShardName
    seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentMeta:
    """One segment of a shard, counted from 0.

    `epoch` counts every change and is what compare-and-set compares; `leader_epoch` counts leaders
    only, goes on from segment to segment, and is what batches carry. `start_offset` is -1 while the
    segment before it is still written: it is registered ahead, and where it begins is known only
    when that one ends. `end_offset` (exclusive) is -1 until sealing fixes it; sizes, times and
    checksum are known from SEALED on.
    """

    shard: ShardName
    seq: int
    start_offset: Offset
    replicas: tuple[NodeId, ...]
    leader: NodeId | None
    isr: tuple[NodeId, ...]
    epoch: int = 0
    leader_epoch: LeaderEpoch = FIRST_EPOCH
    state: SegmentState = SegmentState.ACTIVE
    end_offset: Offset = NO_OFFSET
    size_bytes: int = -1
    checksum: str = ""
    first_timestamp: TimestampMs = NO_TIMESTAMP
    max_timestamp: TimestampMs = NO_TIMESTAMP

    @property
    def key(self) -> SegmentKey:
        return SegmentKey(self.shard, self.seq)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeMeta:
    """A node. One that is not live gets no new replicas, but is not forgotten: it holds old
    ones."""

    node_id: NodeId
    address: str
    live: bool = True

    @property
    def key(self) -> NodeId:
        return self.node_id


OFFSET_BYTES = 400
"""Memory of an offset without its metadata."""


class OffsetKey(NamedTuple):
    group: str
    shard: ShardName


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOffset:
    """How far a group has come in a shard: `offset` is the next one it wants to read."""

    group: str
    shard: ShardName
    offset: Offset
    metadata: str = ""
    leader_epoch: LeaderEpoch = NO_EPOCH
    commit_ms: TimestampMs = NO_TIMESTAMP

    @property
    def key(self) -> OffsetKey:
        return OffsetKey(self.group, self.shard)

    @property
    def size_bytes(self) -> int:
        return OFFSET_BYTES + len(self.metadata)


class PendingKey(NamedTuple):
    producer_id: int
    group: str
    shard: ShardName


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingOffset:
    """What a transaction will commit for a group, if it commits."""

    producer_id: int
    group: str
    shard: ShardName
    offset: Offset
    metadata: str = ""
    leader_epoch: LeaderEpoch = NO_EPOCH

    @property
    def key(self) -> PendingKey:
        return PendingKey(self.producer_id, self.group, self.shard)

    @property
    def size_bytes(self) -> int:
        return OFFSET_BYTES + len(self.metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMeta:
    """A group's members, as its coordinator wants to find them after a restart.

    `kind` is the protocol, `epoch` the generation; `document` is the coordinator's own JSON, which
    nobody else reads.
    """

    group: str
    kind: str
    epoch: int
    document: str

    @property
    def key(self) -> str:
        return self.group


GroupEntity = GroupOffset | PendingOffset | GroupMeta
Entity = (
    TopicMeta
    | ShardMeta
    | SegmentMeta
    | NodeMeta
    | TierEntity
    | GroupEntity
    | AccessEntity
    | ProducerEntity
    | ResourceConfig
)
EntityKey = (
    TopicId
    | ShardName
    | SegmentKey
    | TierKey
    | NodeId
    | OffsetKey
    | PendingKey
    | str
    | AclRule
    | CredentialKey
    | QuotaScope
    | ConfigScope
)

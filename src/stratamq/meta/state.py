"""Everything the Meta Service stores, as one immutable value, and the events that change it.

Laws
----
1.  Shards of a topic are numbered 0, 1, 2, ... without holes.
2.  Segments of a shard are numbered without holes, oldest first. Its files on object storage are
    in the order of their offsets and do not overlap.
3.  No two topics have names that are equal when `.` and `_` are.
4.  `revision` counts the changes of everything but groups and producers, which nothing watches.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, NamedTuple

from stratamq.meta.pmap import PMap
from stratamq.model.access import AclRule
from stratamq.model.dataclass import dataclass
from stratamq.model.errors import NotFound, ShardNotFound, TopicNotFound
from stratamq.model.shard import shard_name
from stratamq.model.types import NodeId, ShardName, TopicId

if TYPE_CHECKING:  # the subjects' rules are written in terms of the state, so they import it
    from stratamq.meta.access import Credential, CredentialKey, Quota, QuotaScope
    from stratamq.meta.configs import ConfigScope, ResourceConfig
    from stratamq.meta.evolve import Entity
    from stratamq.meta.groups import GroupMeta, Offsets, Pending
    from stratamq.meta.nodes import NodeMeta
    from stratamq.meta.segments import SegmentMeta
    from stratamq.meta.shards import ShardMeta
    from stratamq.meta.tier.files import RetiredObject, TierFile
    from stratamq.meta.topics import TopicMeta
    from stratamq.meta.transactions import TransactionMeta


@dataclass(frozen=True, slots=True)
class NodeLoad:
    """What a node carries of the segments that are being written. Sealed ones cost it no writes."""

    leaders: int = 0
    replicas: int = 0


@dataclass(frozen=True, slots=True)
class MetaState:
    """See the laws above. `ids`, `loads`, `offset_bytes` and `transaction_shards` are derived from
    the other tables."""

    revision: int = 0
    topics: PMap[TopicId, TopicMeta] = field(default_factory=PMap)
    shards: PMap[ShardName, ShardMeta] = field(default_factory=PMap)
    segments: PMap[ShardName, tuple[SegmentMeta, ...]] = field(default_factory=PMap)
    files: PMap[ShardName, tuple[TierFile, ...]] = field(default_factory=PMap)
    retired: PMap[str, RetiredObject] = field(default_factory=PMap)
    nodes: PMap[NodeId, NodeMeta] = field(default_factory=PMap)
    groups: PMap[str, Offsets] = field(default_factory=PMap)
    members: PMap[str, GroupMeta] = field(default_factory=PMap)
    pending: PMap[int, Pending] = field(default_factory=PMap)
    transactions: PMap[str, TransactionMeta] = field(default_factory=PMap)
    next_producer_id: int = 0
    acls: PMap[AclRule, AclRule] = field(default_factory=PMap)
    credentials: PMap[CredentialKey, Credential] = field(default_factory=PMap)
    quotas: PMap[QuotaScope, Quota] = field(default_factory=PMap)
    configs: PMap[ConfigScope, ResourceConfig] = field(default_factory=PMap)
    ids: PMap[str, TopicId] = field(default_factory=PMap)
    loads: Mapping[NodeId, NodeLoad] = field(default_factory=dict)
    offset_bytes: int = 0
    """Memory of all offsets of groups, those of open transactions too."""
    transaction_shards: int = 0
    """Shards of all open transactions; one counts once for each of them."""

    def topic(self, topic_id: TopicId) -> TopicMeta:
        try:
            return self.topics[topic_id]
        except KeyError:
            raise TopicNotFound(f"no topic with id {topic_id}") from None

    def topic_like(self, name: str) -> TopicMeta | None:
        """The topic of this name, or of one that collides with it."""
        topic_id = self.ids.get(collision_key(name))
        return None if topic_id is None else self.topics[topic_id]

    def shard(self, name: ShardName) -> ShardMeta:
        try:
            return self.shards[name]
        except KeyError:
            raise ShardNotFound(f"no shard {name}") from None

    def shards_of(self, topic_id: TopicId) -> Iterator[ShardMeta]:
        """All registered shards of a topic in order, those of an unfinished growth included."""
        partition = 0
        while (shard := self.shards.get(shard_name(topic_id, partition))) is not None:
            yield shard
            partition += 1

    def segments_of(self, shard: ShardName) -> tuple[SegmentMeta, ...]:
        return self.segments.get(shard, ())

    def files_of(self, shard: ShardName) -> tuple[TierFile, ...]:
        return self.files.get(shard, ())

    def segment(self, shard: ShardName, seq: int) -> SegmentMeta:
        for segment in self.segments_of(shard):
            if segment.seq == seq:
                return segment
        raise NotFound(f"{shard}: no segment {seq}")

    def live_nodes(self) -> list[NodeId]:
        return sorted(node.node_id for node in self.nodes.values() if node.live)

    def load(self, node: NodeId) -> NodeLoad:
        return self.loads.get(node, NodeLoad())


def collision_key(name: str) -> str:
    """Topics cannot have names with the same key: metric names turn `.` into `_`, as in Kafka."""
    return name.replace(".", "_")


# -- events ----------------------------------------------------------------------------------------
# The same events move the state, fill the store's rows and feed the caches, so that the three
# cannot differ.


class Put(NamedTuple):
    """The entity is new or replaced the one with its key."""

    entity: Entity


class Removed(NamedTuple):
    """The entity is gone; this is its last form."""

    entity: Entity


Event = Put | Removed


class Update(NamedTuple):
    """Events that take a state from revision `previous` to `revision`, as pushed to watchers.

    A watcher that is not at `previous` missed something and reads a snapshot instead.
    """

    previous: int
    revision: int
    events: tuple[Event, ...]

    @classmethod
    def gap(cls, revision: int) -> Update:
        """Makes a watcher at or before `revision` read a snapshot."""
        return cls(revision + 1, revision + 1, ())

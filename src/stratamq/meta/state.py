"""Everything the Meta Service knows, as one immutable value.

Laws
----
1.  Shards of a topic are numbered 0, 1, 2, ... without holes.
2.  Segments of a shard are numbered without holes, oldest first. Its files on object storage are
    in the order of their offsets and do not overlap.
3.  No two topics have names that are equal when `.` and `_` are.
4.  `revision` counts the changes of everything but groups and producers, which nobody watches.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, TypeVar

from stratamq.meta.access import Credential, CredentialKey, Quota, QuotaScope
from stratamq.meta.entities import (
    Entity,
    GroupMeta,
    GroupOffset,
    NodeMeta,
    OffsetKey,
    PendingOffset,
    SegmentMeta,
    ShardMeta,
    TopicMeta,
)
from stratamq.meta.events import Event, Put
from stratamq.meta.names import collision_key
from stratamq.meta.pmap import Key, PMap
from stratamq.meta.resource_configs import ConfigScope, ResourceConfig
from stratamq.meta.tier import RetiredObject, TierFile
from stratamq.meta.transactions import ProducerIds, TransactionMeta
from stratamq.model.access import AclRule
from stratamq.model.dataclass import dataclass
from stratamq.model.errors import NotFound, ShardNotFound, TopicNotFound
from stratamq.model.shard import has_leader, shard_name
from stratamq.model.types import NodeId, Offset, ShardName, TopicId

K = TypeVar("K", bound=Key)
V = TypeVar("V")
E = TypeVar("E", bound=Entity)

Offsets = Mapping[ShardName, GroupOffset]
"""A group's offsets by shard."""

Pending = Mapping[OffsetKey, PendingOffset]
"""What a producer's transaction will commit."""

_UNWATCHED = (GroupOffset, PendingOffset, GroupMeta, ProducerIds, TransactionMeta)


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


def evolve(state: MetaState, events: Sequence[Event]) -> MetaState:
    """The state after the events. The revision counts one step, however many events made it."""
    offsets = [event for event in events if isinstance(event.entity, GroupOffset)]
    files = [event for event in events if isinstance(event.entity, TierFile)]
    watched = any(not isinstance(event.entity, _UNWATCHED) for event in events)
    for event in events:
        state = _moved(state, event)
    groups, growth = _groups_moved(state.groups, offsets)
    return replace(
        state,
        revision=state.revision + watched,
        groups=groups,
        offset_bytes=state.offset_bytes + growth,
        files=_files_moved(state.files, files),
    )


def _moved(state: MetaState, event: Event) -> MetaState:
    present = isinstance(event, Put)
    match event.entity:
        case TopicMeta() as topic:
            return _topic_moved(state, topic, present)
        case ShardMeta() as shard:
            return replace(state, shards=_table(state.shards, shard.name, shard, present))
        case SegmentMeta() as segment:
            return _segment_moved(state, segment, present)
        case NodeMeta() as node:
            return replace(state, nodes=_table(state.nodes, node.node_id, node, present))
        case GroupOffset() | TierFile():
            return state  # a commit touches many at once: see below
        case RetiredObject() as retired:
            return replace(state, retired=_table(state.retired, retired.key, retired, present))
        case GroupMeta() as group:
            return replace(state, members=_table(state.members, group.group, group, present))
        case PendingOffset() as pending:
            return _pending_moved(state, pending, present)
        case TransactionMeta() as one:
            return _transaction_moved(state, one, present)
        case ProducerIds() as ids:
            return replace(state, next_producer_id=ids.next_id)
        case AclRule() as rule:
            return replace(state, acls=_table(state.acls, rule, rule, present))
        case Credential() as user:
            return replace(state, credentials=_table(state.credentials, user.key, user, present))
        case Quota() as quota:
            return replace(state, quotas=_table(state.quotas, quota.scope, quota, present))
        case ResourceConfig() as config:
            return replace(state, configs=_table(state.configs, config.scope, config, present))


def _table(table: PMap[K, V], key: K, value: V, present: bool) -> PMap[K, V]:
    return table.with_(key, value) if present else table.without(key)


def _topic_moved(state: MetaState, topic: TopicMeta, present: bool) -> MetaState:
    name = collision_key(topic.topic.name)
    return replace(
        state,
        topics=_table(state.topics, topic.key, topic, present),
        ids=_table(state.ids, name, topic.key, present),
    )


def _segment_moved(state: MetaState, segment: SegmentMeta, present: bool) -> MetaState:
    loads = dict(state.loads)
    kept = []
    for other in state.segments_of(segment.shard):
        if other.seq == segment.seq:
            _load(loads, other, -1)
        else:
            kept.append(other)
    if present:
        kept.append(segment)
        _load(loads, segment, +1)
    segments = _table(state.segments, segment.shard, _in_order(kept), bool(kept))
    return replace(state, segments=segments, loads=loads)


def _in_order(segments: Iterable[SegmentMeta]) -> tuple[SegmentMeta, ...]:
    return tuple(sorted(segments, key=lambda segment: segment.seq))


def _load(loads: dict[NodeId, NodeLoad], segment: SegmentMeta, sign: int) -> None:
    if not has_leader(segment.state):
        return
    for node in segment.replicas:
        load = loads.pop(node, NodeLoad())
        leads = sign if node == segment.leader else 0
        if load.replicas + sign > 0:
            loads[node] = NodeLoad(load.leaders + leads, load.replicas + sign)


def _pending_moved(state: MetaState, pending: PendingOffset, present: bool) -> MetaState:
    kept = dict(state.pending.get(pending.producer_id, {}))
    old = kept.pop(OffsetKey(pending.group, pending.shard), None)
    growth = 0 if old is None else -old.size_bytes
    if present:
        kept[OffsetKey(pending.group, pending.shard)] = pending
        growth += pending.size_bytes
    return replace(
        state,
        pending=_table(state.pending, pending.producer_id, kept, bool(kept)),
        offset_bytes=state.offset_bytes + growth,
    )


def _transaction_moved(state: MetaState, one: TransactionMeta, present: bool) -> MetaState:
    old = state.transactions.get(one.key)
    shards = state.transaction_shards - (0 if old is None else len(old.shards))
    return replace(
        state,
        transactions=_table(state.transactions, one.key, one, present),
        transaction_shards=shards + len(one.shards) if present else shards,
    )


def _groups_moved(
    groups: PMap[str, Offsets], events: Sequence[Event]
) -> tuple[PMap[str, Offsets], int]:
    """Each group's offsets are copied once, not once per offset. And how many bytes they grew."""
    growth = 0
    changed: dict[str, dict[ShardName, GroupOffset]] = {}
    for event in events:
        offset = event.entity
        assert isinstance(offset, GroupOffset), "the caller sorted them out"
        if offset.group not in changed:
            changed[offset.group] = dict(groups.get(offset.group, {}))
        old = changed[offset.group].pop(offset.shard, None)
        growth -= 0 if old is None else old.size_bytes
        if isinstance(event, Put):
            changed[offset.group][offset.shard] = offset
            growth += offset.size_bytes
    for group, offsets in changed.items():
        groups = _table(groups, group, offsets, bool(offsets))
    return groups, growth


def _files_moved(
    files: PMap[ShardName, tuple[TierFile, ...]], events: Sequence[Event]
) -> PMap[ShardName, tuple[TierFile, ...]]:
    """Each shard's files are put in order once."""
    changed: dict[ShardName, dict[Offset, TierFile]] = {}
    for event in events:
        file = event.entity
        assert isinstance(file, TierFile), "the caller sorted them out"
        if file.shard not in changed:
            changed[file.shard] = {one.base_offset: one for one in files.get(file.shard, ())}
        if isinstance(event, Put):
            changed[file.shard][file.base_offset] = file
        else:
            changed[file.shard].pop(file.base_offset, None)
    for shard, some in changed.items():
        files = _table(files, shard, _by_offset(some.values()), bool(some))
    return files


def _by_offset(files: Iterable[TierFile]) -> tuple[TierFile, ...]:
    return tuple(sorted(files, key=lambda file: file.base_offset))


class _Kinds:
    """Entities, each with its kind."""

    def __init__(self, entities: Iterable[Entity]) -> None:
        self._found: dict[type, list[Any]] = defaultdict(list)
        for entity in entities:
            self._found[type(entity)].append(entity)

    def of(self, kind: type[E]) -> list[E]:
        return self._found.pop(kind, [])

    def check_taken(self) -> None:
        assert not self._found, f"no table for {list(self._found)}"


def restored(entities: Iterable[Entity], revision: int) -> MetaState:
    """The state that holds these entities: what `evolve` would give step by step, at once."""
    kinds = _Kinds(entities)
    topics, segments = kinds.of(TopicMeta), kinds.of(SegmentMeta)
    offsets, pending = kinds.of(GroupOffset), kinds.of(PendingOffset)
    transactions = kinds.of(TransactionMeta)
    state = MetaState(
        revision=revision,
        topics=PMap({one.key: one for one in topics}),
        shards=PMap({one.key: one for one in kinds.of(ShardMeta)}),
        segments=_gathered(segments, lambda one: one.shard, _in_order),
        files=_gathered(kinds.of(TierFile), lambda one: one.shard, _by_offset),
        retired=PMap({one.key: one for one in kinds.of(RetiredObject)}),
        nodes=PMap({one.key: one for one in kinds.of(NodeMeta)}),
        groups=_gathered(offsets, lambda one: one.group, _by_shard),
        members=PMap({one.key: one for one in kinds.of(GroupMeta)}),
        pending=_gathered(pending, lambda one: one.producer_id, _by_place),
        transactions=PMap({one.key: one for one in transactions}),
        next_producer_id=max((one.next_id for one in kinds.of(ProducerIds)), default=0),
        acls=PMap({one: one for one in kinds.of(AclRule)}),
        credentials=PMap({one.key: one for one in kinds.of(Credential)}),
        quotas=PMap({one.scope: one for one in kinds.of(Quota)}),
        configs=PMap({one.scope: one for one in kinds.of(ResourceConfig)}),
        ids=PMap({collision_key(one.topic.name): one.key for one in topics}),
        loads=_loads(segments),
        offset_bytes=sum(one.size_bytes for one in offsets)
        + sum(one.size_bytes for one in pending),
        transaction_shards=sum(len(one.shards) for one in transactions),
    )
    kinds.check_taken()
    return state


def _gathered(
    entities: Iterable[E], owner: Callable[[E], K], table: Callable[[list[E]], V]
) -> PMap[K, V]:
    """What each owner has, as one table."""
    owned: dict[K, list[E]] = defaultdict(list)
    for entity in entities:
        owned[owner(entity)].append(entity)
    return PMap({one: table(some) for one, some in owned.items()})


def _by_shard(offsets: Iterable[GroupOffset]) -> Offsets:
    return {one.shard: one for one in offsets}


def _by_place(offsets: Iterable[PendingOffset]) -> Pending:
    return {OffsetKey(one.group, one.shard): one for one in offsets}


def _loads(segments: Iterable[SegmentMeta]) -> dict[NodeId, NodeLoad]:
    loads: dict[NodeId, NodeLoad] = {}
    for segment in segments:
        _load(loads, segment, +1)
    return loads

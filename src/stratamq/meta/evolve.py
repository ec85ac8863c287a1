"""How events move the state, and how a state is built from all its entities at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import chain
from operator import attrgetter
from typing import Any, TypeVar

from stratamq.meta.access import Credential, Quota
from stratamq.meta.configs import ResourceConfig
from stratamq.meta.groups import GroupMeta, OffsetKey, OffsetMeta, Offsets, Pending, PendingOffset
from stratamq.meta.nodes import NodeMeta
from stratamq.meta.pmap import Key, PMap
from stratamq.meta.segments import SegmentMeta
from stratamq.meta.shards import ShardMeta
from stratamq.meta.state import Event, MetaState, NodeLoad, Put, collision_key
from stratamq.meta.tier.files import RetiredObject, TierFile
from stratamq.meta.topics import TopicMeta
from stratamq.meta.transactions import ProducerIds, TransactionMeta
from stratamq.model.access import AclRule
from stratamq.model.shard import has_leader
from stratamq.model.types import NodeId, Offset, ShardName

Entity = (
    TopicMeta
    | ShardMeta
    | SegmentMeta
    | NodeMeta
    | TierFile
    | RetiredObject
    | OffsetMeta
    | PendingOffset
    | GroupMeta
    | ProducerIds
    | TransactionMeta
    | AclRule
    | Credential
    | Quota
    | ResourceConfig
)
"""What has a row of its own. Each has a key that never changes."""

K = TypeVar("K", bound=Key)
V = TypeVar("V")
E = TypeVar("E", bound=Entity)

_UNWATCHED = (OffsetMeta, PendingOffset, GroupMeta, ProducerIds, TransactionMeta)

_FIELDS = tuple(field.name for field in fields(MetaState))
_all_fields = attrgetter(*_FIELDS)


def evolve(state: MetaState, events: Sequence[Event]) -> MetaState:
    """The state after the events. The revision counts one step, however many events made it."""
    offsets = [event for event in events if isinstance(event.entity, OffsetMeta)]
    files = [event for event in events if isinstance(event.entity, TierFile)]
    watched = any(not isinstance(event.entity, _UNWATCHED) for event in events)
    changes: dict[str, Any] = {}
    for event in events:
        if changes:
            state = _with(state, changes)
        changes = _changes(state, event)
    changes["revision"] = state.revision + watched
    if offsets:
        groups, growth = _groups_moved(state.groups, offsets)
        size = changes.get("offset_bytes", state.offset_bytes)  # the last event may have moved it
        changes |= {"groups": groups, "offset_bytes": size + growth}
    if files:
        changes["files"] = _files_moved(state.files, files)
    return _with(state, changes)


def _with(state: MetaState, changes: Mapping[str, Any]) -> MetaState:
    """The state with other values in some fields: `dataclasses.replace` takes twice as long, and a
    request that creates topics needs this very often."""
    values = dict(zip(_FIELDS, _all_fields(state), strict=True))
    values.update(changes)
    return MetaState(**values)


def _changes(state: MetaState, event: Event) -> dict[str, Any]:
    """The fields that an event changes, with their new values."""
    present = isinstance(event, Put)
    match event.entity:
        case TopicMeta() as topic:
            name = collision_key(topic.topic.name)
            return {
                "topics": _table(state.topics, topic.key, topic, present),
                "ids": _table(state.ids, name, topic.key, present),
            }
        case ShardMeta() as shard:
            return {"shards": _table(state.shards, shard.name, shard, present)}
        case SegmentMeta() as segment:
            return _segment_moved(state, segment, present)
        case NodeMeta() as node:
            return {"nodes": _table(state.nodes, node.node_id, node, present)}
        case OffsetMeta() | TierFile():
            return {}  # a commit touches many at once: see `evolve`
        case RetiredObject() as retired:
            return {"retired": _table(state.retired, retired.key, retired, present)}
        case GroupMeta() as group:
            return {"members": _table(state.members, group.group, group, present)}
        case PendingOffset() as pending:
            return _pending_moved(state, pending, present)
        case TransactionMeta() as one:
            return _transaction_moved(state, one, present)
        case ProducerIds() as ids:
            return {"next_producer_id": ids.next_id}
        case AclRule() as rule:
            return {"acls": _table(state.acls, rule, rule, present)}
        case Credential() as user:
            return {"credentials": _table(state.credentials, user.key, user, present)}
        case Quota() as quota:
            return {"quotas": _table(state.quotas, quota.scope, quota, present)}
        case ResourceConfig() as config:
            return {"configs": _table(state.configs, config.scope, config, present)}


def _table(table: PMap[K, V], key: K, value: V, present: bool) -> PMap[K, V]:
    return table.with_(key, value) if present else table.without(key)


def _segment_moved(state: MetaState, segment: SegmentMeta, present: bool) -> dict[str, Any]:
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
    return {"segments": segments, "loads": loads}


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


def _pending_moved(state: MetaState, pending: PendingOffset, present: bool) -> dict[str, Any]:
    kept = dict(state.pending.get(pending.producer_id, {}))
    old = kept.pop(OffsetKey(pending.group, pending.shard), None)
    growth = 0 if old is None else -old.size_bytes
    if present:
        kept[OffsetKey(pending.group, pending.shard)] = pending
        growth += pending.size_bytes
    return {
        "pending": _table(state.pending, pending.producer_id, kept, bool(kept)),
        "offset_bytes": state.offset_bytes + growth,
    }


def _transaction_moved(state: MetaState, one: TransactionMeta, present: bool) -> dict[str, Any]:
    old = state.transactions.get(one.key)
    shards = state.transaction_shards - (0 if old is None else len(old.shards))
    return {
        "transactions": _table(state.transactions, one.key, one, present),
        "transaction_shards": shards + len(one.shards) if present else shards,
    }


def _groups_moved(
    groups: PMap[str, Offsets], events: Sequence[Event]
) -> tuple[PMap[str, Offsets], int]:
    """Each group's offsets are copied once, not once per offset. And how many bytes they grew."""
    growth = 0
    changed: dict[str, dict[ShardName, OffsetMeta]] = {}
    for event in events:
        offset = event.entity
        assert isinstance(offset, OffsetMeta), "the caller sorted them out"
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


def entities_of(state: MetaState) -> Iterator[Entity]:
    """All that can be watched. `restored` makes the state of them again."""
    tables: tuple[Mapping[Any, Entity], ...] = (
        *(state.topics, state.shards, state.nodes, state.retired),
        *(state.acls, state.credentials, state.quotas, state.configs),
    )
    for table in tables:
        yield from table.values()
    for segments in state.segments.values():
        yield from segments
    for files in state.files.values():
        yield from files


def restored(entities: Iterable[Entity], revision: int) -> MetaState:
    """The state that holds these entities: what `evolve` would give step by step, at once."""
    kinds: dict[type, list[Any]] = defaultdict(list)
    for entity in entities:
        kinds[type(entity)].append(entity)
    topics: list[TopicMeta] = kinds[TopicMeta]
    segments: list[SegmentMeta] = kinds[SegmentMeta]
    offsets: list[OffsetMeta] = kinds[OffsetMeta]
    pending: list[PendingOffset] = kinds[PendingOffset]
    transactions: list[TransactionMeta] = kinds[TransactionMeta]
    loads: dict[NodeId, NodeLoad] = {}
    for segment in segments:
        _load(loads, segment, +1)
    return MetaState(
        revision=revision,
        topics=_by_key(topics),
        shards=_by_key(kinds[ShardMeta]),
        segments=_by_owner(segments, lambda one: one.shard, _in_order),
        files=_by_owner(kinds[TierFile], lambda one: one.shard, _by_offset),
        retired=_by_key(kinds[RetiredObject]),
        nodes=_by_key(kinds[NodeMeta]),
        groups=_by_owner(offsets, lambda one: one.group, _by_shard),
        members=_by_key(kinds[GroupMeta]),
        pending=_by_owner(pending, lambda one: one.producer_id, _by_group_and_shard),
        transactions=_by_key(transactions),
        next_producer_id=max((one.next_id for one in kinds[ProducerIds]), default=0),
        acls=_by_key(kinds[AclRule]),
        credentials=_by_key(kinds[Credential]),
        quotas=_by_key(kinds[Quota]),
        configs=_by_key(kinds[ResourceConfig]),
        ids=PMap({collision_key(one.topic.name): one.key for one in topics}),
        loads=loads,
        offset_bytes=sum(one.size_bytes for one in offsets)
        + sum(one.size_bytes for one in pending),
        transaction_shards=sum(len(one.shards) for one in transactions),
    )


def entities(state: MetaState) -> Iterator[Entity]:
    """Everything that `restored` needs to build the state again."""
    yield from chain[Entity](
        state.topics.values(),
        state.shards.values(),
        chain.from_iterable(state.segments.values()),
        chain.from_iterable(state.files.values()),
        state.retired.values(),
        state.nodes.values(),
        chain.from_iterable(offsets.values() for offsets in state.groups.values()),
        state.members.values(),
        chain.from_iterable(pending.values() for pending in state.pending.values()),
        state.transactions.values(),
        state.acls.values(),
        state.credentials.values(),
        state.quotas.values(),
        state.configs.values(),
    )
    if state.next_producer_id:
        yield ProducerIds(next_id=state.next_producer_id)


def _by_key(entities: Iterable[Any]) -> PMap[Any, Any]:
    return PMap({entity.key: entity for entity in entities})


def _by_owner(
    entities: Iterable[E], owner: Callable[[E], K], table: Callable[[list[E]], V]
) -> PMap[K, V]:
    """The entities of each owner, as one table."""
    owned: dict[K, list[E]] = defaultdict(list)
    for entity in entities:
        owned[owner(entity)].append(entity)
    return PMap({one: table(some) for one, some in owned.items()})


def _by_shard(offsets: Iterable[OffsetMeta]) -> Offsets:
    return {one.shard: one for one in offsets}


def _by_group_and_shard(offsets: Iterable[PendingOffset]) -> Pending:
    return {OffsetKey(one.group, one.shard): one for one in offsets}

"""Consumer groups in the Meta Service: committed offsets, offsets that wait for the end of a
transaction, members; the commands that change them, their rules, and their rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from stratamq.meta.rows import RowFormat, text_key
from stratamq.meta.state import Event, MetaState, Put, Removed
from stratamq.model.dataclass import dataclass
from stratamq.model.errors import InvalidInput, InvalidName, NotFound, StaleEpoch
from stratamq.model.types import (
    NO_EPOCH,
    NO_TIMESTAMP,
    LeaderEpoch,
    Offset,
    ShardName,
    TimestampMs,
)

GROUP_NAME_BYTES_MAX = 1024

METADATA_BYTES_MAX = 4096
"""Kafka's offset.metadata.max.bytes."""

OFFSET_BYTES = 400
"""Memory of an offset without its metadata."""


class OffsetKey(NamedTuple):
    group: str
    shard: ShardName


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetMeta:
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

    `kind` is the protocol, `epoch` the generation; `document` is JSON that only the coordinator
    reads.
    """

    group: str
    kind: str
    epoch: int
    document: str

    @property
    def key(self) -> str:
        return self.group


Offsets = Mapping[ShardName, OffsetMeta]
"""A group's offsets by shard."""

Pending = Mapping[OffsetKey, PendingOffset]
"""What a producer's transaction will commit."""


def _offset_key(entity: OffsetMeta | PendingOffset) -> bytes:
    group = text_key(entity.group)
    # The length first: a group name may hold any character, a separator too.
    return len(group).to_bytes(2, "big") + group + entity.shard.encode()


GROUP_ROWS = (
    RowFormat(OffsetMeta, b"o", _offset_key, lambda row: OffsetMeta(**row)),
    RowFormat(
        PendingOffset,
        b"p",
        lambda one: b"%020d" % one.producer_id + _offset_key(one),
        lambda row: PendingOffset(**row),
    ),
    RowFormat(GroupMeta, b"m", lambda one: text_key(one.group), lambda row: GroupMeta(**row)),
)


# -- commands --------------------------------------------------------------------------------------


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


# -- rules -----------------------------------------------------------------------------------------


def check_group_name(name: str) -> None:
    if not name:
        raise InvalidName("a group needs a name")
    if len(text_key(name)) > GROUP_NAME_BYTES_MAX:
        raise InvalidName(f"a group name has at most {GROUP_NAME_BYTES_MAX} bytes")


def commit_offsets(state: MetaState, command: CommitOffsets) -> list[Event]:
    check_group_name(command.group)
    events: list[Event] = []
    for entry in command.offsets:
        state.shard(entry.shard)
        check_offset(entry.offset, entry.metadata)
        events.append(Put(_offset(command.group, entry, command.commit_ms)))
    return events


def _offset(group: str, entry: CommitOffset | PendingOffset, commit_ms: TimestampMs) -> OffsetMeta:
    return OffsetMeta(
        group=group,
        shard=entry.shard,
        offset=entry.offset,
        metadata=entry.metadata,
        leader_epoch=entry.leader_epoch,
        commit_ms=commit_ms,
    )


def check_offset(offset: int, metadata: str) -> None:
    if offset < 0:
        raise InvalidInput(f"a group cannot commit offset {offset}")
    if len(metadata.encode("utf-8", "surrogatepass")) > METADATA_BYTES_MAX:
        raise InvalidInput(f"commit metadata has at most {METADATA_BYTES_MAX} bytes")


def delete_offsets(state: MetaState, command: DeleteOffsets) -> list[Event]:
    offsets = state.groups.get(command.group, {})
    return [Removed(offsets[shard]) for shard in sorted(command.shards) if shard in offsets]


def save_group(state: MetaState, command: SaveGroup) -> list[Event]:
    check_group_name(command.group)
    group = GroupMeta(
        group=command.group,
        kind=command.kind,
        epoch=command.epoch,
        document=command.document,
    )
    old = state.members.get(command.group)
    if old is not None and old.epoch > group.epoch:
        raise StaleEpoch(f"group {group.group!r} is at {old.epoch}, past {group.epoch}")
    return [] if old == group else [Put(group)]


def delete_group(state: MetaState, command: DeleteGroup) -> list[Event]:
    offsets = state.groups.get(command.group, {})
    events: list[Event] = [Removed(offsets[shard]) for shard in sorted(offsets)]
    members = state.members.get(command.group)
    if members is not None:
        events.append(Removed(members))
    for pending in state.pending.values():
        events += [Removed(pending[key]) for key in sorted(pending) if key.group == command.group]
    if not events:
        raise NotFound(f"no group {command.group!r}")
    return events


# -- offsets that wait for the end of a transaction -----------------------------------------------


def add_pending_offsets(state: MetaState, command: AddPendingOffsets) -> list[Event]:
    check_group_name(command.group)
    events: list[Event] = []
    for entry in command.offsets:
        state.shard(entry.shard)
        check_offset(entry.offset, entry.metadata)
        pending = PendingOffset(
            producer_id=command.producer_id,
            group=command.group,
            shard=entry.shard,
            offset=entry.offset,
            metadata=entry.metadata,
            leader_epoch=entry.leader_epoch,
        )
        events.append(Put(pending))
    return events


def end_pending_offsets(state: MetaState, command: EndPendingOffsets) -> list[Event]:
    events: list[Event] = []
    for _, pending in sorted(state.pending.get(command.producer_id, {}).items()):
        events.append(Removed(pending))
        if command.commit:
            events.append(Put(_offset(pending.group, pending, command.commit_ms)))
    return events

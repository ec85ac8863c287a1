"""What commands on groups and their offsets change, and when they are refused."""

from __future__ import annotations

from stratamq.meta.commands import (
    AddPendingOffsets,
    CommitOffset,
    CommitOffsets,
    DeleteGroup,
    DeleteOffsets,
    EndPendingOffsets,
    SaveGroup,
)
from stratamq.meta.entities import GroupMeta, GroupOffset, PendingOffset
from stratamq.meta.events import Event, Put, Removed
from stratamq.meta.names import check_group_name
from stratamq.meta.state import MetaState
from stratamq.model.errors import InvalidInput, NotFound, StaleEpoch
from stratamq.model.types import TimestampMs

METADATA_BYTES_MAX = 4096
"""Kafka's offset.metadata.max.bytes."""


def commit_offsets(state: MetaState, command: CommitOffsets) -> list[Event]:
    check_group_name(command.group)
    events: list[Event] = []
    for entry in command.offsets:
        state.shard(entry.shard)
        check_offset(entry.offset, entry.metadata)
        events.append(Put(_offset(command.group, entry, command.commit_ms)))
    return events


def _offset(group: str, entry: CommitOffset | PendingOffset, commit_ms: TimestampMs) -> GroupOffset:
    return GroupOffset(
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


# -- offsets that wait for the end of a transaction ------------------------------------------------


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

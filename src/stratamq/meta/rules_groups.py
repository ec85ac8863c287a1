"""What commands on group offsets change, and when they are refused."""

from __future__ import annotations

from stratamq.meta.commands import CommitOffsets, DeleteGroup, DeleteOffsets
from stratamq.meta.entities import GroupOffset
from stratamq.meta.events import Event, Put, Removed
from stratamq.meta.names import check_group_name
from stratamq.meta.state import MetaState
from stratamq.model.errors import InvalidInput, NotFound

METADATA_BYTES_MAX = 4096
"""Kafka's offset.metadata.max.bytes."""


def commit_offsets(state: MetaState, command: CommitOffsets) -> list[Event]:
    check_group_name(command.group)
    events: list[Event] = []
    for entry in command.offsets:
        state.shard(entry.shard)
        check_offset(entry.offset, entry.metadata)
        offset = GroupOffset(
            group=command.group,
            shard=entry.shard,
            offset=entry.offset,
            metadata=entry.metadata,
            leader_epoch=entry.leader_epoch,
            commit_ms=command.commit_ms,
        )
        events.append(Put(offset))
    return events


def check_offset(offset: int, metadata: str) -> None:
    if offset < 0:
        raise InvalidInput(f"a group cannot commit offset {offset}")
    if len(metadata.encode("utf-8", "surrogatepass")) > METADATA_BYTES_MAX:
        raise InvalidInput(f"commit metadata has at most {METADATA_BYTES_MAX} bytes")


def delete_offsets(state: MetaState, command: DeleteOffsets) -> list[Event]:
    offsets = state.groups.get(command.group, {})
    return [Removed(offsets[shard]) for shard in sorted(command.shards) if shard in offsets]


def delete_group(state: MetaState, command: DeleteGroup) -> list[Event]:
    offsets = state.groups.get(command.group)
    if offsets is None:
        raise NotFound(f"no group {command.group!r}")
    return [Removed(offset) for offset in offsets.values()]

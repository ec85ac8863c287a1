"""What commands on shards and segments change, and when they are refused.

Which state a segment goes to is the table's business (`model/shard.py`); here is what else
must hold.
"""

from __future__ import annotations

from dataclasses import replace

from stratamq.meta.commands import (
    ChangeSegment,
    ConfirmSealed,
    CreateSegment,
    CreateShard,
    DeleteShard,
    RemoveSegment,
    RemoveShard,
    SealSegment,
    UpdateIsr,
)
from stratamq.meta.entities import FIRST_EPOCH, SegmentMeta, ShardMeta, TopicPhase
from stratamq.meta.events import Event, Put, Removed
from stratamq.meta.rules_tier import drop_all
from stratamq.meta.state import MetaState
from stratamq.model.errors import (
    AlreadyExists,
    IllegalTransition,
    InvalidInput,
    NotFound,
    StaleEpoch,
    TopicNotFound,
)
from stratamq.model.shard import SegmentEvent, SegmentState, after, has_leader, shard_name
from stratamq.model.types import EARLIEST, NO_OFFSET, LeaderEpoch, NodeId, ShardName

ONLY_BY_CHANGE = (SegmentEvent.UPLOADED, SegmentEvent.FETCHED_BACK, SegmentEvent.EXPIRED)
"""The other two events carry facts and have commands of their own."""


def create_shard(state: MetaState, command: CreateShard) -> list[Event]:
    meta = state.topic(command.topic_id)
    if meta.phase is TopicPhase.DELETING:
        raise TopicNotFound(f"topic {meta.topic.name!r} is being deleted")
    name = shard_name(command.topic_id, command.partition)
    if name in state.shards:
        return _unless_deleting(state.shards[name])
    before = shard_name(command.topic_id, command.partition - 1)
    if command.partition and before not in state.shards:
        raise InvalidInput(f"{name} would leave a hole: {before} does not exist")
    return [Put(ShardMeta(name=name, topic_id=command.topic_id, partition=command.partition))]


def _unless_deleting(shard: ShardMeta) -> list[Event]:
    if shard.deleting:
        raise AlreadyExists(f"{shard.name} is still being deleted")
    return []


def delete_shard(state: MetaState, command: DeleteShard) -> list[Event]:
    shard = state.shards.get(command.shard)
    if shard is None or shard.deleting:
        return []
    meta = state.topic(shard.topic_id)
    if shard.partition < meta.topic.partitions:
        raise AlreadyExists(f"{shard.name} is in use by topic {meta.topic.name!r}")
    return [Put(replace(shard, deleting=True))]


def remove_shard(state: MetaState, command: RemoveShard) -> list[Event]:
    shard = state.shards.get(command.shard)
    if shard is None:
        return []
    if not shard.deleting:
        raise AlreadyExists(f"{shard.name} is in use: delete it first")
    if shard_name(shard.topic_id, shard.partition + 1) in state.shards:
        raise AlreadyExists(f"{shard.name} is not the last shard of its topic")
    segments: list[Event] = [Removed(segment) for segment in state.segments_of(shard.name)]
    return [*segments, *drop_all(state, shard), Removed(shard)]


def create_segment(state: MetaState, command: CreateSegment) -> list[Event]:
    shard = state.shard(command.shard).name
    _check_replicas(state, command)
    before = state.segments_of(shard)
    if before and command.seq <= before[-1].seq:
        raise AlreadyExists(f"{shard}: segment {command.seq} exists")
    if before and command.seq != before[-1].seq + 1:
        raise InvalidInput(f"{shard}: the next segment is {before[-1].seq + 1}")
    if before and before[-1].start_offset == NO_OFFSET:
        raise AlreadyExists(f"{shard}: segment {before[-1].seq} is registered ahead already")
    return [Put(_new_segment(command, before[-1] if before else None))]


def _new_segment(command: CreateSegment, last: SegmentMeta | None) -> SegmentMeta:
    start, epoch = EARLIEST, FIRST_EPOCH
    if last is not None:
        start, epoch = last.end_offset, LeaderEpoch(last.leader_epoch + 1)
    return SegmentMeta(
        shard=command.shard,
        seq=command.seq,
        start_offset=start,
        replicas=command.replicas,
        leader=command.leader,
        isr=command.replicas,
        leader_epoch=epoch,
    )


def _check_replicas(state: MetaState, command: CreateSegment) -> None:
    nodes = command.replicas
    if not nodes or len(set(nodes)) != len(nodes):
        raise InvalidInput(f"{command.shard}: replicas {nodes} are not distinct nodes")
    for node in nodes:
        if node not in state.nodes:
            raise NotFound(f"{command.shard}: no node {node}")
    if command.leader not in nodes:
        raise InvalidInput(f"{command.shard}: leader {command.leader} is not among {nodes}")


def seal_segment(state: MetaState, command: SealSegment) -> list[Event]:
    segment = _current(state, command.shard, command.seq, command.epoch)
    if segment.start_offset == NO_OFFSET:
        raise IllegalTransition(f"{segment.shard}: segment {segment.seq} has not begun")
    if command.end_offset < segment.start_offset:
        raise InvalidInput(
            f"{segment.shard}: segment {segment.seq} cannot end at {command.end_offset}, "
            f"it starts at {segment.start_offset}"
        )
    sealing = _changed(
        segment,
        state=after(segment.state, SegmentEvent.LIMIT_REACHED),
        end_offset=command.end_offset,
    )
    return [Put(sealing), *_begin_next(state, sealing)]


def _begin_next(state: MetaState, ended: SegmentMeta) -> list[Event]:
    """A segment registered ahead begins where, and under a later leader than, the one before it
    ends."""
    for segment in state.segments_of(ended.shard):
        if segment.seq == ended.seq + 1:
            epoch = LeaderEpoch(max(segment.leader_epoch, ended.leader_epoch + 1))
            begun = _changed(segment, start_offset=ended.end_offset, leader_epoch=epoch)
            return [Put(begun)]
    return []


def confirm_sealed(state: MetaState, command: ConfirmSealed) -> list[Event]:
    segment = _current(state, command.shard, command.seq, command.epoch)
    sealed = _changed(
        segment,
        state=after(segment.state, SegmentEvent.REPLICAS_EQUAL),
        leader=None,
        isr=segment.replicas,
        size_bytes=command.size_bytes,
        checksum=command.checksum,
        first_timestamp=command.first_timestamp,
        max_timestamp=command.max_timestamp,
    )
    return [Put(sealed)]


def change_segment(state: MetaState, command: ChangeSegment) -> list[Event]:
    if command.event not in ONLY_BY_CHANGE:
        raise InvalidInput(f"{command.event} has a command of its own")
    segment = _current(state, command.shard, command.seq, command.epoch)
    if segment.state is SegmentState.ACTIVE:
        raise IllegalTransition(f"{segment.shard}: the active segment goes with its topic only")
    return [Put(_changed(segment, state=after(segment.state, command.event)))]


def remove_segment(state: MetaState, command: RemoveSegment) -> list[Event]:
    segment = state.segment(command.shard, command.seq)
    if segment.state is not SegmentState.DELETING:
        raise IllegalTransition(f"{segment.shard}: segment {segment.seq} is {segment.state}")
    if segment.seq != state.segments_of(segment.shard)[0].seq:
        raise IllegalTransition(f"{segment.shard}: segment {segment.seq} is not the oldest")
    return [Removed(segment)]


def update_isr(state: MetaState, command: UpdateIsr) -> list[Event]:
    segment = _current(state, command.shard, command.seq, command.epoch)
    if not has_leader(segment.state):
        raise IllegalTransition(f"{segment.shard}: segment {segment.seq} is {segment.state}")
    _check_isr(segment, command.isr, command.leader)
    epoch = segment.leader_epoch
    if command.leader not in (None, segment.leader):
        epoch = LeaderEpoch(epoch + 1)
    changed = _changed(segment, isr=command.isr, leader=command.leader, leader_epoch=epoch)
    return [Put(changed)]


def _check_isr(segment: SegmentMeta, isr: tuple[NodeId, ...], leader: NodeId | None) -> None:
    if not isr or len(set(isr)) != len(isr) or not set(isr) <= set(segment.replicas):
        raise InvalidInput(f"{segment.shard}: ISR {isr} is not a part of {segment.replicas}")
    if leader is not None and leader not in isr:
        raise InvalidInput(f"{segment.shard}: leader {leader} is not in sync")


def _current(state: MetaState, shard: ShardName, seq: int, epoch: int) -> SegmentMeta:
    segment = state.segment(shard, seq)
    if segment.epoch != epoch:
        raise StaleEpoch(f"{shard}: segment {seq} is at epoch {segment.epoch}, not {epoch}")
    return segment


def _changed(segment: SegmentMeta, **changes: object) -> SegmentMeta:
    changed = replace(segment, **changes)  # type: ignore[arg-type]
    return replace(changed, epoch=segment.epoch + 1)

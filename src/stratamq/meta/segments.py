"""Segments in the Meta Service: what is stored of one, the commands that change it, their rules,
and its rows.

`model/shard.py` has the table that decides which state follows; here is what else must hold.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from stratamq.meta.rows import Fields, RowFormat
from stratamq.meta.state import Event, MetaState, Put, Removed
from stratamq.model.dataclass import dataclass
from stratamq.model.errors import (
    AlreadyExists,
    IllegalTransition,
    InvalidInput,
    NotFound,
    StaleEpoch,
)
from stratamq.model.shard import SegmentEvent, SegmentState, after, has_leader
from stratamq.model.types import (
    EARLIEST,
    FIRST_EPOCH,
    NO_OFFSET,
    NO_TIMESTAMP,
    LeaderEpoch,
    NodeId,
    Offset,
    ShardName,
    TimestampMs,
)

ONLY_BY_CHANGE = (SegmentEvent.UPLOADED, SegmentEvent.FETCHED_BACK, SegmentEvent.EXPIRED)
"""The other two events carry facts and have commands of their own."""


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


def _segment(fields: Fields) -> SegmentMeta:
    nodes = {name: tuple(fields[name]) for name in ("replicas", "isr")}
    return SegmentMeta(**{**fields, **nodes, "state": SegmentState(fields["state"])})


SEGMENT_ROWS = (
    RowFormat(SegmentMeta, b"g", lambda one: one.shard.encode() + b"/%010d" % one.seq, _segment),
)


# -- commands -------------------------------------------------------------------------------------


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


# -- rules ----------------------------------------------------------------------------------------


def create_segment(state: MetaState, command: CreateSegment) -> list[Event]:
    shard = state.shard(command.shard).name
    _check_replicas(state, command)
    start, epoch = EARLIEST, FIRST_EPOCH
    before = state.segments_of(shard)
    if before:
        last = before[-1]
        if command.seq <= last.seq:
            raise AlreadyExists(f"{shard}: segment {command.seq} exists")
        if command.seq != last.seq + 1:
            raise InvalidInput(f"{shard}: the next segment is {last.seq + 1}")
        if last.start_offset == NO_OFFSET:
            raise AlreadyExists(f"{shard}: segment {last.seq} is registered ahead already")
        start, epoch = last.end_offset, LeaderEpoch(last.leader_epoch + 1)
    new = SegmentMeta(
        shard=shard,
        seq=command.seq,
        start_offset=start,
        replicas=command.replicas,
        leader=command.leader,
        isr=command.replicas,
        leader_epoch=epoch,
    )
    return [Put(new)]


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
    events: list[Event] = [Put(sealing)]
    for ahead in state.segments_of(sealing.shard):
        if ahead.seq == sealing.seq + 1:  # it begins where this one ends, under a later leader
            epoch = LeaderEpoch(max(ahead.leader_epoch, sealing.leader_epoch + 1))
            begun = _changed(ahead, start_offset=sealing.end_offset, leader_epoch=epoch)
            events.append(Put(begun))
    return events


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
    isr, leader = command.isr, command.leader
    if not isr or len(set(isr)) != len(isr) or not set(isr) <= set(segment.replicas):
        raise InvalidInput(f"{segment.shard}: ISR {isr} is not a part of {segment.replicas}")
    if leader is not None and leader not in isr:
        raise InvalidInput(f"{segment.shard}: leader {leader} is not in sync")
    epoch = segment.leader_epoch
    if leader not in (None, segment.leader):
        epoch = LeaderEpoch(epoch + 1)
    return [Put(_changed(segment, isr=isr, leader=leader, leader_epoch=epoch))]


def _current(state: MetaState, shard: ShardName, seq: int, epoch: int) -> SegmentMeta:
    segment = state.segment(shard, seq)
    if segment.epoch != epoch:
        raise StaleEpoch(f"{shard}: segment {seq} is at epoch {segment.epoch}, not {epoch}")
    return segment


def _changed(segment: SegmentMeta, **changes: object) -> SegmentMeta:
    changed = replace(segment, **changes)  # type: ignore[arg-type]
    return replace(changed, epoch=segment.epoch + 1)

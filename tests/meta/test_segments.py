"""Life of a segment as the Meta Service records it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stratamq.meta.apply import Command, apply
from stratamq.meta.segments import (
    ChangeSegment,
    ConfirmSealed,
    CreateSegment,
    RemoveSegment,
    SealSegment,
    SegmentMeta,
    UpdateIsr,
)
from stratamq.meta.state import MetaState, NodeLoad
from stratamq.model.errors import (
    AlreadyExists,
    IllegalTransition,
    InvalidInput,
    NotFound,
    StaleEpoch,
)
from stratamq.model.shard import SegmentEvent, SegmentState, shard_name
from stratamq.model.types import NodeId, Offset
from tests.meta.support import T1, after, creating, topic, with_nodes

SHARD = shard_name(T1, 0)
NODES = (NodeId(1), NodeId(2), NodeId(3))


def segment(seq: int, *nodes: int) -> CreateSegment:
    replicas = tuple(NodeId(node) for node in nodes) or NODES
    return CreateSegment(shard=SHARD, seq=seq, replicas=replicas, leader=replicas[0])


def seal(state: MetaState, seq: int, end: int) -> MetaState:
    epoch = state.segment(SHARD, seq).epoch
    return after(
        SealSegment(shard=SHARD, seq=seq, epoch=epoch, end_offset=Offset(end)), state=state
    )


def confirm(state: MetaState, seq: int) -> MetaState:
    epoch = state.segment(SHARD, seq).epoch
    done = ConfirmSealed(shard=SHARD, seq=seq, epoch=epoch, size_bytes=9, checksum="abc")
    return after(done, state=state)


def change(state: MetaState, seq: int, event: SegmentEvent) -> MetaState:
    epoch = state.segment(SHARD, seq).epoch
    return after(ChangeSegment(shard=SHARD, seq=seq, epoch=epoch, event=event), state=state)


@pytest.fixture
def state() -> MetaState:
    """Three nodes and a shard whose first segment is on all of them, led by node 1."""
    commands = [
        replace(one, replicas=NODES) if isinstance(one, CreateSegment) else one
        for one in creating(topic())
    ]
    return after(*commands, state=with_nodes(1, 2, 3))


def only(state: MetaState) -> SegmentMeta:
    return state.segment(SHARD, 0)


def test_a_new_segment_starts_at_zero_with_everyone_in_sync(state: MetaState) -> None:
    first = only(state)
    assert (first.start_offset, first.state, first.isr) == (0, SegmentState.ACTIVE, NODES)
    assert (first.leader, first.leader_epoch, first.epoch) == (1, 0, 0)


def test_sealing_fixes_the_end_and_a_confirmed_seal_releases_the_leader(state: MetaState) -> None:
    state = seal(state, 0, 100)
    assert (only(state).state, only(state).end_offset, only(state).leader) == (
        SegmentState.SEALING,
        100,
        1,
    )
    state = confirm(state, 0)
    assert (only(state).state, only(state).leader, only(state).isr) == (
        SegmentState.SEALED,
        None,
        NODES,
    )
    assert (only(state).size_bytes, only(state).checksum) == (9, "abc")


def test_the_next_segment_begins_where_the_last_one_ended(state: MetaState) -> None:
    state = after(segment(1, 2, 3), state=seal(state, 0, 100))
    assert state.segment(SHARD, 1).start_offset == 100


def test_a_segment_registered_ahead_learns_its_start_at_the_seal(state: MetaState) -> None:
    state = after(segment(1, 2, 3), state=state)
    assert state.segment(SHARD, 1).start_offset == -1
    with pytest.raises(IllegalTransition):
        seal(state, 1, 5)
    state = seal(state, 0, 100)
    assert state.segment(SHARD, 1).start_offset == 100


def test_only_one_segment_is_registered_ahead(state: MetaState) -> None:
    state = after(segment(1), state=state)
    with pytest.raises(AlreadyExists):
        apply(state, segment(2))


def test_leader_epochs_grow_from_segment_to_segment(state: MetaState) -> None:
    state = after(segment(1, 2), state=state)
    for leader in (2, 3, 1):  # leaders change after the next segment was registered
        epoch = only(state).epoch
        isr = UpdateIsr(shard=SHARD, seq=0, epoch=epoch, isr=NODES, leader=NodeId(leader))
        state = after(isr, state=state)
    assert only(state).leader_epoch == 3
    assert seal(state, 0, 10).segment(SHARD, 1).leader_epoch == 4


def test_an_end_before_the_start_is_refused(state: MetaState) -> None:
    state = after(segment(1), state=seal(state, 0, 100))
    with pytest.raises(InvalidInput):
        seal(state, 1, 99)


@pytest.mark.parametrize(
    "bad",
    [
        segment(0),
        segment(2),
        segment(1, 1, 1),
        segment(1, 1, 9),
        replace(segment(1, 1, 2), leader=NodeId(3)),
        replace(segment(1), replicas=()),
        replace(segment(1), shard=shard_name(T1, 5)),
    ],
    ids=["again", "hole", "twice", "unknown node", "foreign leader", "nobody", "no shard"],
)
def test_segments_that_cannot_be(state: MetaState, bad: Command) -> None:
    with pytest.raises((AlreadyExists, InvalidInput, NotFound)):
        apply(state, bad)


def test_an_isr_change_is_a_compare_and_set(state: MetaState) -> None:
    shrink = UpdateIsr(shard=SHARD, seq=0, epoch=0, isr=NODES[:2], leader=NODES[0])
    state = after(shrink, state=state)
    assert (only(state).isr, only(state).epoch, only(state).leader_epoch) == (NODES[:2], 1, 0)
    with pytest.raises(StaleEpoch):
        apply(state, replace(shrink, isr=NODES[:1]))


def test_a_new_leader_counts_an_epoch_and_a_vacant_chair_does_not(state: MetaState) -> None:
    vacant = UpdateIsr(shard=SHARD, seq=0, epoch=0, isr=NODES, leader=None)
    state = after(vacant, state=state)
    assert (only(state).leader, only(state).leader_epoch) == (None, 0)
    state = after(replace(vacant, epoch=1, leader=NODES[1]), state=state)
    assert (only(state).leader, only(state).leader_epoch) == (2, 1)


@pytest.mark.parametrize(
    ("isr", "leader"), [((), None), ((1, 1), 1), ((1, 9), 1), ((2, 3), 1)], ids=str
)
def test_isrs_that_cannot_be(state: MetaState, isr: tuple[NodeId, ...], leader: NodeId) -> None:
    with pytest.raises(InvalidInput):
        apply(state, UpdateIsr(shard=SHARD, seq=0, epoch=0, isr=isr, leader=leader))


def test_a_sealed_segment_has_no_isr_to_change(state: MetaState) -> None:
    state = confirm(seal(state, 0, 1), 0)
    epoch = only(state).epoch
    with pytest.raises(IllegalTransition):
        apply(state, UpdateIsr(shard=SHARD, seq=0, epoch=epoch, isr=NODES, leader=NODES[0]))


def test_to_the_cold_tier_and_back_and_away(state: MetaState) -> None:
    state = after(segment(1), state=confirm(seal(state, 0, 1), 0))
    for event, expected in [
        (SegmentEvent.UPLOADED, SegmentState.COLD),
        (SegmentEvent.FETCHED_BACK, SegmentState.SEALED),
        (SegmentEvent.EXPIRED, SegmentState.DELETING),
    ]:
        state = change(state, 0, event)
        assert only(state).state is expected
    state = after(RemoveSegment(shard=SHARD, seq=0), state=state)
    assert [one.seq for one in state.segments_of(SHARD)] == [1]


def test_steps_out_of_turn_are_refused(state: MetaState) -> None:
    for event in (SegmentEvent.UPLOADED, SegmentEvent.EXPIRED):
        with pytest.raises(IllegalTransition):
            change(state, 0, event)
    for event in (SegmentEvent.LIMIT_REACHED, SegmentEvent.REPLICAS_EQUAL):
        with pytest.raises(InvalidInput):
            change(state, 0, event)
    with pytest.raises(IllegalTransition):
        apply(state, RemoveSegment(shard=SHARD, seq=0))
    with pytest.raises(IllegalTransition):
        confirm(state, 0)


def test_only_the_oldest_segment_goes(state: MetaState) -> None:
    state = after(segment(1), state=confirm(seal(state, 0, 1), 0))
    state = after(segment(2), state=confirm(seal(state, 1, 2), 1))
    state = change(state, 1, SegmentEvent.EXPIRED)
    with pytest.raises(IllegalTransition):
        apply(state, RemoveSegment(shard=SHARD, seq=1))


def test_loads_count_what_is_written_and_forget_what_is_sealed(state: MetaState) -> None:
    assert state.loads == {1: NodeLoad(1, 1), 2: NodeLoad(0, 1), 3: NodeLoad(0, 1)}
    state = after(segment(1, 3), state=confirm(seal(state, 0, 1), 0))
    assert state.loads == {3: NodeLoad(1, 1)}

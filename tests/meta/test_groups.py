from __future__ import annotations

import pytest

from stratamq.meta.apply import apply
from stratamq.meta.groups import (
    OFFSET_BYTES,
    AddPendingOffsets,
    CommitOffset,
    CommitOffsets,
    DeleteGroup,
    DeleteOffsets,
    EndPendingOffsets,
    SaveGroup,
)
from stratamq.meta.limits import MetaLimits, check_limits
from stratamq.meta.topics import DeleteTopic, RemoveTopic
from stratamq.model.errors import (
    CapacityExceeded,
    InvalidInput,
    InvalidName,
    NotFound,
    ShardNotFound,
    StaleEpoch,
)
from stratamq.model.shard import shard_name
from stratamq.model.types import LeaderEpoch, Offset, TimestampMs
from tests.meta.support import T1, after, topic, with_topic

A, B = shard_name(T1, 0), shard_name(T1, 1)


def commit(group: str = "g", **offsets: int) -> CommitOffsets:
    entries = tuple(
        CommitOffset(shard={"a": A, "b": B}[name], offset=Offset(offset))
        for name, offset in offsets.items()
    )
    return CommitOffsets(group=group, offsets=entries, commit_ms=TimestampMs(5))


def test_a_commit_keeps_all_it_was_given() -> None:
    entry = CommitOffset(shard=A, offset=Offset(3), metadata="here", leader_epoch=LeaderEpoch(2))
    command = CommitOffsets(group="g", offsets=(entry,), commit_ms=TimestampMs(5))
    kept = after(command, state=with_topic()).groups["g"][A]
    assert (kept.offset, kept.metadata, kept.leader_epoch, kept.commit_ms) == (3, "here", 2, 5)


def test_a_later_commit_wins_even_when_it_goes_back() -> None:
    state = after(commit(a=5, b=1), commit(a=2), state=with_topic(topic(partitions=2)))
    assert {shard: one.offset for shard, one in state.groups["g"].items()} == {A: 2, B: 1}


def test_groups_do_not_touch_each_other() -> None:
    state = after(commit(a=5), commit("h", a=6), DeleteGroup(group="g"), state=with_topic())
    assert set(state.groups) == {"h"}


def test_offsets_do_not_move_the_revision() -> None:
    before = with_topic()
    assert after(commit(a=5), state=before).revision == before.revision


def test_one_bad_entry_refuses_the_whole_commit() -> None:
    with pytest.raises(ShardNotFound):
        apply(with_topic(), commit(a=1, b=1))
    with pytest.raises(InvalidInput):
        apply(with_topic(), commit(a=-1))
    with pytest.raises(InvalidName):
        apply(with_topic(), commit("", a=1))
    long = CommitOffset(shard=A, offset=Offset(1), metadata="x" * 4097)
    with pytest.raises(InvalidInput):
        apply(with_topic(), CommitOffsets(group="g", offsets=(long,)))


def test_a_group_without_offsets_is_no_group() -> None:
    state = after(commit(a=5), state=with_topic())
    state = after(DeleteOffsets(group="g", shards=frozenset({A, B})), state=state)
    assert not state.groups
    with pytest.raises(NotFound):
        apply(state, DeleteGroup(group="g"))


def save(epoch: int, group: str = "g", document: str = "{}") -> SaveGroup:
    return SaveGroup(group=group, kind="classic", epoch=epoch, document=document)


def pend(producer_id: int = 7, group: str = "g", **offsets: int) -> AddPendingOffsets:
    entries = commit(group, **offsets).offsets
    return AddPendingOffsets(producer_id=producer_id, group=group, offsets=entries)


def test_members_of_a_group_are_kept_and_go_with_it() -> None:
    state = after(save(1), save(2, document="[]"))
    assert (state.members["g"].epoch, state.members["g"].document) == (2, "[]")
    assert state.revision == 0, "nobody watches groups"
    assert not after(DeleteGroup(group="g"), state=state).members


def test_a_groups_epoch_never_goes_back() -> None:
    with pytest.raises(StaleEpoch):
        apply(after(save(2)), save(1))


def test_pending_offsets_are_committed_by_the_end_of_their_transaction() -> None:
    state = after(commit(a=1), pend(a=5), pend(8, a=9), state=with_topic())
    assert state.groups["g"][A].offset == 1
    end = EndPendingOffsets(producer_id=7, commit=True, commit_ms=TimestampMs(6))
    state = after(end, end, state=state)
    assert (state.groups["g"][A].offset, state.groups["g"][A].commit_ms) == (5, 6)
    assert set(state.pending) == {8}


def test_aborted_offsets_leave_no_trace() -> None:
    before = after(commit(a=1), state=with_topic())
    end = EndPendingOffsets(producer_id=7, commit=False)
    assert after(pend(a=5), end, state=before) == before


def test_pending_offsets_go_with_their_group_and_topic() -> None:
    state = after(pend(a=5), state=with_topic())
    assert not after(DeleteGroup(group="g"), state=state).pending
    gone = after(DeleteTopic(topic_id=T1), RemoveTopic(topic_id=T1), state=state)
    assert not gone.pending


def test_offsets_have_a_size_together() -> None:
    state = after(commit(a=1), state=with_topic(topic(partitions=2)))
    limits = MetaLimits(offset_bytes_max=2 * OFFSET_BYTES + 10)
    for command in (commit(a=2), commit("h", a=2), commit(b=3), pend(a=3)):
        check_limits(state, command, limits)
    state = after(pend(a=3), state=state)
    check_limits(state, commit(a=2), limits)
    for command in (commit(b=1), commit("h", a=1), pend(8, a=1)):
        with pytest.raises(CapacityExceeded, match="offset_bytes_max"):
            check_limits(state, command, limits)
    text = CommitOffset(shard=A, offset=Offset(1), metadata="x" * 11)
    with pytest.raises(CapacityExceeded):
        check_limits(state, CommitOffsets(group="g", offsets=(text,)), limits)
    state = after(EndPendingOffsets(producer_id=7, commit=True), state=state)
    check_limits(state, commit("h", a=2), limits)

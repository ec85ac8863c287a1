"""The consumer state machine (KIP-848), heartbeat by heartbeat."""

from __future__ import annotations

import pytest

from stratamq.broker.kafka.groups.classic.members import Identity
from stratamq.broker.kafka.groups.consumer import target
from stratamq.broker.kafka.groups.consumer.api import complaint
from stratamq.broker.kafka.groups.consumer.members import Partition
from stratamq.broker.kafka.groups.document import dump, load
from stratamq.wire.kafka.protocol import ErrorCode
from tests.broker.groups.consumer_support import REBALANCE_MS, SESSION_MS, A, Rig, report


def numbers(partitions: frozenset[Partition] | None) -> list[int] | None:
    return None if partitions is None else sorted(one.number for one in partitions)


def test_a_lone_member_gets_everything_at_once() -> None:
    rig = Rig(a=3)
    order = rig.join("m1")
    assert (order.error, order.epoch) == (ErrorCode.NONE, 1)
    assert numbers(order.assigned) == [0, 1, 2]
    assert rig.group.state == "Stable"
    quiet = rig.beat("m1", 1)
    assert (quiet.error, quiet.assigned) == (ErrorCode.NONE, None), "nothing new: nothing told"


def test_a_partition_moves_only_after_its_reader_let_it_go() -> None:
    rig = Rig(a=2)
    rig.join("m1")
    assert numbers(rig.join("m2").assigned) == [], "m1 reads both still"
    assert rig.group.state == "Reconciling"
    told = rig.beat("m1", 1)
    assert numbers(told.assigned) == [0]
    assert told.epoch == 1, "it is not there before it has let go"
    assert rig.beat("m2", 2).assigned is None
    assert rig.beat("m1", 1, owned=[0, 1]).epoch == 1, "it says it still reads it"
    assert rig.beat("m1", 1, owned=[0]).epoch == 2
    assert numbers(rig.beat("m2", 2).assigned) == [1]
    assert rig.group.state == "Stable"


def test_a_member_that_does_not_let_go_in_time_is_out() -> None:
    rig = Rig(a=2)
    rig.join("m1")
    rig.join("m2")
    rig.beat("m1", 1)
    for _ in range(REBALANCE_MS // 20_000):
        rig.wait(20_000)
        rig.beat("m1", 1, owned=[0, 1])
        rig.beat("m2", 2)
    assert rig.beat("m1", 1).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert numbers(rig.group.members["m2"].assigned) == [0, 1]


def test_a_silent_member_is_out_and_its_partitions_go_on() -> None:
    rig = Rig(a=2)
    rig.join("m1")
    rig.wait(SESSION_MS - 1)
    rig.join("m2")
    rig.wait(1)
    assert set(rig.group.members) == {"m2"}
    assert rig.group.state == "Assigning"
    assert numbers(rig.beat("m2", 2).assigned) == [0, 1]


def test_leaving_frees_partitions_at_once() -> None:
    rig = Rig(a=2)
    rig.join("m1")
    rig.join("m2")
    assert rig.leave("m1", -1).epoch == -1
    assert numbers(rig.beat("m2", 2).assigned) == [0, 1]
    assert rig.leave("m1", -1).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_topics_that_grow_come_and_go_change_assignments() -> None:
    rig = Rig(a=1)
    rig.join("m1", names=["a", "b"])
    rig.set_topics(a=2)
    assert numbers(rig.beat("m1", 1).assigned) == [0, 1]
    rig.set_topics(a=2, b=1)
    order = rig.beat("m1", 2)
    assert order.assigned is not None
    assert len(order.assigned) == 3
    rig.set_topics(b=1)
    rig.beat("m1", 3)
    order = rig.beat("m1", 3, owned=[])
    assert order.epoch == 4
    rig.set_topics(b=1, c=1)
    assert rig.beat("m1", 4).epoch == 4, "nobody reads c"


def test_a_pattern_follows_topics_as_they_come() -> None:
    rig = Rig(orders=1, other=1)
    order = rig.join("m1", names=None, regex="or.*s")
    assert order.assigned is not None
    assert len(order.assigned) == 1
    rig.set_topics(orders=1, other=1, oreos=2)
    order = rig.beat("m1", 1)
    assert order.assigned is not None
    assert len(order.assigned) == 3


def test_a_changed_subscription_moves_the_group_on() -> None:
    rig = Rig(a=1, b=1)
    rig.join("m1", names=["a"])
    order = rig.send(report("m1", 1, names=frozenset({"b"}), owned=frozenset()))
    assert order.epoch == 2
    assert order.assigned is not None
    assert {one.topic_id for one in order.assigned} == {rig.ids["b"]}


@pytest.mark.parametrize(
    ("epoch", "owned", "error"),
    [
        (2, None, ErrorCode.NONE),
        (1, [], ErrorCode.NONE),  # the answer that told it of epoch 2 got lost
        (1, [0], ErrorCode.NONE),
        (1, [0, 1], ErrorCode.FENCED_MEMBER_EPOCH),
        (1, None, ErrorCode.FENCED_MEMBER_EPOCH),
        (3, None, ErrorCode.FENCED_MEMBER_EPOCH),
    ],
)
def test_epochs_that_a_member_may_be_at(
    epoch: int, owned: list[int] | None, error: ErrorCode
) -> None:
    rig = Rig(a=2)
    rig.join("m1")
    rig.join("m2")
    rig.beat("m1", 1)
    rig.beat("m1", 1, owned=[0])
    order = rig.beat("m1", epoch, owned=owned)
    assert order.error is error
    if error is ErrorCode.NONE and epoch == 1:
        assert numbers(order.assigned) == [0], "what it may have missed is told again"


def test_a_fenced_member_joins_again_under_its_id() -> None:
    rig = Rig(a=1)
    rig.join("m1")
    rig.join("m2")
    assert rig.beat("m1", 7).error is ErrorCode.FENCED_MEMBER_EPOCH
    again = rig.join("m1")
    assert (again.error, again.epoch) == (ErrorCode.NONE, 2)


def test_a_full_group_takes_nobody() -> None:
    rig = Rig(a=1, members_max=1)
    rig.join("m1")
    assert rig.join("m2").error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert rig.join("m1").error is ErrorCode.NONE


# -- static members --------------------------------------------------------------------------------


def test_a_static_member_leaves_for_a_while_and_finds_its_partitions() -> None:
    rig = Rig(a=2)
    rig.join("m1", instance="i1")
    rig.join("m2", instance="i2")
    rig.settle()
    held = rig.group.members["m1"].assigned
    assert rig.join("m3", instance="i1").error is ErrorCode.UNRELEASED_INSTANCE_ID
    assert rig.leave("m1", -2, instance="i1").epoch == -2
    assert rig.beat("m2", 2).assigned is None, "they are kept for it"
    back = rig.join("m3", instance="i1")
    assert (back.error, back.epoch, back.assigned) == (ErrorCode.NONE, 2, held)
    assert rig.beat("m1", 2, instance="i1").error is ErrorCode.FENCED_INSTANCE_ID
    assert rig.leave("m1", -1, instance="i1").error is ErrorCode.FENCED_INSTANCE_ID


def test_a_static_member_that_stays_away_is_out() -> None:
    rig = Rig(a=1)
    rig.join("m1", instance="i1")
    rig.leave("m1", -2, instance="i1")
    rig.wait(SESSION_MS)
    assert rig.group.state == "Empty"
    assert rig.leave("m1", -2, instance="i1").error is ErrorCode.UNKNOWN_MEMBER_ID


# -- offsets ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("member_id", "epoch", "error"),
    [
        ("m1", 1, ErrorCode.NONE),
        ("m1", 0, ErrorCode.STALE_MEMBER_EPOCH),
        ("m1", 2, ErrorCode.STALE_MEMBER_EPOCH),
        ("who", 1, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", -1, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_who_may_commit(member_id: str, epoch: int, error: ErrorCode) -> None:
    rig = Rig(a=1)
    rig.join("m1")
    who = Identity(member_id, None, epoch)
    assert rig.group.commit_error(rig.now_ms, who, epochs=True) is error


def test_outsiders_commit_while_nobody_is_there_or_in_a_transaction() -> None:
    rig = Rig(a=1)
    outsider = Identity("", None, -1)
    assert rig.group.commit_error(rig.now_ms, outsider, epochs=True) is ErrorCode.NONE
    rig.join("m1")
    error = rig.group.commit_error(rig.now_ms, outsider, epochs=False, transactional=True)
    assert error is ErrorCode.NONE


# -- sense and memory ------------------------------------------------------------------------------

GOOD = {"rebalance_ms": 1, "names": frozenset({"a"}), "owned": frozenset()}


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({}, None),
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"instance_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"rack_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"rebalance_ms": None}, ErrorCode.INVALID_REQUEST),
        ({"names": None}, ErrorCode.INVALID_REQUEST),
        ({"owned": frozenset({Partition(A, 0)})}, ErrorCode.INVALID_REQUEST),
        ({"epoch": -2}, ErrorCode.INVALID_REQUEST),
        ({"epoch": -3}, ErrorCode.INVALID_REQUEST),
        ({"assignor": "mine"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
        ({"regex": "("}, ErrorCode.INVALID_REGULAR_EXPRESSION),
    ],
)
def test_heartbeats_without_sense(change: dict[str, object], error: ErrorCode | None) -> None:
    made = report(**{"member_id": "m", "epoch": 0, **GOOD, **change})  # type: ignore[arg-type]
    order = complaint("g", made)
    assert (None if order is None else order.error) is error


def test_most_members_choose_the_assignor() -> None:
    rig = Rig(a=1)
    for number, assignor in enumerate(["range", "range", "uniform"]):
        rig.join(f"m{number}", assignor=assignor)
    assert rig.group.target.assignor == "range"


def test_a_restart_changes_nothing() -> None:
    rig = Rig(a=3, b=2)
    rig.join("m1", names=["a", "b"])
    rig.join("m2", names=None, regex="a|b", instance="i2")
    rig.beat("m1", 1)
    before = rig.group
    rig.group = load(before.kind, dump(before), before.epoch, before.limits, rig.now_ms)
    assert dump(rig.group) == dump(before)
    epoch = rig.group.epoch
    rig.settle()
    assert rig.group.state == "Stable"
    assert rig.group.epoch == epoch, "the same topics as before: nothing to assign anew"
    rig.wait(SESSION_MS)
    assert not rig.group.members


# -- patterns over very many topics ----------------------------------------------------------------


@pytest.fixture
def few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "WORK_MAX", 20)


@pytest.mark.usefixtures("few_at_a_time")
def test_a_search_goes_on_with_the_next_heartbeat() -> None:
    rig = Rig(**{f"t{number:02d}": 1 for number in range(30)})
    order = rig.join("m1", names=None, regex="t.*")
    assert (order.error, order.assigned) == (ErrorCode.NONE, frozenset())
    assert order.epoch > 0
    rig.settle()
    assert len(rig.group.members["m1"].assigned) == 30
    epoch = rig.group.epoch
    rig.settle()
    assert rig.group.epoch == epoch, "when all is found, nothing moves any more"
    rig.join("m2", names=None, regex="t.*")
    rig.settle()
    assert [len(one.assigned) for one in rig.group.members.values()] == [15, 15]


@pytest.mark.usefixtures("few_at_a_time")
def test_members_keep_what_they_have_while_a_search_is_under_way() -> None:
    rig = Rig(**{f"t{number:02d}": 1 for number in range(30)})
    rig.join("m1", names=None, regex="t.*")
    rig.settle()
    group = rig.group
    rig.group = load(group.kind, dump(group), group.epoch, group.limits, rig.now_ms)
    rig.join("m2", names=None, regex="t.*")
    for _ in range(10):
        had = rig.group.members["m1"].assigned
        rig.send(report("m1", rig.group.members["m1"].epoch, owned=had))
        assert len(rig.group.members["m1"].assigned) in (30, 15), "not less in between"
    rig.settle()
    assert [len(one.assigned) for one in rig.group.members.values()] == [15, 15]
    rig.set_topics(**{f"t{number:02d}": 1 for number in range(40)})
    rig.settle()
    assert [len(one.assigned) for one in rig.group.members.values()] == [20, 20]

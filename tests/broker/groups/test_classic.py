"""The classic state machine, call by call, without a clock or an event loop."""

from __future__ import annotations

import itertools

import pytest

from stratamq.broker.kafka.groups.classic.members import Identity, JoinReply, SyncReply
from stratamq.broker.kafka.groups.classic.phases import (
    TRANSITIONS,
    ClassicEvent,
    ClassicState,
    step,
)
from stratamq.broker.kafka.groups.document import dump, load
from stratamq.wire.kafka.protocol import ErrorCode
from tests.broker.groups.classic_support import REBALANCE_MS, SESSION_MS, Driver


@pytest.mark.parametrize(("state", "event"), list(itertools.product(ClassicState, ClassicEvent)))
def test_a_step_is_in_the_table_or_a_bug(state: ClassicState, event: ClassicEvent) -> None:
    if (state, event) in TRANSITIONS:
        assert step(state, event) is TRANSITIONS[state, event]
    else:
        with pytest.raises(KeyError):
            step(state, event)


def test_a_lone_member_joins_leads_and_is_assigned() -> None:
    driver = Driver()
    reply = driver.join()
    assert reply is not None
    assert (reply.error, reply.generation, reply.leader) == (ErrorCode.NONE, 1, "m1")
    assert [one.member_id for one in reply.members] == ["m1"]
    synced = driver.sync("m1", 1, {"m1": b"all"})
    assert synced == SyncReply(protocol_type="consumer", protocol="range", assignment=b"all")
    assert driver.group.state is ClassicState.STABLE
    assert driver.heartbeat("m1", 1) is ErrorCode.NONE


def test_new_clients_get_an_id_before_they_join() -> None:
    driver = Driver()
    reply = driver.join(version=4)
    assert reply == JoinReply(error=ErrorCode.MEMBER_ID_REQUIRED, member_id="m1")
    assert driver.group.state is ClassicState.EMPTY
    joined = driver.join("m1", version=4)
    assert joined is not None
    assert (joined.error, joined.generation) == (ErrorCode.NONE, 1)


def test_an_id_that_is_not_used_in_time_is_worth_nothing() -> None:
    driver = Driver()
    driver.join(version=4)
    driver.wait(SESSION_MS)
    reply = driver.join("m1", version=4)
    assert reply is not None
    assert reply.error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_second_member_makes_the_first_rejoin() -> None:
    driver = Driver()
    driver.stable("m1")
    assert driver.join(ticket="second") is None, "the second waits for the first"
    assert driver.heartbeat("m1", 1) is ErrorCode.REBALANCE_IN_PROGRESS
    first = driver.join("m1")
    assert first is not None
    assert (first.generation, first.leader, len(first.members)) == (2, "m1", 2)
    second = driver.late("second")
    assert isinstance(second, JoinReply)
    assert (second.generation, second.leader, second.members) == (2, "m1", ())


def test_members_wait_for_the_leaders_assignment() -> None:
    driver = Driver()
    driver.stable("m1")
    driver.join(ticket="second")
    driver.join("m1")
    (second,) = (one.member_id for one in driver.group.roster if one.member_id != "m1")
    assert driver.sync(second, 2) is None
    assert driver.sync("m1", 2, {"m1": b"a", second: b"b"}) is not None
    late = driver.late(second)
    assert isinstance(late, SyncReply)
    assert late.assignment == b"b"
    again = driver.sync(second, 2)
    assert again is not None
    assert again.assignment == b"b", "a lost answer is given again"


def test_the_first_rebalance_waits_for_more_members() -> None:
    driver = Driver(delay_ms=3_000)
    assert driver.join(ticket="a") is None
    driver.wait(2_000)
    assert driver.join(ticket="b") is None
    driver.wait(1_500)
    assert not driver.answers, "somebody came: it waits once more"
    driver.wait(2_500)
    replies = [driver.late("a"), driver.late("b")]
    assert {one.generation for one in replies if isinstance(one, JoinReply)} == {1}


def test_who_does_not_rejoin_in_time_is_out() -> None:
    driver = Driver()
    driver.stable("m1")
    driver.join(ticket="second")
    for _ in range(REBALANCE_MS // 5_000 - 1):
        driver.wait(5_000)
        driver.heartbeat("m1", 1)
    assert "second" not in driver.answers
    driver.wait(5_000)
    reply = driver.late("second")
    assert isinstance(reply, JoinReply)
    assert len(reply.members) == 1
    assert driver.heartbeat("m1", 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_silent_member_is_out_after_its_session() -> None:
    driver = Driver()
    driver.stable("m1")
    driver.wait(SESSION_MS - 1)
    assert driver.heartbeat("m1", 1) is ErrorCode.NONE
    driver.wait(SESSION_MS)
    assert driver.heartbeat("m1", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert (driver.group.state, driver.group.epoch) == (ClassicState.EMPTY, 2)


def test_a_member_that_joins_but_never_syncs_is_out() -> None:
    driver = Driver()
    driver.stable("m1")
    driver.join(ticket="second")
    driver.join("m1")
    for _ in range(REBALANCE_MS // 5_000):
        driver.wait(5_000)
        for member in driver.group.roster:
            driver.heartbeat(member.member_id, driver.group.epoch)
    assert len(driver.group.roster) == 0, "neither the leader nor the other came to sync"


def test_leaving_starts_a_rebalance_and_the_last_one_empties_the_group() -> None:
    driver = Driver()
    driver.stable("m1")
    assert driver.leave("nobody") is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.leave("m1") is ErrorCode.NONE
    assert (driver.group.state, driver.group.epoch) == (ClassicState.EMPTY, 2)
    assert driver.group.delete(driver.now_ms) is ErrorCode.NONE
    assert driver.heartbeat("m1", 2) is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_group_with_members_is_not_deleted() -> None:
    driver = Driver()
    driver.stable("m1")
    assert driver.group.delete(driver.now_ms) is ErrorCode.NON_EMPTY_GROUP


@pytest.mark.parametrize(
    ("member_id", "generation", "error"),
    [
        ("m1", 1, ErrorCode.NONE),
        ("m1", 0, ErrorCode.ILLEGAL_GENERATION),
        ("m1", 2, ErrorCode.ILLEGAL_GENERATION),
        ("who", 1, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", -1, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_who_may_do_what_in_a_stable_group(
    member_id: str, generation: int, error: ErrorCode
) -> None:
    driver = Driver()
    driver.stable("m1")
    who = Identity(member_id, None, generation)
    assert driver.heartbeat(member_id, generation) is error
    assert driver.group.commit_error(driver.now_ms, who) is error
    synced = driver.sync(member_id, generation)
    assert synced is not None
    assert synced.error is error


def test_commits_between_join_and_sync_are_too_early() -> None:
    driver = Driver()
    driver.join()
    who = Identity("m1", None, 1)
    assert driver.group.commit_error(0, who) is ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.group.commit_error(0, who, transactional=True) is ErrorCode.NONE


def test_anyone_may_commit_for_an_empty_group() -> None:
    driver = Driver()
    assert driver.group.commit_error(0, Identity("", None, -1)) is ErrorCode.NONE
    assert driver.group.commit_error(0, Identity("m", None, 0)) is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"session_ms": 5_999}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": ("other",)}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"member_id": "who"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_joins_that_are_refused(change: dict[str, object], error: ErrorCode) -> None:
    driver = Driver()
    driver.stable("m1")
    reply = driver.join(**change)  # type: ignore[arg-type]
    assert reply is not None
    assert reply.error is error
    assert driver.group.state is ClassicState.STABLE


def test_a_full_group_takes_nobody_but_its_members() -> None:
    driver = Driver(members_max=1)
    driver.stable("m1")
    reply = driver.join()
    assert reply is not None
    assert reply.error is ErrorCode.GROUP_MAX_SIZE_REACHED
    again = driver.join("m1")
    assert again is not None
    assert again.error is ErrorCode.NONE


def test_the_protocol_is_one_that_all_know() -> None:
    driver = Driver()
    driver.join(protocols=("sticky", "range", "cooperative"))
    driver.join(ticket="b", protocols=("cooperative", "range"))
    driver.join("m1", protocols=("sticky", "range", "cooperative"))
    assert driver.group.protocol in ("range", "cooperative")
    assert driver.group.state is ClassicState.COMPLETING


def test_a_leader_that_rejoins_a_stable_group_starts_a_rebalance() -> None:
    driver = Driver()
    driver.stable("m1")
    reply = driver.join("m1")
    assert reply is not None
    assert reply.generation == 2


def test_a_follower_that_rejoins_unchanged_gets_the_same_answer_again() -> None:
    driver = Driver()
    driver.stable("m1")
    driver.join(ticket="b")
    driver.join("m1")
    (other,) = (one.member_id for one in driver.group.roster if one.member_id != "m1")
    reply = driver.join(other)
    assert reply is not None
    assert (reply.generation, driver.group.state) == (2, ClassicState.COMPLETING)
    changed = driver.join(other, metadata=b"new")
    assert changed is None
    assert driver.group.state is ClassicState.PREPARING


def static_group(version: int = 9) -> Driver:
    driver = Driver()
    driver.join(instance="i1", version=version)
    driver.sync("m1", 1, {"m1": b"mine"})
    return driver


def test_a_static_member_comes_back_without_a_rebalance() -> None:
    driver = static_group()
    reply = driver.join(instance="i1", version=9)
    assert reply is not None
    assert (reply.error, reply.generation, reply.member_id) == (ErrorCode.NONE, 1, "m2")
    assert (reply.leader, reply.skip_assignment) == ("m2", True)
    synced = driver.sync("m2", 1)
    assert synced is not None
    assert synced.assignment == b"mine"
    assert driver.heartbeat("m1", 1, "i1") is ErrorCode.FENCED_INSTANCE_ID
    assert driver.leave("m1", "i1") is ErrorCode.FENCED_INSTANCE_ID


def test_an_older_static_leader_that_comes_back_is_not_told_that_it_leads() -> None:
    driver = static_group(version=8)
    reply = driver.join(instance="i1", version=8)
    assert reply is not None
    assert (reply.member_id, reply.leader, reply.members) == ("m2", "m1", ())


def test_an_administrator_removes_a_static_member_by_instance() -> None:
    driver = static_group()
    assert driver.leave("", "nobody") is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.leave("", "i1") is ErrorCode.NONE
    assert driver.group.state is ClassicState.EMPTY


def test_a_static_member_keeps_its_place_through_a_rebalance_it_misses() -> None:
    driver = Driver()
    driver.join(instance="i1", session_ms=REBALANCE_MS * 2)
    driver.sync("m1", 1, {})
    driver.join(ticket="b")
    driver.wait(REBALANCE_MS)
    reply = driver.late("b")
    assert isinstance(reply, JoinReply)
    assert {one.instance_id for one in reply.members} == {"i1", None}
    assert reply.leader == reply.member_id, "who is not there does not lead"


@pytest.mark.parametrize("phase", ["completing", "stable", "empty"])
def test_a_restart_forgets_nothing_that_members_need(phase: str) -> None:
    driver = Driver()
    driver.join(instance="i1", metadata=b"\xff\x00")
    if phase != "completing":
        driver.sync("m1", 1, {"m1": b"\x01"})
    if phase == "empty":
        driver.leave("m1")
    assert driver.group.changed
    before = driver.group
    driver.group = load(before.kind, dump(before), before.epoch, before.limits, driver.now_ms)
    assert dump(driver.group) == dump(before)
    if phase == "completing":
        assert driver.sync("m1", 1, {"m1": b"\x01"}) is not None
    if phase != "empty":
        assert driver.heartbeat("m1", 1) is ErrorCode.NONE
        again = driver.sync("m1", 1)
        assert again is not None
        assert again.assignment == b"\x01"
        driver.wait(SESSION_MS)
    assert driver.group.state is ClassicState.EMPTY

"""The bounds of fetch sessions; what they tell is tested through Fetch."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from stratamq.broker.kafka.errors import Refused
from stratamq.broker.kafka.fetch import sessions as fetch_sessions
from stratamq.broker.kafka.fetch.sessions import IDLE_MS_MIN, FetchPlan, FetchSessions
from stratamq.meta.topics import TOPIC_NAME_MAX
from stratamq.wire.kafka.protocol import ErrorCode
from stratamq.wire.kafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic

ALICE, MALLORY = "User:alice", "User:mallory"
SETTINGS = {"max_wait_ms": 0, "min_bytes": 1}


def topics(*numbers: int) -> list[FetchTopic]:
    parts = [FetchPartition(partition=n, fetch_offset=0, partition_max_bytes=1) for n in numbers]
    return [FetchTopic(topic="t", partitions=parts)] if parts else []


def opened(sessions: FetchSessions, now_ms: int, *numbers: int) -> FetchPlan:
    request = FetchRequest(topics=topics(*(numbers or (0,))), session_epoch=0, **SETTINGS)
    return sessions.plan(request, ALICE, by_id=False, now_ms=now_ms)


def going_on(
    sessions: FetchSessions, plan: FetchPlan, epoch: int, *numbers: int, now: int = 0
) -> FetchPlan:
    request = FetchRequest(
        topics=topics(*numbers), session_id=plan.session_id, session_epoch=epoch, **SETTINGS
    )
    return sessions.plan(request, ALICE, by_id=False, now_ms=now)


def test_no_more_than_allowed_and_the_idle_go_first() -> None:
    sessions = FetchSessions(2, 1000)
    first, second = opened(sessions, 0), opened(sessions, 1)
    assert opened(sessions, 2).session_id == 0, "both are in use"
    going_on(sessions, first, 1, now=10)
    third = opened(sessions, IDLE_MS_MIN + 5)
    assert third.session_id not in (0, first.session_id, second.session_id)
    assert len(sessions) == 2
    with pytest.raises(Refused) as refusal:
        going_on(sessions, second, 1)
    assert refusal.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_partitions_are_counted_over_all_sessions() -> None:
    sessions = FetchSessions(10, 3)
    first = opened(sessions, 0, 0, 1)
    assert opened(sessions, 0, 0, 1).session_id == 0
    with pytest.raises(Refused):
        going_on(sessions, first, 1, 5, 6)
    assert len(sessions) == 0
    assert opened(sessions, 0, 0, 1, 2).session_id > 0


def test_idle_sessions_make_way_for_the_partitions_of_a_new_one() -> None:
    """Their clients may be long gone."""
    sessions = FetchSessions(10, 6)
    first, second = opened(sessions, 0, 0, 1), opened(sessions, 1, 0, 1)
    busy = opened(sessions, 2, 0, 1)
    assert opened(sessions, 3, *range(4)).session_id == 0, "all are in use"
    assert opened(sessions, IDLE_MS_MIN, *range(7)).session_id == 0, "more than there may be"
    going_on(sessions, busy, 1, now=IDLE_MS_MIN)
    assert opened(sessions, IDLE_MS_MIN + 1, *range(4)).session_id > 0
    for gone in (first, second):
        with pytest.raises(Refused):
            going_on(sessions, gone, 1)
    assert going_on(sessions, busy, 2, now=IDLE_MS_MIN).session_id == busy.session_id


def test_names_that_no_topic_can_have_are_not_stored() -> None:
    """They may have 32 KB each, in as many partitions as there may be."""
    sessions = FetchSessions(10, 1000)
    long = [replace(one, topic="t" * (TOPIC_NAME_MAX + 1)) for one in topics(0)]
    first = FetchRequest(topics=long, session_epoch=0, **SETTINGS)
    assert sessions.plan(first, ALICE, by_id=False, now_ms=0).session_id == 0
    plan = opened(sessions, 0)
    more = FetchRequest(topics=long, session_id=plan.session_id, session_epoch=1, **SETTINGS)
    with pytest.raises(Refused) as refusal:
        sessions.plan(more, ALICE, by_id=False, now_ms=0)
    assert refusal.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(sessions) == 0


def test_names_and_ids_do_not_mix() -> None:
    sessions = FetchSessions(10, 1000)
    plan = opened(sessions, 0)
    request = FetchRequest(topics=[], session_id=plan.session_id, session_epoch=1, **SETTINGS)
    with pytest.raises(Refused) as refusal:
        sessions.plan(request, ALICE, by_id=True, now_ms=0)
    assert refusal.value.code is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_the_epoch_goes_round() -> None:
    sessions = FetchSessions(10, 1000)
    plan = opened(sessions, 0)
    session = going_on(sessions, plan, 1).session
    assert session is not None
    session.epoch = fetch_sessions.EPOCH_MAX
    going_on(sessions, plan, fetch_sessions.EPOCH_MAX)
    assert session.epoch == 1


def test_opening_a_new_one_closes_the_old() -> None:
    sessions = FetchSessions(10, 1000)
    plan = opened(sessions, 0)
    request = FetchRequest(
        topics=topics(0), session_id=plan.session_id, session_epoch=0, **SETTINGS
    )
    assert sessions.plan(request, ALICE, by_id=False, now_ms=0).session_id != plan.session_id
    assert len(sessions) == 1


def test_the_session_of_another_principal_does_not_exist() -> None:
    """Going on with it, closing it and a number that no session has: one answer."""
    sessions = FetchSessions(10, 1000)
    plan = opened(sessions, 0)
    for number, epoch in ((plan.session_id, 1), (plan.session_id, 7), (12_345, 1)):
        request = FetchRequest(topics=[], session_id=number, session_epoch=epoch, **SETTINGS)
        with pytest.raises(Refused) as refusal:
            sessions.plan(request, MALLORY, by_id=False, now_ms=0)
        assert refusal.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    for epoch in (-1, 0):
        request = FetchRequest(
            topics=[], session_id=plan.session_id, session_epoch=epoch, **SETTINGS
        )
        assert sessions.plan(request, MALLORY, by_id=False, now_ms=0).session_id == 0
    assert going_on(sessions, plan, 1).session_id == plan.session_id


def test_ids_cannot_be_guessed() -> None:
    sessions = FetchSessions(100, 1000)
    ids = [opened(sessions, 0).session_id for _ in range(100)]
    assert len(set(ids)) == 100
    assert all(0 < one < 1 << 31 for one in ids)
    steps = {later - earlier for earlier, later in itertools.pairwise(ids)}
    assert len(steps) > 90
    assert max(ids) > 1 << 28, "drawn from all numbers"

"""Classic groups through their requests, on a real node, in every version."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stratamq.model.errors import StorageError
from stratamq.wire.kafka.protocol import ErrorCode
from stratamq.wire.kafka.protocol.messages.groups import (
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    LeavingMember,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from tests.broker.groups.node_support import Node
from tests.waiting import let_run, until


async def join(
    node: Node,
    member_id: str = "",
    *,
    version: int = 9,
    group: str = "g",
    instance: str | None = None,
    session_ms: int = 30_000,
) -> Any:
    """A member as clients do it: once more when the first answer was but an id."""
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=session_ms if version >= 1 else -1,
        member_id=member_id,
        group_instance_id=instance if version >= 5 else None,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"m")],
    )
    answer = await node.ask(request, version)
    if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        assert version >= 4
        return await join(node, answer.member_id, version=version, group=group)
    return answer


async def sync(node: Node, joined: Any, version: int = 5, **assignments: bytes) -> Any:
    given = {name: data for name, data in assignments.items() if name != "me"}
    if "me" in assignments:
        given[joined.member_id] = assignments["me"]
    request = SyncGroupRequest(
        group_id="g",
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        protocol_type="consumer" if version >= 5 else None,
        protocol_name="range" if version >= 5 else None,
        assignments=[
            SyncGroupRequestAssignment(member_id=one, assignment=data)
            for one, data in given.items()
        ],
    )
    return await node.ask(request, version)


async def heartbeat(node: Node, joined: Any, version: int = 4) -> int:
    request = HeartbeatRequest(
        group_id="g", generation_id=joined.generation_id, member_id=joined.member_id
    )
    code: int = (await node.ask(request, version)).error_code
    return code


async def until_told_to_rejoin(node: Node, joined: Any) -> None:
    async def is_told() -> bool:
        return await heartbeat(node, joined) == ErrorCode.REBALANCE_IN_PROGRESS

    await until(is_told, "a rebalance")


@pytest.mark.parametrize("version", range(7))
async def test_this_node_coordinates_everything(node: Node, version: int) -> None:
    if version >= 4:
        request = FindCoordinatorRequest(key_type=1, coordinator_keys=["a", "b"])
        found = (await node.ask(request, version)).coordinators
        assert [one.key for one in found] == ["a", "b"]
    else:
        found = [await node.ask(FindCoordinatorRequest(key="a"), version)]
    places = {(one.error_code, one.node_id, one.host, one.port) for one in found}
    assert places == {(0, 1, "127.0.0.1", 19092)}


async def test_nobody_coordinates_what_is_not_known(node: Node) -> None:
    request = FindCoordinatorRequest(key_type=7, coordinator_keys=["a"])
    (found,) = (await node.ask(request)).coordinators
    assert (found.error_code, found.node_id) == (ErrorCode.INVALID_REQUEST, -1)


@pytest.mark.parametrize("version", range(10))
async def test_joining_syncing_staying_and_leaving(node: Node, version: int) -> None:
    joined = await join(node, version=version)
    assert (joined.error_code, joined.generation_id) == (0, 1)
    assert (joined.leader, joined.protocol_name) == (joined.member_id, "range")
    assert [one.metadata for one in joined.members] == [b"m"]
    synced = await sync(node, joined, min(version, 5), me=b"mine")
    assert (synced.error_code, synced.assignment) == (0, b"mine")
    assert await heartbeat(node, joined, min(version, 4)) == 0
    version = min(version, 5)
    if version >= 3:
        leaving = [LeavingMember(member_id=joined.member_id), LeavingMember(member_id="who")]
        left = await node.ask(LeaveGroupRequest(group_id="g", members=leaving), version)
        codes = [one.error_code for one in left.members]
        assert (left.error_code, codes) == (0, [0, ErrorCode.UNKNOWN_MEMBER_ID])
    else:
        request = LeaveGroupRequest(group_id="g", member_id=joined.member_id)
        assert (await node.ask(request, version)).error_code == 0
    assert await heartbeat(node, joined) == ErrorCode.UNKNOWN_MEMBER_ID


async def test_two_members_meet_and_one_falls_silent(node: Node) -> None:
    first = await join(node, session_ms=30_000)
    await sync(node, first, me=b"all")
    second = asyncio.create_task(join(node, version=3, session_ms=150))
    await until_told_to_rejoin(node, first)
    first = await join(node, first.member_id)
    other = await asyncio.wait_for(second, 5)
    assert first.generation_id == other.generation_id == 2
    waiting = asyncio.create_task(sync(node, other))
    await asyncio.sleep(0)
    await sync(node, first, **{first.member_id: b"1", other.member_id: b"2"})
    assert (await asyncio.wait_for(waiting, 5)).assignment == b"2"
    await until_told_to_rejoin(node, first)  # when the other's session has passed
    assert (await join(node, first.member_id)).generation_id == 3


async def test_members_go_on_after_a_restart(node: Node) -> None:
    joined = await join(node, instance="i")
    await sync(node, joined, me=b"mine")
    await node.restart()
    assert await heartbeat(node, joined) == 0
    assert (await sync(node, joined)).assignment == b"mine"
    again = await join(node, instance="i")
    assert (again.generation_id, again.skip_assignment) == (1, True)
    assert (await join(node, again.member_id, version=3)).generation_id == 2


async def test_a_generation_is_known_after_a_crash_in_the_middle_of_a_rebalance(
    node: Node,
) -> None:
    joined = await join(node)
    await node.restart()
    assert (await sync(node, joined, me=b"mine")).assignment == b"mine"
    await node.ask(
        LeaveGroupRequest(group_id="g", members=[LeavingMember(member_id=joined.member_id)])
    )
    await node.restart()
    assert (await join(node)).generation_id == 3, "generations only grow"


async def test_unknown_groups_have_no_members(node: Node) -> None:
    joined = await join(node, "who")
    assert joined.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert (await sync(node, joined)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert await heartbeat(node, joined) == ErrorCode.UNKNOWN_MEMBER_ID
    assert (await join(node, group="")).error_code == ErrorCode.INVALID_GROUP_ID


async def test_a_newer_sync_names_the_protocol(node: Node) -> None:
    joined = await join(node)
    request = SyncGroupRequest(
        group_id="g", generation_id=1, member_id=joined.member_id, assignments=[]
    )
    code = (await node.ask(request, 5)).error_code
    assert code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


async def test_nothing_is_told_that_could_not_be_stored(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    joined = await join(node)
    state = node.groups.coordinator.find("g")
    assert state is not None

    async def fail(*_: object) -> None:
        raise StorageError("no disk")

    with monkeypatch.context() as patch:
        patch.setattr(state, "_store", fail)
        failed = await sync(node, joined, me=b"mine")
        assert failed.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert failed.assignment == b""
    assert (await sync(node, joined)).assignment == b"mine"
    await node.restart()
    assert (await sync(node, joined)).assignment == b"mine", "it was stored with the next event"


async def test_others_who_wait_are_not_told_either(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await join(node)
    await sync(node, first, me=b"all")
    second = asyncio.create_task(join(node, version=3))
    await until_told_to_rejoin(node, first)
    first = await join(node, first.member_id)
    other = await asyncio.wait_for(second, 5)
    waiting = asyncio.create_task(sync(node, other))
    state = node.groups.coordinator.find("g")
    assert state is not None

    async def fail(*_: object) -> None:
        raise StorageError("no disk")

    await let_run()
    monkeypatch.setattr(state, "_store", fail)
    await sync(node, first, **{first.member_id: b"1", other.member_id: b"2"})
    told = await asyncio.wait_for(waiting, 5)
    assert (told.error_code, told.assignment) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, b"")


async def test_a_leader_that_hangs_up_while_its_assignment_is_stored(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await join(node)
    await sync(node, first, me=b"all")
    second = asyncio.create_task(join(node, version=3))
    await until_told_to_rejoin(node, first)
    first = await join(node, first.member_id)
    other = await asyncio.wait_for(second, 5)
    waiting = asyncio.create_task(sync(node, other))
    state = node.groups.coordinator.find("g")
    assert state is not None
    begun, go_on, store = asyncio.Event(), asyncio.Event(), state._store

    async def slow(name: str, group: Any) -> None:
        begun.set()
        await go_on.wait()
        await store(name, group)

    monkeypatch.setattr(state, "_store", slow)
    leader = asyncio.create_task(
        sync(node, first, **{first.member_id: b"1", other.member_id: b"2"})
    )
    await asyncio.wait_for(begun.wait(), 5)
    leader.cancel()
    await asyncio.wait([leader])
    go_on.set()
    assert (await asyncio.wait_for(waiting, 5)).assignment == b"2"


async def test_nobody_who_waits_holds_up_a_stop(node: Node) -> None:
    first = await join(node)
    await sync(node, first, me=b"all")
    waiting = asyncio.create_task(join(node, version=3))
    await until_told_to_rejoin(node, first)
    node.groups.wake_all()
    unavailable = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (await asyncio.wait_for(waiting, 5)).error_code == unavailable
    assert (await join(node, version=3)).error_code == unavailable
    assert (await join(node, version=3, group="new")).error_code == unavailable
    await node.restart()
    assert await heartbeat(node, first) == 0, "as if nobody had come"


async def test_a_client_that_hangs_up_holds_up_nobody(node: Node) -> None:
    first = await join(node)
    await sync(node, first, me=b"all")
    gone = asyncio.create_task(join(node, version=3))
    await until_told_to_rejoin(node, first)
    gone.cancel()
    assert (await asyncio.wait_for(join(node, first.member_id), 5)).generation_id == 2

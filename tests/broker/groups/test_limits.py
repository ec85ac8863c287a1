"""What members may make a node remember: refused by name above the limits, at once and for good."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from stratamq.broker.kafka.groups.limits import GROUP_BYTES, GroupLimit, weight
from stratamq.wire.kafka.protocol import ErrorCode
from stratamq.wire.kafka.protocol.messages.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from stratamq.wire.kafka.protocol.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
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
from stratamq.wire.kafka.protocol.messages.groups_admin import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
)
from tests.broker.groups.node_support import Node
from tests.waiting import until

MIB = 1 << 20
KIB = 1024
TIGHT = {
    "group_member_bytes_max": 64 * KIB,
    "group_assignment_bytes_max": 64 * KIB,
    "group_bytes_max": 256 * KIB,
    "groups_bytes_max": MIB,
}


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    made = Node(tmp_path / "data", **TIGHT)
    await made.start()
    await made.services.topics.create("t", partitions=4)
    yield made
    await made.stop()


def used(node: Node) -> int:
    return node.groups.coordinator.limits.usage.used


async def join(
    node: Node, member_id: str = "", *, size: int = 10, group: str = "g", **more: Any
) -> Any:
    """In version 3 a member needs no id to join."""
    protocols = more.get("protocols") or [("range", b"m" * size)]
    return await node.ask(
        JoinGroupRequest(
            group_id=group,
            session_timeout_ms=30_000,
            rebalance_timeout_ms=30_000,
            member_id=member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=a, metadata=b) for a, b in protocols],
        ),
        more.get("version", 3),
        more.get("client", "c"),
    )


async def sync(node: Node, joined: Any, assignments: dict[str, bytes], group: str = "g") -> Any:
    return await node.ask(
        SyncGroupRequest(
            group_id=group,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=[
                SyncGroupRequestAssignment(member_id=one, assignment=data)
                for one, data in assignments.items()
            ],
        ),
        3,
    )


async def leave(node: Node, group: str, *members: str) -> Any:
    leaving = [LeavingMember(member_id=one) for one in members]
    return await node.ask(LeaveGroupRequest(group_id=group, members=leaving))


async def beat(node: Node, member: str = "m", epoch: int = 0, **more: Any) -> Any:
    given = {"subscribed_topic_names": ["t"], "topic_partitions": []} if epoch == 0 else {}
    return await node.ask(
        ConsumerGroupHeartbeatRequest(
            group_id=more.pop("group", "g"),
            member_id=member,
            member_epoch=epoch,
            rebalance_timeout_ms=1000 if epoch == 0 else -1,
            **{**given, **more},
        )
    )


# -- one member ------------------------------------------------------------------------------------


async def test_a_member_that_says_too_much_is_refused_and_nothing_is_kept(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            answer = await join(node, size=65 * KIB)
            assert ErrorCode(answer.error_code) is ErrorCode.MESSAGE_TOO_LARGE
    assert node.groups.coordinator.find("g") is None
    assert used(node) == 0
    lines = [one.message for one in caplog.records if GroupLimit.MEMBER in one.message]
    assert len(lines) == 1, "named in the log, but not once for each request"
    assert (await join(node, size=60 * KIB)).error_code == 0


@pytest.mark.parametrize(
    "more",
    [
        {"protocols": [(f"p{number}", b"") for number in range(400)]},
        {"client": "c" * 30_000, "protocols": [("range", b"m" * 50_000)]},
        {"protocols": [("ü" * 9_000, b""), ("ä" * 9_000, b"")]},
    ],
    ids=["many small protocols", "a long client id", "names that are wide in memory"],
)
async def test_all_that_is_kept_counts(node: Node, more: dict[str, Any]) -> None:
    assert ErrorCode((await join(node, **more)).error_code) is ErrorCode.MESSAGE_TOO_LARGE


async def test_a_heartbeat_that_says_too_much_is_refused(node: Node) -> None:
    names = [f"topic-{number}-{'x' * 200}" for number in range(300)]
    answer = await beat(node, subscribed_topic_names=names)
    assert ErrorCode(answer.error_code) is ErrorCode.INVALID_REQUEST
    assert GroupLimit.MEMBER in answer.error_message
    assert node.groups.coordinator.find("g") is None
    joined = await beat(node)
    assert joined.error_code == 0
    for more in (
        {"subscribed_topic_names": names},
        {"rack_id": "r" * 66_000},
        {"topic_partitions": [TopicPartitions(topic_id=bytes(16), partitions=[*range(5000)])]},
    ):
        answer = await beat(node, epoch=joined.member_epoch, **more)
        assert ErrorCode(answer.error_code) is ErrorCode.INVALID_REQUEST
    assert (await beat(node, epoch=joined.member_epoch)).error_code == 0


# -- assignments -----------------------------------------------------------------------------------


async def test_a_leader_that_assigns_too_much_is_refused_and_the_others_go_on(node: Node) -> None:
    first = await join(node)
    answer = await sync(node, first, {first.member_id: b"a" * 65 * KIB})
    assert ErrorCode(answer.error_code) is ErrorCode.MESSAGE_TOO_LARGE
    beaten = await node.ask(
        HeartbeatRequest(group_id="g", generation_id=first.generation_id, member_id=first.member_id)
    )
    assert ErrorCode(beaten.error_code) is ErrorCode.REBALANCE_IN_PROGRESS
    again = await join(node, first.member_id)
    assert again.generation_id == first.generation_id + 1
    assert (await sync(node, again, {first.member_id: b"a" * 60 * KIB})).error_code == 0
    assert used(node) > 60 * KIB


async def test_assignments_count_for_the_group(node: Node) -> None:
    joined = await join(node)
    strangers = {f"s{number}": b"a" * 60 * KIB for number in range(10)}
    assert (await sync(node, joined, strangers)).error_code == 0
    assert used(node) < 10 * KIB, "what is assigned to nobody is not kept"


# -- a group, all groups ---------------------------------------------------------------------------


async def test_a_group_has_a_size(node: Node) -> None:
    """All but the first wait for the first to rejoin; what they said is kept meanwhile."""
    first = await join(node, size=60 * KIB)
    waiting = [asyncio.create_task(join(node, size=60 * KIB)) for _ in range(3)]
    await until(lambda: used(node) > 240 * KIB)
    refused = await join(node, size=60 * KIB)
    assert ErrorCode(refused.error_code) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert used(node) <= 256 * KIB
    await leave(node, "g", first.member_id)
    answers = await asyncio.gather(*waiting)
    assert [one.error_code for one in answers] == [0, 0, 0]
    assert used(node) < 200 * KIB
    more = asyncio.create_task(join(node, size=60 * KIB))
    for one in answers:
        await leave(node, "g", one.member_id)
    assert (await more).error_code == 0


async def test_all_groups_have_a_size(node: Node) -> None:
    full = [await join(node, group=f"g{number}", size=60 * KIB) for number in range(17)]
    codes = [ErrorCode(one.error_code) for one in full]
    assert codes == [ErrorCode.NONE] * 16 + [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    names = ["t" * 200 + str(number) for number in range(200)]
    answer = await beat(node, group="consumers", subscribed_topic_names=names)
    assert ErrorCode(answer.error_code) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert used(node) <= MIB
    await leave(node, "g0", full[0].member_id)
    assert (await beat(node, group="consumers", subscribed_topic_names=names)).error_code == 0


async def test_ids_that_nobody_uses_count(node: Node) -> None:
    client = "c" * 10_000
    codes = [ErrorCode((await join(node, version=9, client=client)).error_code) for _ in range(60)]
    assert codes[0] is ErrorCode.MEMBER_ID_REQUIRED
    assert codes[-1] is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert used(node) <= 256 * KIB


async def test_groups_with_ids_that_nobody_uses_count(node: Node) -> None:
    for number in range(600):
        answer = await join(node, group=f"g{number}", version=9)
    assert ErrorCode(answer.error_code) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    groups = len(node.groups.coordinator.states)
    assert groups * GROUP_BYTES <= used(node) <= MIB


async def test_a_deleted_group_counts_no_more(node: Node) -> None:
    joined = await join(node, size=60 * KIB)
    assert used(node) > 60 * KIB
    await leave(node, "g", joined.member_id)
    assert used(node) == 0
    await node.ask(DeleteGroupsRequest(groups_names=["g", "g"]))
    assert used(node) == 0


async def test_groups_that_were_left_do_not_keep_others_from_joining(node: Node) -> None:
    """500 of them would be more than all groups may take. They are still there."""
    for number in range(500):
        joined = await join(node, group=f"g{number}")
        assert joined.error_code == 0, number
        await leave(node, f"g{number}", joined.member_id)
    assert used(node) == 0
    assert not node.groups.coordinator.states
    listed = (await node.ask(ListGroupsRequest(states_filter=[], types_filter=[]))).groups
    assert len(listed) == 500
    assert {(one.group_state, one.protocol_type) for one in listed} == {("Empty", "consumer")}
    described = await node.ask(DescribeGroupsRequest(groups=["g7", "g8"]))
    assert [one.group_state for one in described.groups] == ["Empty", "Empty"]
    again = await join(node, group="g7")
    assert again.generation_id > joined.generation_id, "its epoch goes on"
    await node.ask(DeleteGroupsRequest(groups_names=["g8"]))
    await node.restart()
    coordinator = node.groups.coordinator
    assert set(coordinator.states) == {"g7"}
    assert len(coordinator.names()) == 499


async def test_a_group_whose_first_member_is_refused_is_not_there(node: Node) -> None:
    for number in range(500):
        answer = await node.ask(
            JoinGroupRequest(
                group_id=f"refused{number}",
                session_timeout_ms=1,
                rebalance_timeout_ms=1,
                member_id="",
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
            ),
            3,
        )
        assert ErrorCode(answer.error_code) is ErrorCode.INVALID_SESSION_TIMEOUT
    assert used(node) == 0
    assert not node.groups.coordinator.names()


async def test_what_was_stored_under_larger_limits_goes_on(tmp_path: Path) -> None:
    node = Node(tmp_path / "data")
    await node.start()
    first = await join(node, size=500 * KIB)
    assigned = {first.member_id: b"a" * 900 * KIB}
    assert (await sync(node, first, assigned)).error_code == 0
    await node.stop()

    node = Node(tmp_path / "data", **{**TIGHT, "group_member_bytes_max": 600 * KIB})
    await node.start()
    assert used(node) > 1400 * KIB
    beat = HeartbeatRequest(
        group_id="g", generation_id=first.generation_id, member_id=first.member_id
    )
    assert (await node.ask(beat)).error_code == 0
    again = await join(node, first.member_id, size=500 * KIB)
    assert (again.error_code, again.generation_id) == (0, first.generation_id + 1)
    more = await join(node, first.member_id, size=550 * KIB)
    assert ErrorCode(more.error_code) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert (await sync(node, again, {first.member_id: b"a"})).error_code == 0
    assert used(node) < 600 * KIB
    await node.stop()


# -- answers ---------------------------------------------------------------------------------------


async def test_nothing_is_answered_twice(node: Node) -> None:
    joined = await join(node, size=60 * KIB)
    await sync(node, joined, {joined.member_id: b"a" * 60 * KIB})
    described = await node.ask(DescribeGroupsRequest(groups=["g", "h"] * 100))
    assert [one.group_id for one in described.groups] == ["g", "h"]
    consumers = await node.ask(
        ConsumerGroupDescribeRequest(
            group_ids=["g", "h"] * 100, include_authorized_operations=False
        )
    )
    assert [one.group_id for one in consumers.groups] == ["g", "h"]
    found = await node.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"] * 100))
    assert [one.key for one in found.coordinators] == ["g"]


async def test_an_offset_is_answered_once(node: Node) -> None:
    place = OffsetCommitRequestPartition(
        partition_index=1, committed_offset=5, committed_metadata="x" * 4000
    )
    await node.ask(
        OffsetCommitRequest(
            group_id="g",
            generation_id_or_member_epoch=-1,
            member_id="",
            topics=[OffsetCommitRequestTopic(name="t", partitions=[place])],
        ),
        8,
    )
    topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[1, 2] * 50)] * 50
    groups = [OffsetFetchRequestGroup(group_id="g", topics=topics)] * 50
    (answer,) = (await node.ask(OffsetFetchRequest(groups=groups), 9)).groups
    (topic,) = answer.topics
    places = [(one.partition_index, one.committed_offset) for one in topic.partitions]
    assert places == [(1, 5), (2, -1)]
    everything = [*groups, OffsetFetchRequestGroup(group_id="g", topics=None)]
    (answer,) = (await node.ask(OffsetFetchRequest(groups=everything), 9)).groups
    assert [one.partition_index for one in answer.topics[0].partitions] == [1]


async def test_no_more_leave_at_a_time_than_there_may_be(tmp_path: Path) -> None:
    node = Node(tmp_path / "data", group_max_size=3)
    await node.start()
    answer = await leave(node, "g", *"abcd")
    assert (ErrorCode(answer.error_code), answer.members) == (ErrorCode.INVALID_REQUEST, [])
    assert len((await leave(node, "g", *"abc")).members) == 3
    await node.stop()


def test_weights() -> None:
    assert weight("abc", None, b"abcd") == 207
    assert weight("üüü") == 112

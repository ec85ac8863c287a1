"""Describe, list and delete groups of both protocols; from one protocol to the other; expiry."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from stratamq.meta.groups import CommitOffset
from stratamq.model.clock import ManualClock
from stratamq.model.types import Offset
from stratamq.wire.kafka.protocol import ErrorCode, encode_embedded
from stratamq.wire.kafka.protocol.messages.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from stratamq.wire.kafka.protocol.messages.groups import (
    ConsumerProtocolSubscription,
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
from tests.broker.groups.test_offsets_api import commit, delete, fetch, shard


async def classic_member(node: Node, group: str = "g", *topics: str) -> Any:
    """A member that has its assignment."""
    metadata = encode_embedded(ConsumerProtocolSubscription(topics=topics or ("t",)), 0)
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=30_000,
        member_id="",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
    )
    joined = await node.ask(request, 3)
    if joined.error_code == 0:
        given = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"mine")
        synced = SyncGroupRequest(
            group_id=group,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=[given],
        )
        assert (await node.ask(synced, 3)).error_code == 0
    return joined


async def classic_leave(node: Node, joined: Any, group: str = "g") -> None:
    leaving = [LeavingMember(member_id=joined.member_id)]
    await node.ask(LeaveGroupRequest(group_id=group, members=leaving))


async def consumer_beat(node: Node, epoch: int = 0, group: str = "g", **fields: Any) -> Any:
    if epoch == 0:
        first = {"rebalance_timeout_ms": 1000, "topic_partitions": []}
        fields = {**first, "subscribed_topic_names": ["t"], **fields}
    member = fields.pop("member_id", "me")
    version = fields.pop("version", 1)
    request = ConsumerGroupHeartbeatRequest(
        group_id=group, member_id=member, member_epoch=epoch, **fields
    )
    return await node.ask(request, version)


# -- the consumer protocol -------------------------------------------------------------------------


async def test_a_consumer_joins_is_described_and_leaves(node: Node) -> None:
    joined = await consumer_beat(node, instance_id="i")
    assert (joined.error_code, joined.member_epoch, joined.heartbeat_interval_ms) == (0, 1, 5000)
    (given,) = joined.assignment.topic_partitions
    assert given.partitions == [0, 1, 2, 3]
    for version in (0, 1):
        request = ConsumerGroupDescribeRequest(
            group_ids=["g", "x"], include_authorized_operations=True
        )
        found, missing = (await node.ask(request, version)).groups
        assert (found.group_state, found.group_epoch, found.assignor_name) == (
            "Stable", 1, "uniform",
        )  # fmt: skip
        (member,) = found.members
        assert member.assignment == member.target_assignment
        assert member.assignment.topic_partitions[0].topic_name == "t"
        assert (member.instance_id, member.subscribed_topic_names) == ("i", ["t"])
        assert missing.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    left = await consumer_beat(node, -1, instance_id="i")
    assert (left.error_code, left.member_epoch) == (0, -1)


async def test_an_older_consumer_is_given_its_id(node: Node) -> None:
    joined = await consumer_beat(node, member_id="", version=0)
    assert joined.error_code == 0
    assert joined.member_id
    refused = await consumer_beat(node, member_id="", version=1)
    assert refused.error_code == ErrorCode.INVALID_REQUEST


async def test_consumers_go_on_after_a_restart(node: Node) -> None:
    joined = await consumer_beat(node)
    await node.restart()
    again = await consumer_beat(node, joined.member_epoch)
    assert (again.error_code, again.member_epoch, again.assignment) == (0, 1, None)


async def test_consumers_hear_of_new_partitions(node: Node) -> None:
    await consumer_beat(node)
    await node.services.topics.add_partitions("t", 5)
    told = await consumer_beat(node, 1)
    assert told.member_epoch == 2
    assert told.assignment.topic_partitions[0].partitions == [0, 1, 2, 3, 4]


async def test_members_commit_and_fetch_by_their_epoch(node: Node) -> None:
    await consumer_beat(node)
    assert await commit(node, {0: 1}, generation=1, member="me") == {0}
    assert await commit(node, {0: 1}, generation=2, member="me") == {ErrorCode.STALE_MEMBER_EPOCH}
    assert await commit(node, {0: 1}, generation=1, member="x") == {ErrorCode.UNKNOWN_MEMBER_ID}
    assert await commit(node, {0: 1}, 8, generation=1, member="me") == {
        ErrorCode.UNSUPPORTED_VERSION
    }
    assert await fetch(node, [0], member="me", epoch=1) == {0: 1}
    assert await fetch(node, [0], member="me", epoch=2) is ErrorCode.STALE_MEMBER_EPOCH
    assert await fetch(node, [0], member="x", epoch=1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert await fetch(node, [0]) == {0: 1}


async def test_a_consumer_that_nobody_knows(node: Node) -> None:
    assert (await consumer_beat(node, 3)).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    await consumer_beat(node)
    answer = await consumer_beat(node, 3, member_id="x")
    assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    owned = [TopicPartitions(topic_id=bytes(16), partitions=[0])]
    answer = await consumer_beat(node, 9, topic_partitions=owned)
    assert answer.error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert answer.error_message


# -- from one protocol to the other ----------------------------------------------------------------


async def test_an_empty_group_may_change_its_protocol_both_ways(node: Node) -> None:
    joined = await classic_member(node)
    await classic_leave(node, joined)
    upgraded = await consumer_beat(node)
    assert (upgraded.error_code, upgraded.member_epoch) == (0, 3), "past the last generation"
    await consumer_beat(node, -1)
    await node.restart()
    downgraded = await classic_member(node)
    assert (downgraded.error_code, downgraded.generation_id) == (0, 5)


# -- describe, list, delete ------------------------------------------------------------------------


async def test_a_classic_group_is_described(node: Node) -> None:
    joined = await classic_member(node)
    await commit(node, {0: 1}, generation=1, member=joined.member_id)
    for version in range(7):
        asked = DescribeGroupsRequest(groups=["g", "x"], include_authorized_operations=version >= 3)
        found, missing = (await node.ask(asked, version)).groups
        assert (found.group_state, found.protocol_type, found.protocol_data) == (
            "Stable", "consumer", "range",
        )  # fmt: skip
        (member,) = found.members
        assert (member.client_id, member.client_host) == ("client", "/127.0.0.1")
        assert (member.member_assignment, bool(member.member_metadata)) == (b"mine", True)
        expected = ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else ErrorCode.NONE
        assert (missing.group_state, missing.error_code) == ("Dead", expected)


async def listed(node: Node, version: int = 5, **filters: Any) -> dict[str, tuple[str, str, str]]:
    answer = await node.ask(ListGroupsRequest(**filters), version)
    return {
        one.group_id: (one.protocol_type, one.group_state, one.group_type) for one in answer.groups
    }


async def test_groups_are_listed_by_state_and_type(node: Node) -> None:
    await classic_member(node, "classic")
    await consumer_beat(node, group="new")
    await commit(node, {0: 1})
    everything = await listed(node)
    assert everything == {
        "classic": ("consumer", "Stable", "classic"),
        "g": ("", "Empty", "classic"),
        "new": ("consumer", "Stable", "consumer"),
    }
    assert set(await listed(node, types_filter=["Consumer"])) == {"new"}
    assert set(await listed(node, 4, states_filter=["stable"])) == {"classic", "new"}
    assert set(await listed(node, 0)) == set(everything)


async def deleted(node: Node, *groups: str) -> list[int]:
    answer = await node.ask(DeleteGroupsRequest(groups_names=list(groups)))
    return [one.error_code for one in answer.results]


async def test_groups_without_members_are_deleted_for_good(node: Node) -> None:
    joined = await classic_member(node)
    await commit(node, {0: 1}, generation=1, member=joined.member_id)
    await consumer_beat(node, group="new")
    refused = await deleted(node, "g", "new", "x", "")
    in_use, missing = ErrorCode.NON_EMPTY_GROUP, ErrorCode.GROUP_ID_NOT_FOUND
    assert refused == [in_use, in_use, missing, ErrorCode.INVALID_GROUP_ID]
    await classic_leave(node, joined)
    await consumer_beat(node, -1, group="new")
    assert await deleted(node, "g", "new") == [0, 0]
    await node.restart()
    assert await listed(node) == {}
    assert await fetch(node, None) == {}
    assert not node.services.meta.state.members


async def test_groups_are_deleted_also_where_offsets_are_cached(tmp_path: Path) -> None:
    node = Node(tmp_path / "data", offset_store="cache")
    await node.start()
    await node.services.topics.create("t", partitions=2)
    joined = await classic_member(node)
    await commit(node, {0: 1}, generation=1, member=joined.member_id)
    await node.groups.pending.add("g", 7, [CommitOffset(shard=shard(node, 1), offset=Offset(4))])
    await node.groups.pending.commit(7)
    assert await fetch(node, None) == {0: 1, 1: 4}
    await classic_leave(node, joined)
    assert await deleted(node, "g") == [0]
    await node.restart()
    assert await listed(node) == {}
    await node.stop()


async def test_a_group_that_only_has_offsets_is_deleted(node: Node) -> None:
    await commit(node, {0: 1})
    assert await deleted(node, "g") == [0]
    assert await listed(node) == {}


async def test_offsets_that_a_group_reads_are_not_deleted(node: Node) -> None:
    await node.services.topics.create("other")
    joined = await classic_member(node)
    await commit(node, {0: 1}, generation=1, member=joined.member_id)
    assert await delete(node, 0) == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]
    assert await delete(node, 0, topic="other") == [0]
    await classic_leave(node, joined)
    assert await delete(node, 0) == [0]


# -- expiry ----------------------------------------------------------------------------------------


async def test_offsets_expire_only_after_the_group_was_left(tmp_path: Path) -> None:
    clock = ManualClock()
    node = Node(tmp_path / "data", clock=clock, offsets_retention_minutes=2)
    await node.start()
    await node.services.topics.create("t", partitions=2)
    joined = await classic_member(node)
    await commit(node, {0: 1}, generation=1, member=joined.member_id)
    clock.advance(29_000)  # within its session, yet with the wall clock far ahead below
    await classic_leave(node, joined)
    clock.advance(119_000)
    await node.groups.coordinator.sweep()
    assert await fetch(node, None) == {0: 1}
    clock.advance(1_000)
    await node.groups.coordinator.sweep()
    assert await listed(node) == {}
    assert not node.services.meta.state.members
    await node.stop()


async def test_offsets_of_topics_that_members_read_never_expire(tmp_path: Path) -> None:
    clock = ManualClock()
    node = Node(tmp_path / "data", clock=clock, offsets_retention_minutes=1)
    await node.start()
    await node.services.topics.create("t", partitions=2)
    await commit(node, {0: 1})
    await node.groups.pending.add("h", 1, [CommitOffset(shard=shard(node, 0), offset=Offset(1))])
    await consumer_beat(node)
    clock.advance(60_000)  # the member's timer follows the real clock: it is still there
    await node.groups.coordinator.sweep()
    assert await fetch(node, None) == {0: 1}
    await node.stop()

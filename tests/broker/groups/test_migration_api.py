"""A group with members of both protocols through its requests, on a real node that is restarted."""

from __future__ import annotations

from typing import Any

import pytest

from stratamq.meta.configs import EVERY_BROKER, AlterResourceConfig
from stratamq.wire.kafka.protocol import ErrorCode
from stratamq.wire.kafka.protocol.messages.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from stratamq.wire.kafka.protocol.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    LeavingMember,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from stratamq.wire.kafka.protocol.messages.groups_admin import ListGroupsRequest
from tests.broker.groups.migration_support import assignment, subscription
from tests.broker.groups.node_support import Node
from tests.broker.groups.test_offsets_api import commit, fetch

NONE, REJOIN = ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS


async def join(node: Node, member_id: str = "", version: int = 9, **more: Any) -> Any:
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        member_id=member_id,
        group_instance_id=more.get("instance"),
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription(["t"]))],
    )
    answer = await node.ask(request, version)
    if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        return await join(node, answer.member_id, version)
    return answer


async def sync(node: Node, joined: Any, **assignments: bytes) -> Any:
    given = {joined.member_id if name == "me" else name: one for name, one in assignments.items()}
    request = SyncGroupRequest(
        group_id="g",
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[
            SyncGroupRequestAssignment(member_id=name, assignment=one)
            for name, one in given.items()
        ],
    )
    return await node.ask(request)


async def heartbeat(node: Node, joined: Any) -> ErrorCode:
    request = HeartbeatRequest(
        group_id="g", generation_id=joined.generation_id, member_id=joined.member_id
    )
    return ErrorCode((await node.ask(request)).error_code)


async def beat(node: Node, epoch: int = 0, owned: list[int] | None = None) -> Any:
    topic_id = bytes.fromhex(node.services.broker_cache.topic("t").topic_id)
    joins = epoch == 0
    has = None if owned is None else [TopicPartitions(topic_id=topic_id, partitions=owned)]
    return await node.ask(
        ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id="n",
            member_epoch=epoch,
            rebalance_timeout_ms=30_000 if joins else -1,
            subscribed_topic_names=["t"] if joins else None,
            topic_partitions=[] if joins else has,
        )
    )


async def kind(node: Node) -> str:
    (listed,) = (await node.ask(ListGroupsRequest())).groups
    return str(listed.group_type)


@pytest.mark.parametrize("restarts", [False, True])
async def test_up_and_down_again(node: Node, restarts: bool) -> None:
    async def perhaps_restart() -> None:
        if restarts:
            await node.restart()

    first = await join(node)
    four = assignment([("t", number) for number in range(4)])
    await sync(node, first, me=four)
    committed = {"generation": first.generation_id, "member": first.member_id}
    assert await commit(node, {0: 7}, 8, **committed) == {0}
    await perhaps_restart()
    new = await beat(node)
    assert (new.error_code, new.member_epoch) == (0, first.generation_id + 1)
    assert not new.assignment.topic_partitions
    assert await kind(node) == "consumer"
    await perhaps_restart()
    assert await commit(node, {0: 8}, 8, **committed) == {0}, "its last before it rejoins"
    assert await heartbeat(node, first) is REJOIN
    again = await join(node, first.member_id)
    assert again.generation_id == new.member_epoch
    await perhaps_restart()
    assert len((await sync(node, again)).assignment) < len(four)
    assert (await beat(node, new.member_epoch)).assignment.topic_partitions
    request = ConsumerGroupDescribeRequest(group_ids=["g"], include_authorized_operations=False)
    (described,) = (await node.ask(request)).groups
    types = {one.member_id: one.member_type for one in described.members}
    assert types == {first.member_id: 0, "n": 1}
    assert described.group_state == "Stable"
    assert await fetch(node, [0], member="n", epoch=new.member_epoch) == {0: 8}
    assert (await beat(node, -1)).error_code == 0
    await perhaps_restart()
    assert await kind(node) == "classic"
    assert await heartbeat(node, again) is REJOIN
    last = await join(node, first.member_id)
    assert (last.error_code, last.leader) == (0, first.member_id)
    assert last.generation_id > again.generation_id
    assert await fetch(node, [0]) == {0: 8}


async def test_a_classic_member_comes_and_goes(node: Node) -> None:
    epoch = (await beat(node)).member_epoch
    joined = await join(node, version=5)
    assert (joined.error_code, joined.generation_id) == (0, epoch + 1)
    assert joined.leader != joined.member_id
    assert (await sync(node, joined)).error_code == 0
    left = await node.ask(
        LeaveGroupRequest(group_id="g", members=[LeavingMember(member_id=joined.member_id)])
    )
    assert [one.error_code for one in left.members] == [0]
    assert await kind(node) == "consumer"


async def set_policy(node: Node, policy: str) -> None:
    alteration = AlterResourceConfig(
        scope=EVERY_BROKER, put={"group.consumer.migration.policy": policy}
    )
    revision = await node.services.meta.submit(alteration)
    await node.services.configs.wait_for_revision(revision, 10)


async def test_the_policy_can_be_changed_while_the_node_runs(node: Node) -> None:
    joined = await join(node)
    await sync(node, joined, me=b"")
    await set_policy(node, "disabled")
    refused = await beat(node)
    assert ErrorCode(refused.error_code) is ErrorCode.GROUP_ID_NOT_FOUND
    assert "group.consumer.migration.policy" in refused.error_message
    await set_policy(node, "upgrade")
    assert (await beat(node)).error_code == 0
    await beat(node, -1)
    assert await kind(node) == "consumer", "classic members go on in it"
    assert await heartbeat(node, joined) is REJOIN

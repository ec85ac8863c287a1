"""Consumer groups: list, describe, set their offsets, delete them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stratamq.client.cluster import TopicPartition
from stratamq.client.connection import NodeConnection
from stratamq.client.failures import check
from stratamq.client.router import GROUP, Router, gathered
from stratamq.model.errors import NotFound, StrataError
from stratamq.wire.kafka.protocol import ErrorCode, ProtocolError, decode_embedded
from stratamq.wire.kafka.protocol.messages.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from stratamq.wire.kafka.protocol.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from stratamq.wire.kafka.protocol.messages.groups import ConsumerProtocolAssignment
from stratamq.wire.kafka.protocol.messages.groups_admin import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)

CONSUMER = "consumer"
"""The type of groups of KIP-848; all others are `classic`."""

_HAS_MEMBERS = (
    ErrorCode.NON_EMPTY_GROUP,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.STALE_MEMBER_EPOCH,
)


class GroupNotEmpty(StrataError):
    """A group has members, and what was asked for needs one without."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSummary:
    name: str
    state: str
    kind: str
    protocol: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMemberView:
    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assigned: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    name: str
    state: str
    kind: str
    assignor: str
    members: tuple[GroupMemberView, ...]

    @property
    def is_live(self) -> bool:
        return bool(self.members) or self.state not in ("Empty", "Dead")


async def list_groups(router: Router) -> list[GroupSummary]:
    """All that the caller may see, by name."""

    async def once() -> list[GroupSummary]:
        servers = (await router.cluster([])).nodes.values()
        nodes = [await router.node(server) for server in servers]
        request = ListGroupsRequest()
        answers = await gathered(
            [node.ask(request, ListGroupsResponse, router.request_s) for node in nodes]
        )
        found: list[GroupSummary] = []
        for answer in answers:
            check(answer.error_code, "groups")
            found += (
                GroupSummary(
                    name=one.group_id,
                    state=one.group_state,
                    kind=one.group_type.lower() or "classic",
                    protocol=one.protocol_type,
                )
                for one in answer.groups
            )
        return sorted(found, key=lambda one: one.name)

    return await router.retried(once)


async def describe_group(router: Router, group: str) -> GroupView:
    """Of either protocol. NotFound when no node has the group."""
    try:
        return await _describe_consumer(router, group)
    except NotFound:
        return await _describe_classic(router, group)


async def _describe_consumer(router: Router, group: str) -> GroupView:
    request = ConsumerGroupDescribeRequest(group_ids=[group], include_authorized_operations=False)

    async def once(node: NodeConnection) -> GroupView:
        response = await node.ask(request, ConsumerGroupDescribeResponse, router.request_s)
        answer = response.groups[0]
        check(answer.error_code, f"group {group!r}", answer.error_message)
        members = tuple(
            GroupMemberView(
                member_id=one.member_id,
                instance_id=one.instance_id,
                client_id=one.client_id,
                host=one.client_host.removeprefix("/"),
                assigned=tuple(
                    TopicPartition(topic.topic_name, partition)
                    for topic in one.assignment.topic_partitions
                    for partition in topic.partitions
                ),
            )
            for one in answer.members
        )
        return GroupView(
            name=group,
            state=answer.group_state,
            kind=CONSUMER,
            assignor=answer.assignor_name,
            members=members,
        )

    return await router.on_coordinator(GROUP, group, once)


async def _describe_classic(router: Router, group: str) -> GroupView:
    request = DescribeGroupsRequest(groups=[group])

    async def once(node: NodeConnection) -> GroupView:
        response = await node.ask(request, DescribeGroupsResponse, router.request_s)
        answer = response.groups[0]
        check(answer.error_code, f"group {group!r}", answer.error_message)
        if answer.group_state == "Dead":  # what brokers before version 6 say of unknown groups
            raise NotFound(f"there is no group {group!r}")
        members = tuple(
            GroupMemberView(
                member_id=one.member_id,
                instance_id=one.group_instance_id,
                client_id=one.client_id,
                host=one.client_host.removeprefix("/"),
                assigned=_assigned(bytes(one.member_assignment)),
            )
            for one in answer.members
        )
        return GroupView(
            name=group,
            state=answer.group_state,
            kind="classic",
            assignor=answer.protocol_data,
            members=members,
        )

    return await router.on_coordinator(GROUP, group, once)


def _assigned(assignment: bytes) -> tuple[TopicPartition, ...]:
    """Empty where members speak among themselves what is not Kafka's consumer protocol."""
    if not assignment:
        return ()
    try:
        _, read = decode_embedded(ConsumerProtocolAssignment, assignment)
    except ProtocolError:
        return ()
    return tuple(
        TopicPartition(topic.topic, partition)
        for topic in read.assigned_partitions
        for partition in topic.partitions
    )


async def set_offsets(router: Router, group: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Commit for a group without members; GroupNotEmpty when it has some."""
    by_topic: dict[str, list[OffsetCommitRequestPartition]] = {}
    for place, offset in offsets.items():
        entry = OffsetCommitRequestPartition(
            partition_index=place.partition, committed_offset=offset, committed_metadata=""
        )
        by_topic.setdefault(place.topic, []).append(entry)
    request = OffsetCommitRequest(
        group_id=group,
        member_id="",
        topics=[
            OffsetCommitRequestTopic(name=name, partitions=some) for name, some in by_topic.items()
        ],
    )

    async def once(node: NodeConnection) -> None:
        answer = await node.ask(request, OffsetCommitResponse, router.request_s)
        for topic in answer.topics:
            for part in topic.partitions:
                place = TopicPartition(topic.name, part.partition_index)
                _check(part.error_code, group, f"offset of group {group!r} for {place}")

    await router.on_coordinator(GROUP, group, once)


async def delete_group(router: Router, group: str) -> None:
    """With all its offsets. GroupNotEmpty when it has members, NotFound when it does not exist."""
    request = DeleteGroupsRequest(groups_names=[group])

    async def once(node: NodeConnection) -> None:
        response = await node.ask(request, DeleteGroupsResponse, router.request_s)
        _check(response.results[0].error_code, group, f"group {group!r}")

    await router.on_coordinator(GROUP, group, once)


def _check(code: int, group: str, what: str) -> None:
    if code in _HAS_MEMBERS:
        raise GroupNotEmpty(f"group {group!r} has members")
    check(code, what)

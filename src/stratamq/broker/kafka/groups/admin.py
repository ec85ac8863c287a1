"""DescribeGroups, ConsumerGroupDescribe, ListGroups and DeleteGroups."""

from __future__ import annotations

from collections.abc import Iterable

from stratamq.broker.kafka.answer_budget import LongAnswer
from stratamq.broker.kafka.contract import Caller
from stratamq.broker.kafka.errors import code_of, coordinator_code
from stratamq.broker.kafka.groups.classic.group import ClassicGroup
from stratamq.broker.kafka.groups.classic.members import ClassicMember
from stratamq.broker.kafka.groups.classic.phases import ClassicState
from stratamq.broker.kafka.groups.consumer.api import by_topic_id
from stratamq.broker.kafka.groups.consumer.group import ConsumerGroup
from stratamq.broker.kafka.groups.consumer.members import (
    ConsumerMember,
    Partitions,
)
from stratamq.broker.kafka.groups.coordinator import GroupCoordinator
from stratamq.broker.kafka.groups.group_state import Group
from stratamq.broker.kafka.turns import paced, paced_sorted
from stratamq.model.access import OPERATIONS, ResourceKind
from stratamq.model.errors import AnswerTooLarge, StrataError, TopicNotFound
from stratamq.model.types import TopicId
from stratamq.wire.kafka.protocol import ErrorCode
from stratamq.wire.kafka.protocol.messages.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupMember,
    ConsumerGroupMemberAssignment,
    DescribedConsumerGroup,
    NamedTopicPartitions,
)
from stratamq.wire.kafka.protocol.messages.groups_admin import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)
from stratamq.wire.kafka.protocol.messages.metadata import NOT_ASKED

GROUP_OPERATIONS = sum(1 << operation for operation in OPERATIONS[ResourceKind.GROUP])
"""All that can be done to a group, as a bit field. `security.guard` replaces it by what the caller
may do."""

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1


GROUP_BYTES = 300
"""About what one takes in an answer without its members, first as objects and then encoded."""

NOT_FOUND_FROM = 6
"""DescribeGroups before this version calls an unknown group Dead and sees no error in it."""


class GroupAdminApi:
    def __init__(self, coordinator: GroupCoordinator) -> None:
        self._coordinator = coordinator

    # -- DescribeGroups ------------------------------------------------------------------------

    async def describe(
        self, request: DescribeGroupsRequest, caller: Caller
    ) -> DescribeGroupsResponse:
        answer = self._coordinator.services.answers.begin()
        groups = [
            await self._described(name, caller.version, answer)
            async for name in paced(request.groups)
        ]
        if request.include_authorized_operations:
            for group in groups:
                group.authorized_operations = NOT_ASKED if group.error_code else GROUP_OPERATIONS
        return DescribeGroupsResponse(groups=groups)

    async def _described(self, name: str, version: int, answer: LongAnswer) -> DescribedGroup:
        state = self._coordinator.find(name)
        if state is not None and isinstance(state.group, ClassicGroup):
            try:
                await answer.add(state.group.size_bytes + GROUP_BYTES)
            except AnswerTooLarge as error:
                refused = _without_members(name, ClassicState.DEAD)
                refused.error_code = code_of(error)
                return refused
            return _classic(name, state.group)
        if state is None and await self._coordinator.services.offsets.has_group(name):
            return _without_members(name, ClassicState.EMPTY)
        unknown = _without_members(name, ClassicState.DEAD)
        if version >= NOT_FOUND_FROM:
            unknown.error_code = ErrorCode.GROUP_ID_NOT_FOUND
            unknown.error_message = f"Group {name} not found."
        return unknown

    # -- ConsumerGroupDescribe -----------------------------------------------------------------

    async def describe_consumers(
        self, request: ConsumerGroupDescribeRequest, caller: Caller
    ) -> ConsumerGroupDescribeResponse:
        asked = request.include_authorized_operations
        names = dict.fromkeys(request.group_ids)
        return ConsumerGroupDescribeResponse(
            groups=[self._described_consumers(name, asked) for name in names]
        )

    def _described_consumers(self, name: str, asked: bool) -> DescribedConsumerGroup:
        state = self._coordinator.find(name)
        if state is None or not isinstance(state.group, ConsumerGroup):
            return DescribedConsumerGroup(
                error_code=ErrorCode.GROUP_ID_NOT_FOUND,
                error_message=f"Group {name} not found.",
                group_id=name,
                group_state="",
                group_epoch=0,
                assignment_epoch=0,
                assignor_name="",
                members=[],
            )
        group = state.group
        return DescribedConsumerGroup(
            group_id=name,
            group_state=group.state,
            group_epoch=group.epoch,
            assignment_epoch=group.target.epoch,
            assignor_name=group.target.assignor,
            members=[self._consumer_member(group, member) for member in group.members.values()],
            authorized_operations=GROUP_OPERATIONS if asked else NOT_ASKED,
        )

    def _consumer_member(self, group: ConsumerGroup, member: ConsumerMember) -> ConsumerGroupMember:
        target = group.target.of(member.member_id)
        return ConsumerGroupMember(
            member_id=member.member_id,
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            member_epoch=member.epoch,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=sorted(member.wants.names),
            subscribed_topic_regex=member.wants.regex or None,
            assignment=self._named(member.assigned),
            target_assignment=self._named(target),
            member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
        )

    def _named(self, partitions: Partitions) -> ConsumerGroupMemberAssignment:
        named = []
        for one in by_topic_id(partitions):
            try:
                topic_id = TopicId(one.topic_id.hex())
                name = self._coordinator.services.broker_cache.topic_by_id(topic_id).name
            except TopicNotFound:
                continue  # deleted; the next heartbeat says so
            named.append(
                NamedTopicPartitions(
                    topic_id=one.topic_id, topic_name=name, partitions=one.partitions
                )
            )
        return ConsumerGroupMemberAssignment(topic_partitions=named)

    # -- ListGroups ----------------------------------------------------------------------------

    async def list(self, request: ListGroupsRequest, caller: Caller) -> ListGroupsResponse:
        states = {one.lower() for one in request.states_filter}
        types = {one.lower() for one in request.types_filter}
        try:
            groups = await self._listed()
        except StrataError as error:
            return ListGroupsResponse(error_code=coordinator_code(error), groups=[])
        return ListGroupsResponse(
            groups=[
                one
                async for one in paced(groups)
                if (not states or one.group_state.lower() in states)
                and (not types or one.group_type.lower() in types)
            ]
        )

    async def _listed(self) -> Iterable[ListedGroup]:
        coordinator = self._coordinator
        names = {*await coordinator.services.offsets.groups(), *coordinator.names()}
        await coordinator.services.answers.begin().add(len(names) * GROUP_BYTES)
        listed = []
        async for name in paced_sorted(names):
            listed.append(_listed(name, coordinator.group(name)))
        return listed

    # -- DeleteGroups --------------------------------------------------------------------------

    async def delete(self, request: DeleteGroupsRequest, caller: Caller) -> DeleteGroupsResponse:
        results = []
        async for name in paced(request.groups_names):
            code = ErrorCode.INVALID_GROUP_ID
            try:
                if name:
                    code = await self._coordinator.delete(name)
            except StrataError as error:
                code = coordinator_code(error)
            results.append(DeletableGroupResult(group_id=name, error_code=code))
        return DeleteGroupsResponse(results=results)


def _listed(name: str, group: Group | None) -> ListedGroup:
    if isinstance(group, ConsumerGroup):
        protocol_type = "consumer"
    else:
        protocol_type = "" if group is None else group.protocol_type or ""
    return ListedGroup(
        group_id=name,
        protocol_type=protocol_type,
        group_state=ClassicState.EMPTY if group is None else group.state,
        group_type=ClassicGroup.kind if group is None else group.kind,
    )


def _classic(name: str, group: ClassicGroup) -> DescribedGroup:
    """Metadata and assignments only while they are agreed on."""
    stable = group.state is ClassicState.STABLE
    return DescribedGroup(
        group_id=name,
        group_state=group.state,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol or "") if stable else "",
        members=[_member(one, group.protocol if stable else None) for one in group.roster],
    )


def _member(member: ClassicMember, protocol: str | None) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.metadata(protocol),
        member_assignment=b"" if protocol is None else member.assignment,
    )


def _without_members(name: str, state: ClassicState) -> DescribedGroup:
    return DescribedGroup(
        group_id=name, group_state=state, protocol_type="", protocol_data="", members=[]
    )

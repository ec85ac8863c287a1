"""DescribeGroups, ListGroups and DeleteGroups."""

from __future__ import annotations

from collections.abc import Iterable

from stratamq.broker.kafka.answer_budget import LongAnswer
from stratamq.broker.kafka.contract import Caller
from stratamq.broker.kafka.errors import code_of
from stratamq.broker.kafka.groups.cell import Machine
from stratamq.broker.kafka.groups.classic.group import ClassicGroup
from stratamq.broker.kafka.groups.classic.members import Member
from stratamq.broker.kafka.groups.classic.states import State
from stratamq.broker.kafka.groups.consumer.group import ConsumerGroup
from stratamq.broker.kafka.groups.coordinator import GroupCoordinator
from stratamq.broker.kafka.groups.failures import group_code
from stratamq.broker.kafka.groups.rights import GROUP_OPERATIONS
from stratamq.broker.kafka.turns import paced, paced_sorted
from stratamq.model.errors import AnswerTooLarge, StrataError
from stratamq.wire.kafka.protocol import ErrorCode
from stratamq.wire.kafka.protocol.messages.common import NOT_ASKED
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

GROUP_BYTES = 300
"""About what one takes in an answer without its members, first as objects and then encoded."""

NOT_FOUND_FROM = 6
"""DescribeGroups before this version calls an unknown group Dead and sees no error in it."""


class AdminApi:
    def __init__(self, coordinator: GroupCoordinator) -> None:
        self._coordinator = coordinator

    # -- describe ------------------------------------------------------------------------------

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
        cell = self._coordinator.find(name)
        if cell is not None and isinstance(cell.machine, ClassicGroup):
            try:
                await answer.add(cell.machine.size_bytes + GROUP_BYTES)
            except AnswerTooLarge as error:
                refused = _without_members(name, State.DEAD)
                refused.error_code = code_of(error)
                return refused
            return _classic(name, cell.machine)
        if cell is None and await self._coordinator.services.offsets.has_group(name):
            return _without_members(name, State.EMPTY)
        unknown = _without_members(name, State.DEAD)
        if version >= NOT_FOUND_FROM:
            unknown.error_code = ErrorCode.GROUP_ID_NOT_FOUND
            unknown.error_message = f"Group {name} not found."
        return unknown

    # -- list ----------------------------------------------------------------------------------

    async def list(self, request: ListGroupsRequest, caller: Caller) -> ListGroupsResponse:
        states = {one.lower() for one in request.states_filter}
        types = {one.lower() for one in request.types_filter}
        try:
            groups = await self._listed()
        except StrataError as error:
            return ListGroupsResponse(error_code=group_code(error), groups=[])
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
            listed.append(_listed(name, coordinator.machine(name)))
        return listed

    # -- delete --------------------------------------------------------------------------------

    async def delete(self, request: DeleteGroupsRequest, caller: Caller) -> DeleteGroupsResponse:
        results = [
            DeletableGroupResult(group_id=name, error_code=await self._delete(name))
            async for name in paced(request.groups_names)
        ]
        return DeleteGroupsResponse(results=results)

    async def _delete(self, name: str) -> ErrorCode:
        if not name:
            return ErrorCode.INVALID_GROUP_ID
        try:
            return await self._coordinator.delete(name)
        except StrataError as error:
            return group_code(error)


def _listed(name: str, machine: Machine | None) -> ListedGroup:
    if isinstance(machine, ConsumerGroup):
        protocol_type = "consumer"
    else:
        protocol_type = "" if machine is None else machine.protocol_type or ""
    return ListedGroup(
        group_id=name,
        protocol_type=protocol_type,
        group_state=State.EMPTY if machine is None else machine.state,
        group_type=ClassicGroup.kind if machine is None else machine.kind,
    )


def _classic(name: str, group: ClassicGroup) -> DescribedGroup:
    """Metadata and assignments only while they are agreed on."""
    stable = group.state is State.STABLE
    return DescribedGroup(
        group_id=name,
        group_state=group.state,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol or "") if stable else "",
        members=[_member(one, group.protocol if stable else None) for one in group.roster],
    )


def _member(member: Member, protocol: str | None) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.metadata(protocol),
        member_assignment=b"" if protocol is None else member.assignment,
    )


def _without_members(name: str, state: State) -> DescribedGroup:
    return DescribedGroup(
        group_id=name, group_state=state, protocol_type="", protocol_data="", members=[]
    )

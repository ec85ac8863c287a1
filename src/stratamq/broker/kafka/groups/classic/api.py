"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup: requests to calls, replies to responses."""

from __future__ import annotations

from collections.abc import Callable

from stratamq.broker.kafka.contract import Caller
from stratamq.broker.kafka.errors import coordinator_code
from stratamq.broker.kafka.groups.classic.members import (
    GroupProtocol,
    Identity,
    JoinCall,
    JoinReply,
    SyncCall,
    SyncReply,
    Ticket,
)
from stratamq.broker.kafka.groups.coordinator import GroupCoordinator
from stratamq.broker.kafka.groups.group_state import GroupState
from stratamq.broker.kafka.groups.limits import GroupLimit
from stratamq.broker.kafka.groups.migration import ClassicSide, classic_side, joined_by_classic
from stratamq.model.entropy import Entropy, random_uuid
from stratamq.model.errors import StrataError
from stratamq.wire.kafka.protocol import ErrorCode
from stratamq.wire.kafka.protocol.messages.groups import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
    LeaveGroupRequest,
    LeaveGroupResponse,
    LeavingMember,
    LeavingMemberResult,
    SyncGroupRequest,
    SyncGroupResponse,
)

ID_REQUIRED_FROM = 4
SKIPS_ASSIGNMENT_FROM = 9
NULL_PROTOCOL_FROM = 7
PROTOCOL_NEEDED_FROM = 5
BATCH_LEAVE_FROM = 3


class ClassicApi:
    def __init__(self, coordinator: GroupCoordinator) -> None:
        self._coordinator = coordinator

    # -- join ----------------------------------------------------------------------------------

    async def join(self, request: JoinGroupRequest, caller: Caller) -> JoinGroupResponse:
        try:
            reply = await self._join(request, caller)
        except StrataError as error:
            reply = JoinReply(error=coordinator_code(error), member_id=request.member_id)
        self._coordinator.warn(request.group_id, reply.limit)
        nothing = None if caller.version >= NULL_PROTOCOL_FROM else ""
        return JoinGroupResponse(
            error_code=reply.error,
            generation_id=reply.generation,
            protocol_type=reply.protocol_type,
            protocol_name=reply.protocol if reply.protocol is not None else nothing,
            leader=reply.leader,
            skip_assignment=reply.skip_assignment,
            member_id=reply.member_id,
            members=[
                JoinGroupResponseMember(
                    member_id=one.member_id,
                    group_instance_id=one.instance_id,
                    metadata=one.metadata,
                )
                for one in reply.members
            ],
        )

    async def _join(self, request: JoinGroupRequest, caller: Caller) -> JoinReply:
        known = self._coordinator.find(request.group_id)
        if known is None and request.member_id:
            return JoinReply(error=ErrorCode.UNKNOWN_MEMBER_ID, member_id=request.member_id)
        call = _join_call(request, caller, self._coordinator.services.entropy)
        if call.size_bytes > self._coordinator.limits.member_bytes_max:  # before a group is created
            limit = GroupLimit.MEMBER
            return JoinReply(error=limit.error, member_id=request.member_id, limit=limit)
        state = self._coordinator.find_or_create(request.group_id)

        def act(now_ms: int, ticket: Ticket) -> None:
            state.group = joined_by_classic(state.group, now_ms)
            self._side(state).join(now_ms, call, ticket)

        reply = await state.ask(act)
        assert isinstance(reply, JoinReply), "a join is answered by a JoinReply"
        return reply

    # -- sync ----------------------------------------------------------------------------------

    async def sync(self, request: SyncGroupRequest, caller: Caller) -> SyncGroupResponse:
        try:
            reply = await self._sync(request, caller)
        except StrataError as error:
            reply = SyncReply(error=coordinator_code(error))
        self._coordinator.warn(request.group_id, reply.limit)
        return SyncGroupResponse(
            error_code=reply.error,
            protocol_type=reply.protocol_type,
            protocol_name=reply.protocol,
            assignment=reply.assignment,
        )

    async def _sync(self, request: SyncGroupRequest, caller: Caller) -> SyncReply:
        names = (request.protocol_type, request.protocol_name)
        if caller.version >= PROTOCOL_NEEDED_FROM and None in names:
            return SyncReply(error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        state = self._coordinator.find(request.group_id)
        if state is None:
            return SyncReply(error=ErrorCode.UNKNOWN_MEMBER_ID)
        who = Identity(request.member_id, request.group_instance_id, request.generation_id)
        call = SyncCall(
            who=who,
            protocol_type=request.protocol_type,
            protocol=request.protocol_name,
            assignments={one.member_id: bytes(one.assignment) for one in request.assignments},
        )

        def act(now_ms: int, ticket: Ticket) -> None:
            self._side(state).sync(now_ms, call, ticket)

        reply = await state.ask(act)
        assert isinstance(reply, SyncReply), "a sync is answered by a SyncReply"
        return reply

    # -- heartbeat and leave -------------------------------------------------------------------

    async def heartbeat(self, request: HeartbeatRequest, caller: Caller) -> HeartbeatResponse:
        who = Identity(request.member_id, request.group_instance_id, request.generation_id)
        error = await self._on_group(
            request.group_id, lambda group, now_ms: group.heartbeat(now_ms, who)
        )
        return HeartbeatResponse(error_code=error)

    async def leave(self, request: LeaveGroupRequest, caller: Caller) -> LeaveGroupResponse:
        batch = caller.version >= BATCH_LEAVE_FROM
        leaving = request.members if batch else [LeavingMember(member_id=request.member_id)]
        if len(leaving) > self._coordinator.limits.members_max:
            return LeaveGroupResponse(error_code=ErrorCode.INVALID_REQUEST)
        results = []
        for member in leaving:
            who = Identity(member.member_id, member.group_instance_id)
            results.append(
                LeavingMemberResult(
                    member_id=member.member_id,
                    group_instance_id=member.group_instance_id,
                    error_code=await self._leave(request.group_id, who),
                )
            )
        if batch:
            return LeaveGroupResponse(members=results)
        return LeaveGroupResponse(error_code=results[0].error_code)

    async def _leave(self, name: str, who: Identity) -> ErrorCode:
        return await self._on_group(name, lambda group, now_ms: group.leave(now_ms, who))

    async def _on_group(self, name: str, act: Callable[[ClassicSide, int], ErrorCode]) -> ErrorCode:
        state = self._coordinator.find(name)
        if state is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        try:
            return await state.run(lambda now_ms: act(self._side(state), now_ms))
        except StrataError as error:
            return coordinator_code(error)

    def _side(self, state: GroupState) -> ClassicSide:
        return classic_side(state.group, self._coordinator.topics())


def _join_call(request: JoinGroupRequest, caller: Caller, entropy: Entropy) -> JoinCall:
    prefix = request.group_instance_id or caller.client_id
    rebalance_ms = request.rebalance_timeout_ms
    return JoinCall(
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        new_id=f"{prefix}-{random_uuid(entropy)}",
        client_id=caller.client_id,
        client_host=f"/{caller.host}",
        session_ms=request.session_timeout_ms,
        rebalance_ms=rebalance_ms if rebalance_ms >= 0 else request.session_timeout_ms,
        protocol_type=request.protocol_type,
        protocols=tuple(GroupProtocol(one.name, bytes(one.metadata)) for one in request.protocols),
        id_required=caller.version >= ID_REQUIRED_FROM,
        skips_assignment=caller.version >= SKIPS_ASSIGNMENT_FROM,
    )

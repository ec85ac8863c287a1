"""Classic consumer groups: find the coordinator, join, sync, stay, leave."""

from __future__ import annotations

from collections.abc import Sequence

from stratamq.wire.kafka.protocol.schema import (
    BOOL,
    BYTES,
    INT8,
    INT16,
    INT32,
    STRING,
    array,
    data,
    request,
    response,
    struct,
    wire,
)


@request(key=10, versions="0-6", flexible="3+")
class FindCoordinatorRequest:
    """Who coordinates a group (`key_type` 0) or a transactional id (1)? Several from version 4."""

    key: str = wire(STRING, versions="0-3", default="")
    key_type: int = wire(INT8, versions="1+", default=0)
    coordinator_keys: Sequence[str] = wire(array(STRING), versions="4+", default=())


@struct
class Coordinator:
    key: str = wire(STRING)
    node_id: int = wire(INT32)
    host: str = wire(STRING)
    port: int = wire(INT32)
    error_code: int = wire(INT16, default=0)
    error_message: str | None = wire(STRING, nullable=True, default=None)


@response(key=10, versions="0-6", flexible="3+")
class FindCoordinatorResponse:
    """One coordinator up to version 3, a list of them from 4."""

    throttle_time_ms: int = wire(INT32, versions="1+", default=0, ignorable=True)
    error_code: int = wire(INT16, versions="0-3", default=0)
    error_message: str | None = wire(
        STRING, versions="1-3", nullable=True, default=None, ignorable=True
    )
    node_id: int = wire(INT32, versions="0-3", default=0)
    host: str = wire(STRING, versions="0-3", default="")
    port: int = wire(INT32, versions="0-3", default=0)
    coordinators: Sequence[Coordinator] = wire(array(Coordinator), versions="4+", default=())


@struct
class JoinGroupRequestProtocol:
    name: str = wire(STRING)
    metadata: bytes = wire(BYTES)


@request(key=11, versions="0-9", flexible="6+")
class JoinGroupRequest:
    """Join, or rejoin with the member id that an earlier answer gave."""

    group_id: str = wire(STRING)
    session_timeout_ms: int = wire(INT32)
    rebalance_timeout_ms: int = wire(INT32, versions="1+", default=-1, ignorable=True)
    member_id: str = wire(STRING)
    group_instance_id: str | None = wire(STRING, versions="5+", nullable=True, default=None)
    protocol_type: str = wire(STRING)
    protocols: Sequence[JoinGroupRequestProtocol] = wire(array(JoinGroupRequestProtocol))
    reason: str | None = wire(STRING, versions="8+", nullable=True, default=None, ignorable=True)


@struct
class JoinGroupResponseMember:
    member_id: str = wire(STRING)
    group_instance_id: str | None = wire(
        STRING, versions="5+", nullable=True, default=None, ignorable=True
    )
    metadata: bytes = wire(BYTES)


@response(key=11, versions="0-9", flexible="6+")
class JoinGroupResponse:
    """Only the leader gets the members."""

    throttle_time_ms: int = wire(INT32, versions="2+", default=0, ignorable=True)
    error_code: int = wire(INT16, default=0)
    generation_id: int = wire(INT32, default=-1)
    protocol_type: str | None = wire(
        STRING, versions="7+", nullable=True, default=None, ignorable=True
    )
    protocol_name: str | None = wire(STRING, nullable="7+")
    leader: str = wire(STRING)
    skip_assignment: bool = wire(BOOL, versions="9+", default=False)
    member_id: str = wire(STRING)
    members: Sequence[JoinGroupResponseMember] = wire(array(JoinGroupResponseMember))


@request(key=12, versions="0-4", flexible="4+")
class HeartbeatRequest:
    """Still here."""

    group_id: str = wire(STRING)
    generation_id: int = wire(INT32)
    member_id: str = wire(STRING)
    group_instance_id: str | None = wire(STRING, versions="3+", nullable=True, default=None)


@response(key=12, versions="0-4", flexible="4+")
class HeartbeatResponse:
    """The error code says when to rejoin."""

    throttle_time_ms: int = wire(INT32, versions="1+", default=0, ignorable=True)
    error_code: int = wire(INT16, default=0)


@struct
class LeavingMember:
    member_id: str = wire(STRING)
    group_instance_id: str | None = wire(STRING, nullable=True, default=None)
    reason: str | None = wire(STRING, versions="5+", nullable=True, default=None, ignorable=True)


@request(key=13, versions="0-5", flexible="4+")
class LeaveGroupRequest:
    """Leave. One member up to version 2, several from 3."""

    group_id: str = wire(STRING)
    member_id: str = wire(STRING, versions="0-2", default="")
    members: Sequence[LeavingMember] = wire(array(LeavingMember), versions="3+", default=())


@struct
class LeavingMemberResult:
    member_id: str = wire(STRING)
    group_instance_id: str | None = wire(STRING, nullable=True)
    error_code: int = wire(INT16, default=0)


@response(key=13, versions="0-5", flexible="4+")
class LeaveGroupResponse:
    """One error code per member from version 3."""

    throttle_time_ms: int = wire(INT32, versions="1+", default=0, ignorable=True)
    error_code: int = wire(INT16, default=0)
    members: Sequence[LeavingMemberResult] = wire(
        array(LeavingMemberResult), versions="3+", default=()
    )


@struct
class SyncGroupRequestAssignment:
    member_id: str = wire(STRING)
    assignment: bytes = wire(BYTES)


@request(key=14, versions="0-5", flexible="4+")
class SyncGroupRequest:
    """The leader sends the assignments, everyone asks for theirs."""

    group_id: str = wire(STRING)
    generation_id: int = wire(INT32)
    member_id: str = wire(STRING)
    group_instance_id: str | None = wire(STRING, versions="3+", nullable=True, default=None)
    protocol_type: str | None = wire(
        STRING, versions="5+", nullable=True, default=None, ignorable=True
    )
    protocol_name: str | None = wire(
        STRING, versions="5+", nullable=True, default=None, ignorable=True
    )
    assignments: Sequence[SyncGroupRequestAssignment] = wire(array(SyncGroupRequestAssignment))


@response(key=14, versions="0-5", flexible="4+")
class SyncGroupResponse:
    """The member's own assignment."""

    throttle_time_ms: int = wire(INT32, versions="1+", default=0, ignorable=True)
    error_code: int = wire(INT16, default=0)
    protocol_type: str | None = wire(
        STRING, versions="5+", nullable=True, default=None, ignorable=True
    )
    protocol_name: str | None = wire(
        STRING, versions="5+", nullable=True, default=None, ignorable=True
    )
    assignment: bytes = wire(BYTES)


# -- what classic consumers say to each other inside JoinGroup and SyncGroup -----------------------


@struct
class MemberTopicPartitions:
    topic: str = wire(STRING)
    partitions: Sequence[int] = wire(array(INT32))


@data(versions="0-3")
class ConsumerProtocolSubscription:
    """What a member wants, and what it has. Read it with `decode_embedded`."""

    topics: Sequence[str] = wire(array(STRING))
    user_data: bytes | None = wire(BYTES, nullable=True, default=None)
    owned_partitions: Sequence[MemberTopicPartitions] = wire(
        array(MemberTopicPartitions), versions="1+", default=(), ignorable=True
    )
    generation_id: int = wire(INT32, versions="2+", default=-1, ignorable=True)
    rack_id: str | None = wire(STRING, versions="3+", nullable=True, default=None, ignorable=True)


@data(versions="0-3")
class ConsumerProtocolAssignment:
    """What a member gets. Read it with `decode_embedded`."""

    assigned_partitions: Sequence[MemberTopicPartitions] = wire(array(MemberTopicPartitions))
    user_data: bytes | None = wire(BYTES, nullable=True, default=None)

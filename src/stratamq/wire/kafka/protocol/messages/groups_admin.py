"""Groups as an administrator sees them."""

from __future__ import annotations

from collections.abc import Sequence

from stratamq.wire.kafka.protocol.messages.metadata import NOT_ASKED
from stratamq.wire.kafka.protocol.schema import (
    BOOL,
    BYTES,
    INT16,
    INT32,
    STRING,
    array,
    request,
    response,
    struct,
    wire,
)


@request(key=15, versions="0-6", flexible="5+")
class DescribeGroupsRequest:
    """Ask for state and members of groups."""

    groups: Sequence[str] = wire(array(STRING))
    include_authorized_operations: bool = wire(BOOL, versions="3+", default=False)


@struct
class DescribedGroupMember:
    member_id: str = wire(STRING)
    group_instance_id: str | None = wire(
        STRING, versions="4+", nullable=True, default=None, ignorable=True
    )
    client_id: str = wire(STRING)
    client_host: str = wire(STRING)
    member_metadata: bytes = wire(BYTES)
    member_assignment: bytes = wire(BYTES)


@struct
class DescribedGroup:
    error_code: int = wire(INT16, default=0)
    error_message: str | None = wire(STRING, versions="6+", nullable=True, default=None)
    group_id: str = wire(STRING)
    group_state: str = wire(STRING)
    protocol_type: str = wire(STRING)
    protocol_data: str = wire(STRING)
    members: Sequence[DescribedGroupMember] = wire(array(DescribedGroupMember))
    authorized_operations: int = wire(INT32, versions="3+", default=NOT_ASKED)


@response(key=15, versions="0-6", flexible="5+")
class DescribeGroupsResponse:
    """Groups with their members; metadata and assignments as the clients sent them."""

    throttle_time_ms: int = wire(INT32, versions="1+", default=0, ignorable=True)
    groups: Sequence[DescribedGroup] = wire(array(DescribedGroup))


@request(key=16, versions="0-5", flexible="3+")
class ListGroupsRequest:
    """All groups, or those of some states and types."""

    states_filter: Sequence[str] = wire(array(STRING), versions="4+", default=())
    types_filter: Sequence[str] = wire(array(STRING), versions="5+", default=())


@struct
class ListedGroup:
    group_id: str = wire(STRING)
    protocol_type: str = wire(STRING)
    group_state: str = wire(STRING, versions="4+", default="", ignorable=True)
    group_type: str = wire(STRING, versions="5+", default="", ignorable=True)


@response(key=16, versions="0-5", flexible="3+")
class ListGroupsResponse:
    """Groups that this node coordinates."""

    throttle_time_ms: int = wire(INT32, versions="1+", default=0, ignorable=True)
    error_code: int = wire(INT16, default=0)
    groups: Sequence[ListedGroup] = wire(array(ListedGroup))


@request(key=42, versions="0-2", flexible="2+")
class DeleteGroupsRequest:
    """Delete groups that have no members."""

    groups_names: Sequence[str] = wire(array(STRING))


@struct
class DeletableGroupResult:
    group_id: str = wire(STRING)
    error_code: int = wire(INT16, default=0)


@response(key=42, versions="0-2", flexible="2+")
class DeleteGroupsResponse:
    """One error code per group."""

    throttle_time_ms: int = wire(INT32, default=0)
    results: Sequence[DeletableGroupResult] = wire(array(DeletableGroupResult))

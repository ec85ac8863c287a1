"""Who may do what."""

from __future__ import annotations

from collections.abc import Sequence

from stratamq.wire.kafka.protocol.schema import (
    INT8,
    INT16,
    INT32,
    STRING,
    array,
    request,
    response,
    struct,
    wire,
)


@request(key=29, versions="1-3", flexible="2+")
class DescribeAclsRequest:
    """A filter; null matches everything."""

    resource_type_filter: int = wire(INT8)
    resource_name_filter: str | None = wire(STRING, nullable=True)
    pattern_type_filter: int = wire(INT8, default=3)
    principal_filter: str | None = wire(STRING, nullable=True)
    host_filter: str | None = wire(STRING, nullable=True)
    operation: int = wire(INT8)
    permission_type: int = wire(INT8)


@struct
class AclDescription:
    principal: str = wire(STRING)
    host: str = wire(STRING)
    operation: int = wire(INT8)
    permission_type: int = wire(INT8)


@struct
class DescribeAclsResource:
    resource_type: int = wire(INT8)
    resource_name: str = wire(STRING)
    pattern_type: int = wire(INT8, default=3)
    acls: Sequence[AclDescription] = wire(array(AclDescription))


@response(key=29, versions="1-3", flexible="2+")
class DescribeAclsResponse:
    """Rules by resource."""

    throttle_time_ms: int = wire(INT32, default=0)
    error_code: int = wire(INT16, default=0)
    error_message: str | None = wire(STRING, nullable=True, default=None)
    resources: Sequence[DescribeAclsResource] = wire(array(DescribeAclsResource))


@struct
class AclCreation:
    resource_type: int = wire(INT8)
    resource_name: str = wire(STRING)
    resource_pattern_type: int = wire(INT8, default=3)
    principal: str = wire(STRING)
    host: str = wire(STRING)
    operation: int = wire(INT8)
    permission_type: int = wire(INT8)


@request(key=30, versions="1-3", flexible="2+")
class CreateAclsRequest:
    """Rules to add."""

    creations: Sequence[AclCreation] = wire(array(AclCreation))


@struct
class AclCreationResult:
    error_code: int = wire(INT16, default=0)
    error_message: str | None = wire(STRING, nullable=True, default=None)


@response(key=30, versions="1-3", flexible="2+")
class CreateAclsResponse:
    """One result per rule, in the order asked."""

    throttle_time_ms: int = wire(INT32, default=0)
    results: Sequence[AclCreationResult] = wire(array(AclCreationResult))


@struct
class DeleteAclsFilter:
    resource_type_filter: int = wire(INT8)
    resource_name_filter: str | None = wire(STRING, nullable=True)
    pattern_type_filter: int = wire(INT8, default=3)
    principal_filter: str | None = wire(STRING, nullable=True)
    host_filter: str | None = wire(STRING, nullable=True)
    operation: int = wire(INT8)
    permission_type: int = wire(INT8)


@request(key=31, versions="1-3", flexible="2+")
class DeleteAclsRequest:
    """Filters of rules to delete."""

    filters: Sequence[DeleteAclsFilter] = wire(array(DeleteAclsFilter))


@struct
class DeleteAclsMatchingAcl:
    error_code: int = wire(INT16, default=0)
    error_message: str | None = wire(STRING, nullable=True, default=None)
    resource_type: int = wire(INT8)
    resource_name: str = wire(STRING)
    pattern_type: int = wire(INT8, default=3)
    principal: str = wire(STRING)
    host: str = wire(STRING)
    operation: int = wire(INT8)
    permission_type: int = wire(INT8)


@struct
class DeleteAclsFilterResult:
    error_code: int = wire(INT16, default=0)
    error_message: str | None = wire(STRING, nullable=True, default=None)
    matching_acls: Sequence[DeleteAclsMatchingAcl] = wire(array(DeleteAclsMatchingAcl))


@response(key=31, versions="1-3", flexible="2+")
class DeleteAclsResponse:
    """What each filter matched."""

    throttle_time_ms: int = wire(INT32, default=0)
    filter_results: Sequence[DeleteAclsFilterResult] = wire(array(DeleteAclsFilterResult))

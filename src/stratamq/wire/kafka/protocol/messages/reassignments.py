"""Moving replicas by hand."""

from __future__ import annotations

from collections.abc import Sequence

from stratamq.wire.kafka.protocol.schema import (
    BOOL,
    INT16,
    INT32,
    STRING,
    array,
    request,
    response,
    struct,
    wire,
)


@struct
class ReassignablePartition:
    """Null replicas take back a move that is under way."""

    partition_index: int = wire(INT32)
    replicas: Sequence[int] | None = wire(array(INT32), nullable=True, default=None)


@struct
class ReassignableTopic:
    name: str = wire(STRING)
    partitions: Sequence[ReassignablePartition] = wire(array(ReassignablePartition))


@request(key=45, versions="0-1", flexible="0+")
class AlterPartitionReassignmentsRequest:
    """Where replicas shall be."""

    timeout_ms: int = wire(INT32, default=60000)
    allow_replication_factor_change: bool = wire(BOOL, versions="1+", default=True)
    topics: Sequence[ReassignableTopic] = wire(array(ReassignableTopic))


@struct
class ReassignablePartitionResponse:
    partition_index: int = wire(INT32)
    error_code: int = wire(INT16, default=0)
    error_message: str | None = wire(STRING, nullable=True, default=None)


@struct
class ReassignableTopicResponse:
    name: str = wire(STRING)
    partitions: Sequence[ReassignablePartitionResponse] = wire(array(ReassignablePartitionResponse))


@response(key=45, versions="0-1", flexible="0+")
class AlterPartitionReassignmentsResponse:
    """One error code per partition."""

    throttle_time_ms: int = wire(INT32, default=0)
    allow_replication_factor_change: bool = wire(BOOL, versions="1+", default=True, ignorable=True)
    error_code: int = wire(INT16, default=0)
    error_message: str | None = wire(STRING, nullable=True, default=None)
    responses: Sequence[ReassignableTopicResponse] = wire(array(ReassignableTopicResponse))

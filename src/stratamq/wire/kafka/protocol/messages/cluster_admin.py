"""Log directories, elections and reassignments."""

from __future__ import annotations

from collections.abc import Sequence

from stratamq.wire.kafka.protocol.schema import (
    BOOL,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    array,
    request,
    response,
    struct,
    wire,
)


@struct
class DescribableLogDirTopic:
    topic: str = wire(STRING)
    partitions: Sequence[int] = wire(array(INT32))


@request(key=35, versions="1-5", flexible="2+")
class DescribeLogDirsRequest:
    """How much disk do partitions take? Null means all of them."""

    topics: Sequence[DescribableLogDirTopic] | None = wire(
        array(DescribableLogDirTopic), nullable=True
    )


@struct
class DescribeLogDirsPartition:
    partition_index: int = wire(INT32)
    partition_size: int = wire(INT64)
    offset_lag: int = wire(INT64)
    is_future_key: bool = wire(BOOL)


@struct
class DescribeLogDirsTopic:
    name: str = wire(STRING)
    partitions: Sequence[DescribeLogDirsPartition] = wire(array(DescribeLogDirsPartition))


@struct
class DescribeLogDirsResult:
    error_code: int = wire(INT16, default=0)
    log_dir: str = wire(STRING)
    topics: Sequence[DescribeLogDirsTopic] = wire(array(DescribeLogDirsTopic))
    total_bytes: int = wire(INT64, versions="4+", default=-1, ignorable=True)
    usable_bytes: int = wire(INT64, versions="4+", default=-1, ignorable=True)
    is_cordoned: bool = wire(BOOL, versions="5+", default=False, ignorable=True)


@response(key=35, versions="1-5", flexible="2+")
class DescribeLogDirsResponse:
    """Sizes by directory, topic and partition."""

    throttle_time_ms: int = wire(INT32, default=0)
    error_code: int = wire(INT16, versions="3+", default=0, ignorable=True)
    results: Sequence[DescribeLogDirsResult] = wire(array(DescribeLogDirsResult))


@struct
class AlterReplicaLogDirTopic:
    name: str = wire(STRING)
    partitions: Sequence[int] = wire(array(INT32))


@struct
class AlterReplicaLogDir:
    path: str = wire(STRING)
    topics: Sequence[AlterReplicaLogDirTopic] = wire(array(AlterReplicaLogDirTopic))


@request(key=34, versions="1-2", flexible="2+")
class AlterReplicaLogDirsRequest:
    """Move partitions to these directories."""

    dirs: Sequence[AlterReplicaLogDir] = wire(array(AlterReplicaLogDir))


@struct
class AlterReplicaLogDirPartitionResult:
    partition_index: int = wire(INT32)
    error_code: int = wire(INT16, default=0)


@struct
class AlterReplicaLogDirTopicResult:
    topic_name: str = wire(STRING)
    partitions: Sequence[AlterReplicaLogDirPartitionResult] = wire(
        array(AlterReplicaLogDirPartitionResult)
    )


@response(key=34, versions="1-2", flexible="2+")
class AlterReplicaLogDirsResponse:
    """One error code per partition."""

    throttle_time_ms: int = wire(INT32, default=0)
    results: Sequence[AlterReplicaLogDirTopicResult] = wire(array(AlterReplicaLogDirTopicResult))


@struct
class ElectLeadersTopic:
    topic: str = wire(STRING)
    partitions: Sequence[int] = wire(array(INT32))


@request(key=43, versions="0-2", flexible="2+")
class ElectLeadersRequest:
    """Elect preferred leaders (`election_type` 0), or any replica at all (1)."""

    election_type: int = wire(INT8, versions="1+", default=0)
    topic_partitions: Sequence[ElectLeadersTopic] | None = wire(
        array(ElectLeadersTopic), nullable=True
    )
    timeout_ms: int = wire(INT32, default=60000)


@struct
class ElectionPartitionResult:
    partition_id: int = wire(INT32)
    error_code: int = wire(INT16, default=0)
    error_message: str | None = wire(STRING, nullable=True, default=None)


@struct
class ReplicaElectionResult:
    topic: str = wire(STRING)
    partition_result: Sequence[ElectionPartitionResult] = wire(array(ElectionPartitionResult))


@response(key=43, versions="0-2", flexible="2+")
class ElectLeadersResponse:
    """One error code per partition."""

    throttle_time_ms: int = wire(INT32, default=0)
    error_code: int = wire(INT16, versions="1+", default=0)
    replica_election_results: Sequence[ReplicaElectionResult] = wire(array(ReplicaElectionResult))


@struct
class ListPartitionReassignmentsTopics:
    name: str = wire(STRING)
    partition_indexes: Sequence[int] = wire(array(INT32))


@request(key=46, versions="0", flexible="0+")
class ListPartitionReassignmentsRequest:
    """Null means all topics."""

    timeout_ms: int = wire(INT32, default=60000)
    topics: Sequence[ListPartitionReassignmentsTopics] | None = wire(
        array(ListPartitionReassignmentsTopics), nullable=True, default=None
    )


@struct
class OngoingPartitionReassignment:
    partition_index: int = wire(INT32)
    replicas: Sequence[int] = wire(array(INT32))
    adding_replicas: Sequence[int] = wire(array(INT32))
    removing_replicas: Sequence[int] = wire(array(INT32))


@struct
class OngoingTopicReassignment:
    name: str = wire(STRING)
    partitions: Sequence[OngoingPartitionReassignment] = wire(array(OngoingPartitionReassignment))


@response(key=46, versions="0", flexible="0+")
class ListPartitionReassignmentsResponse:
    """Partitions that are moving; others are left out."""

    throttle_time_ms: int = wire(INT32, default=0)
    error_code: int = wire(INT16, default=0)
    error_message: str | None = wire(STRING, nullable=True, default=None)
    topics: Sequence[OngoingTopicReassignment] = wire(array(OngoingTopicReassignment))


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

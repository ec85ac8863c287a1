"""What groups have consumed: commit, fetch, forget."""

from __future__ import annotations

from collections.abc import Sequence

from stratamq.wire.kafka.protocol.schema import (
    BOOL,
    INT16,
    INT32,
    INT64,
    NO_UUID,
    STRING,
    UUID,
    array,
    request,
    response,
    struct,
    wire,
)


@struct
class OffsetCommitRequestPartition:
    partition_index: int = wire(INT32)
    committed_offset: int = wire(INT64)
    committed_leader_epoch: int = wire(INT32, versions="6+", default=-1, ignorable=True)
    committed_metadata: str | None = wire(STRING, nullable=True)


@struct
class OffsetCommitRequestTopic:
    name: str = wire(STRING, versions="0-9", default="", ignorable=True)
    topic_id: bytes = wire(UUID, versions="10+", default=NO_UUID, ignorable=True)
    partitions: Sequence[OffsetCommitRequestPartition] = wire(array(OffsetCommitRequestPartition))


@request(key=8, versions="2-10", flexible="8+")
class OffsetCommitRequest:
    """Remember how far a group has come. By topic id from version 10."""

    group_id: str = wire(STRING)
    generation_id_or_member_epoch: int = wire(INT32, default=-1)
    member_id: str = wire(STRING)
    group_instance_id: str | None = wire(STRING, versions="7+", nullable=True, default=None)
    retention_time_ms: int = wire(INT64, versions="0-4", default=-1, ignorable=True)
    topics: Sequence[OffsetCommitRequestTopic] = wire(array(OffsetCommitRequestTopic))


@struct
class OffsetCommitResponsePartition:
    partition_index: int = wire(INT32)
    error_code: int = wire(INT16, default=0)


@struct
class OffsetCommitResponseTopic:
    name: str = wire(STRING, versions="0-9", default="", ignorable=True)
    topic_id: bytes = wire(UUID, versions="10+", default=NO_UUID, ignorable=True)
    partitions: Sequence[OffsetCommitResponsePartition] = wire(array(OffsetCommitResponsePartition))


@response(key=8, versions="2-10", flexible="8+")
class OffsetCommitResponse:
    """One error code per partition."""

    throttle_time_ms: int = wire(INT32, versions="3+", default=0, ignorable=True)
    topics: Sequence[OffsetCommitResponseTopic] = wire(array(OffsetCommitResponseTopic))


@struct
class OffsetFetchRequestTopic:
    name: str = wire(STRING)
    partition_indexes: Sequence[int] = wire(array(INT32))


@struct
class OffsetFetchRequestTopics:
    name: str = wire(STRING, versions="0-9", default="", ignorable=True)
    topic_id: bytes = wire(UUID, versions="10+", default=NO_UUID, ignorable=True)
    partition_indexes: Sequence[int] = wire(array(INT32))


@struct
class OffsetFetchRequestGroup:
    group_id: str = wire(STRING)
    member_id: str | None = wire(STRING, versions="9+", nullable=True, default=None, ignorable=True)
    member_epoch: int = wire(INT32, versions="9+", default=-1, ignorable=True)
    topics: Sequence[OffsetFetchRequestTopics] | None = wire(
        array(OffsetFetchRequestTopics), nullable=True
    )


@request(key=9, versions="1-10", flexible="6+")
class OffsetFetchRequest:
    """How far has a group come? One group up to version 7, several from 8, by topic id from 10."""

    group_id: str = wire(STRING, versions="0-7", default="")
    topics: Sequence[OffsetFetchRequestTopic] | None = wire(
        array(OffsetFetchRequestTopic), versions="0-7", nullable="2+", default=()
    )
    groups: Sequence[OffsetFetchRequestGroup] = wire(
        array(OffsetFetchRequestGroup), versions="8+", default=()
    )
    require_stable: bool = wire(BOOL, versions="7+", default=False)


@struct
class OffsetFetchResponsePartition:
    partition_index: int = wire(INT32)
    committed_offset: int = wire(INT64)
    committed_leader_epoch: int = wire(INT32, versions="5+", default=-1, ignorable=True)
    metadata: str | None = wire(STRING, nullable=True)
    error_code: int = wire(INT16, default=0)


@struct
class OffsetFetchResponseTopic:
    name: str = wire(STRING)
    partitions: Sequence[OffsetFetchResponsePartition] = wire(array(OffsetFetchResponsePartition))


@struct
class OffsetFetchResponsePartitions:
    partition_index: int = wire(INT32)
    committed_offset: int = wire(INT64)
    committed_leader_epoch: int = wire(INT32, default=-1)
    metadata: str | None = wire(STRING, nullable=True)
    error_code: int = wire(INT16, default=0)


@struct
class OffsetFetchResponseTopics:
    name: str = wire(STRING, versions="0-9", default="", ignorable=True)
    topic_id: bytes = wire(UUID, versions="10+", default=NO_UUID, ignorable=True)
    partitions: Sequence[OffsetFetchResponsePartitions] = wire(array(OffsetFetchResponsePartitions))


@struct
class OffsetFetchResponseGroup:
    group_id: str = wire(STRING)
    topics: Sequence[OffsetFetchResponseTopics] = wire(array(OffsetFetchResponseTopics))
    error_code: int = wire(INT16, default=0)


@response(key=9, versions="1-10", flexible="6+")
class OffsetFetchResponse:
    """Unknown groups and partitions have offset -1 and no error."""

    throttle_time_ms: int = wire(INT32, versions="3+", default=0, ignorable=True)
    topics: Sequence[OffsetFetchResponseTopic] = wire(
        array(OffsetFetchResponseTopic), versions="0-7", default=()
    )
    error_code: int = wire(INT16, versions="2-7", default=0, ignorable=True)
    groups: Sequence[OffsetFetchResponseGroup] = wire(
        array(OffsetFetchResponseGroup), versions="8+", default=()
    )


@struct
class OffsetDeleteRequestPartition:
    partition_index: int = wire(INT32)


@struct
class OffsetDeleteRequestTopic:
    name: str = wire(STRING)
    partitions: Sequence[OffsetDeleteRequestPartition] = wire(array(OffsetDeleteRequestPartition))


@request(key=47, versions="0", flexible="none")
class OffsetDeleteRequest:
    """Forget what a group committed for some partitions."""

    group_id: str = wire(STRING)
    topics: Sequence[OffsetDeleteRequestTopic] = wire(array(OffsetDeleteRequestTopic))


@struct
class OffsetDeleteResponsePartition:
    partition_index: int = wire(INT32)
    error_code: int = wire(INT16, default=0)


@struct
class OffsetDeleteResponseTopic:
    name: str = wire(STRING)
    partitions: Sequence[OffsetDeleteResponsePartition] = wire(array(OffsetDeleteResponsePartition))


@response(key=47, versions="0", flexible="none")
class OffsetDeleteResponse:
    """The error code stands before the throttle time here, as nowhere else."""

    error_code: int = wire(INT16, default=0)
    throttle_time_ms: int = wire(INT32, default=0)
    topics: Sequence[OffsetDeleteResponseTopic] = wire(array(OffsetDeleteResponseTopic))

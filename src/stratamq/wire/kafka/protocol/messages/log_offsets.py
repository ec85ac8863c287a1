"""Offsets of a log: by time, by leader epoch, and where it begins; and deleting records."""

from __future__ import annotations

from collections.abc import Sequence

from stratamq.wire.kafka.protocol.schema import (
    BYTES,
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
class ListOffsetsPartition:
    partition_index: int = wire(INT32)
    current_leader_epoch: int = wire(INT32, versions="4+", default=-1, ignorable=True)
    timestamp: int = wire(INT64)


@struct
class ListOffsetsTopic:
    name: str = wire(STRING)
    partitions: Sequence[ListOffsetsPartition] = wire(array(ListOffsetsPartition))


@request(key=2, versions="1-11", flexible="6+")
class ListOffsetsRequest:
    """Offsets by time. -1 is the latest, -2 the earliest, -3 that of the largest timestamp."""

    replica_id: int = wire(INT32)
    isolation_level: int = wire(INT8, versions="2+", default=0)
    topics: Sequence[ListOffsetsTopic] = wire(array(ListOffsetsTopic))
    timeout_ms: int = wire(INT32, versions="10+", default=0, ignorable=True)


@struct
class ListOffsetsPartitionResponse:
    partition_index: int = wire(INT32)
    error_code: int = wire(INT16, default=0)
    timestamp: int = wire(INT64, default=-1)
    offset: int = wire(INT64, default=-1)
    leader_epoch: int = wire(INT32, versions="4+", default=-1)


@struct
class ListOffsetsTopicResponse:
    name: str = wire(STRING)
    partitions: Sequence[ListOffsetsPartitionResponse] = wire(array(ListOffsetsPartitionResponse))


@response(key=2, versions="1-11", flexible="6+")
class ListOffsetsResponse:
    """Offset and timestamp of the record found, or -1 for both."""

    throttle_time_ms: int = wire(INT32, versions="2+", default=0, ignorable=True)
    topics: Sequence[ListOffsetsTopicResponse] = wire(array(ListOffsetsTopicResponse))


@struct
class OffsetForLeaderPartition:
    partition: int = wire(INT32)
    current_leader_epoch: int = wire(INT32, default=-1)
    leader_epoch: int = wire(INT32)


@struct
class OffsetForLeaderTopic:
    topic: str = wire(STRING)
    partitions: Sequence[OffsetForLeaderPartition] = wire(array(OffsetForLeaderPartition))


@request(key=23, versions="2-4", flexible="4+")
class OffsetForLeaderEpochRequest:
    """Where did an epoch end? Asked before truncating."""

    replica_id: int = wire(INT32, versions="3+", default=-2, ignorable=True)
    topics: Sequence[OffsetForLeaderTopic] = wire(array(OffsetForLeaderTopic))


@struct
class EpochEndOffset:
    error_code: int = wire(INT16, default=0)
    partition: int = wire(INT32)
    leader_epoch: int = wire(INT32, default=-1)
    end_offset: int = wire(INT64, default=-1)


@struct
class OffsetForLeaderTopicResult:
    topic: str = wire(STRING)
    partitions: Sequence[EpochEndOffset] = wire(array(EpochEndOffset))


@response(key=23, versions="2-4", flexible="4+")
class OffsetForLeaderEpochResponse:
    """The largest known epoch not after the one asked for, and its end."""

    throttle_time_ms: int = wire(INT32, default=0)
    topics: Sequence[OffsetForLeaderTopicResult] = wire(array(OffsetForLeaderTopicResult))


@struct
class DeleteRecordsPartition:
    partition_index: int = wire(INT32)
    offset: int = wire(INT64)


@struct
class DeleteRecordsTopic:
    name: str = wire(STRING)
    partitions: Sequence[DeleteRecordsPartition] = wire(array(DeleteRecordsPartition))


@request(key=21, versions="0-2", flexible="2+")
class DeleteRecordsRequest:
    """Delete what lies before an offset; -1 stands for the high watermark."""

    topics: Sequence[DeleteRecordsTopic] = wire(array(DeleteRecordsTopic))
    timeout_ms: int = wire(INT32)


@struct
class DeleteRecordsPartitionResult:
    partition_index: int = wire(INT32)
    low_watermark: int = wire(INT64)
    error_code: int = wire(INT16, default=0)


@struct
class DeleteRecordsTopicResult:
    name: str = wire(STRING)
    partitions: Sequence[DeleteRecordsPartitionResult] = wire(array(DeleteRecordsPartitionResult))


@response(key=21, versions="0-2", flexible="2+")
class DeleteRecordsResponse:
    """The new starts of the logs."""

    throttle_time_ms: int = wire(INT32, default=0)
    topics: Sequence[DeleteRecordsTopicResult] = wire(array(DeleteRecordsTopicResult))


@struct
class SelectedRecords:
    """The records of a key in one partition, or the record at an offset: one of the two is set."""

    name: str = wire(STRING)
    partition_index: int = wire(INT32)
    key: bytes | None = wire(BYTES, nullable=True, default=None)
    offset: int = wire(INT64, default=-1)


@request(key=32003, versions="0", flexible="0+")
class DeleteSelectedRecordsRequest:
    """Delete single records. Kafka has no such message: see `lake` for the keys of ours."""

    topics: Sequence[SelectedRecords] = wire(array(SelectedRecords))
    timeout_ms: int = wire(INT32, default=60000)


@struct
class DeletedSelection:
    """How many records were deleted: those that were there and not deleted before."""

    error_code: int = wire(INT16, default=0)
    error_message: str | None = wire(STRING, nullable=True, default=None)
    name: str = wire(STRING)
    partition_index: int = wire(INT32, default=-1)
    deleted: int = wire(INT64, default=0)


@response(key=32003, versions="0", flexible="0+")
class DeleteSelectedRecordsResponse:
    throttle_time_ms: int = wire(INT32, default=0)
    topics: Sequence[DeletedSelection] = wire(array(DeletedSelection))

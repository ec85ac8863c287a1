"""Fetch: batches go out, to consumers and to followers."""

from __future__ import annotations

from collections.abc import Sequence

from stratamq.wire.kafka.protocol.messages.metadata import (
    INT32_MAX,
    INT64_MAX,
    LeaderIdAndEpoch,
    NodeEndpoint,
)
from stratamq.wire.kafka.protocol.schema import (
    INT8,
    INT16,
    INT32,
    INT64,
    NO_UUID,
    RECORDS,
    STRING,
    UUID,
    Buffer,
    array,
    request,
    response,
    struct,
    wire,
)


@struct
class ReplicaState:
    """Who a fetching follower is; consumers leave it out."""

    replica_id: int = wire(INT32, default=-1)
    replica_epoch: int = wire(INT64, default=-1)


@struct
class FetchPartition:
    """`current_leader_epoch` -1: do not check. `last_fetched_epoch` is a follower's."""

    partition: int = wire(INT32)
    current_leader_epoch: int = wire(INT32, versions="9+", default=-1, ignorable=True)
    fetch_offset: int = wire(INT64)
    last_fetched_epoch: int = wire(INT32, versions="12+", default=-1)
    log_start_offset: int = wire(INT64, versions="5+", default=-1, ignorable=True)
    partition_max_bytes: int = wire(INT32)
    replica_directory_id: bytes = wire(UUID, tag=0, versions="17+", default=NO_UUID, ignorable=True)
    high_watermark: int = wire(INT64, tag=1, versions="18+", default=INT64_MAX, ignorable=True)


@struct
class FetchTopic:
    """Named up to version 12, by topic id alone from 13."""

    topic: str = wire(STRING, versions="0-12", default="", ignorable=True)
    topic_id: bytes = wire(UUID, versions="13+", default=NO_UUID, ignorable=True)
    partitions: Sequence[FetchPartition] = wire(array(FetchPartition))


@struct
class ForgottenTopic:
    """Partitions to be dropped from an incremental fetch session."""

    topic: str = wire(STRING, versions="0-12", default="", ignorable=True)
    topic_id: bytes = wire(UUID, versions="13+", default=NO_UUID, ignorable=True)
    partitions: Sequence[int] = wire(array(INT32))


@request(key=1, versions="4-18", flexible="12+")
class FetchRequest:
    """Ask for batches from given offsets; wait when there are too few."""

    cluster_id: str | None = wire(
        STRING, tag=0, versions="12+", nullable=True, default=None, ignorable=True
    )
    replica_id: int = wire(INT32, versions="0-14", default=-1)
    replica_state: ReplicaState | None = wire(ReplicaState, tag=1, versions="15+", default=None)
    max_wait_ms: int = wire(INT32)
    min_bytes: int = wire(INT32)
    max_bytes: int = wire(INT32, default=INT32_MAX)
    isolation_level: int = wire(INT8, default=0)
    session_id: int = wire(INT32, versions="7+", default=0, ignorable=True)
    session_epoch: int = wire(INT32, versions="7+", default=-1, ignorable=True)
    topics: Sequence[FetchTopic] = wire(array(FetchTopic))
    forgotten_topics_data: Sequence[ForgottenTopic] = wire(
        array(ForgottenTopic), versions="7+", default=()
    )
    rack_id: str = wire(STRING, versions="11+", default="", ignorable=True)


@struct
class DivergingEpoch:
    """Where a follower's log left ours; it has to truncate to there."""

    epoch: int = wire(INT32, default=-1)
    end_offset: int = wire(INT64, default=-1)


@struct
class SnapshotId:
    """Only a metadata quorum sends it."""

    end_offset: int = wire(INT64, default=-1)
    epoch: int = wire(INT32, default=-1)


@struct
class AbortedTransaction:
    """What a `read_committed` consumer has to skip, from `first_offset` to its marker."""

    producer_id: int = wire(INT64)
    first_offset: int = wire(INT64)


@struct
class FetchablePartitionResponse:
    """`preferred_read_replica` is -1 unless the consumer should ask another one."""

    partition_index: int = wire(INT32)
    error_code: int = wire(INT16, default=0)
    high_watermark: int = wire(INT64)
    last_stable_offset: int = wire(INT64, default=-1)
    log_start_offset: int = wire(INT64, versions="5+", default=-1, ignorable=True)
    diverging_epoch: DivergingEpoch | None = wire(
        DivergingEpoch, tag=0, versions="12+", default=None
    )
    current_leader: LeaderIdAndEpoch | None = wire(
        LeaderIdAndEpoch, tag=1, versions="12+", default=None
    )
    snapshot_id: SnapshotId | None = wire(SnapshotId, tag=2, versions="12+", default=None)
    aborted_transactions: Sequence[AbortedTransaction] | None = wire(
        array(AbortedTransaction), nullable=True
    )
    preferred_read_replica: int = wire(INT32, versions="11+", default=-1)
    records: Buffer | None = wire(RECORDS, nullable=True)


@struct
class FetchableTopicResponse:
    topic: str = wire(STRING, versions="0-12", default="", ignorable=True)
    topic_id: bytes = wire(UUID, versions="13+", default=NO_UUID, ignorable=True)
    partitions: Sequence[FetchablePartitionResponse] = wire(array(FetchablePartitionResponse))


@response(key=1, versions="4-18", flexible="12+")
class FetchResponse:
    """Batches. A session id of 0 means: no session, send full requests."""

    throttle_time_ms: int = wire(INT32, default=0)
    error_code: int = wire(INT16, versions="7+", default=0, ignorable=True)
    session_id: int = wire(INT32, versions="7+", default=0)
    responses: Sequence[FetchableTopicResponse] = wire(array(FetchableTopicResponse))
    node_endpoints: Sequence[NodeEndpoint] = wire(
        array(NodeEndpoint), tag=0, versions="16+", default=()
    )

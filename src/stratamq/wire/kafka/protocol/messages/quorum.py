"""The quorum that keeps the metadata, the brokers registered there, and the cluster's features."""

from __future__ import annotations

from collections.abc import Sequence

from stratamq.wire.kafka.protocol.schema import (
    BOOL,
    INT8,
    INT16,
    INT32,
    INT64,
    NO_UUID,
    STRING,
    UINT16,
    UUID,
    array,
    request,
    response,
    struct,
    wire,
)

# -- DescribeQuorum --------------------------------------------------------------------------------


@struct
class QuorumPartition:
    partition_index: int = wire(INT32)


@struct
class QuorumTopic:
    topic_name: str = wire(STRING)
    partitions: Sequence[QuorumPartition] = wire(array(QuorumPartition))


@request(key=55, versions="0-2", flexible="0+")
class DescribeQuorumRequest:
    """Which nodes vote on the log of metadata, and how far are they?"""

    topics: Sequence[QuorumTopic] = wire(array(QuorumTopic))


@struct
class QuorumReplica:
    replica_id: int = wire(INT32)
    replica_directory_id: bytes = wire(UUID, versions="2+", default=NO_UUID, ignorable=True)
    log_end_offset: int = wire(INT64)
    last_fetch_timestamp: int = wire(INT64, versions="1+", default=-1, ignorable=True)
    last_caught_up_timestamp: int = wire(INT64, versions="1+", default=-1, ignorable=True)


@struct
class QuorumPartitionResult:
    partition_index: int = wire(INT32)
    error_code: int = wire(INT16, default=0)
    error_message: str | None = wire(
        STRING, versions="2+", nullable=True, default=None, ignorable=True
    )
    leader_id: int = wire(INT32, default=-1)
    leader_epoch: int = wire(INT32, default=-1)
    high_watermark: int = wire(INT64, default=-1)
    current_voters: Sequence[QuorumReplica] = wire(array(QuorumReplica), default=())
    observers: Sequence[QuorumReplica] = wire(array(QuorumReplica), default=())


@struct
class QuorumTopicResult:
    topic_name: str = wire(STRING)
    partitions: Sequence[QuorumPartitionResult] = wire(array(QuorumPartitionResult))


@struct
class QuorumListener:
    name: str = wire(STRING)
    host: str = wire(STRING)
    port: int = wire(UINT16)


@struct
class QuorumNode:
    node_id: int = wire(INT32)
    listeners: Sequence[QuorumListener] = wire(array(QuorumListener))


@response(key=55, versions="0-2", flexible="0+")
class DescribeQuorumResponse:
    """Voters are replicas that decide; observers only follow."""

    error_code: int = wire(INT16, default=0)
    error_message: str | None = wire(
        STRING, versions="2+", nullable=True, default=None, ignorable=True
    )
    topics: Sequence[QuorumTopicResult] = wire(array(QuorumTopicResult))
    nodes: Sequence[QuorumNode] = wire(array(QuorumNode), versions="2+", default=(), ignorable=True)


# -- UnregisterBroker ------------------------------------------------------------------------------


@request(key=64, versions="0", flexible="0+")
class UnregisterBrokerRequest:
    broker_id: int = wire(INT32)


@response(key=64, versions="0", flexible="0+")
class UnregisterBrokerResponse:
    throttle_time_ms: int = wire(INT32, default=0)
    error_code: int = wire(INT16, default=0)
    error_message: str | None = wire(STRING, nullable=True, default=None)


# -- UpdateFeatures --------------------------------------------------------------------------------


@struct
class FeatureUpdate:
    """`upgrade_type` 1 is an upgrade, 2 a downgrade that loses nothing, 3 any downgrade."""

    feature: str = wire(STRING)
    max_version_level: int = wire(INT16)
    allow_downgrade: bool = wire(BOOL, versions="0", default=False)
    upgrade_type: int = wire(INT8, versions="1+", default=1)


@request(key=57, versions="0-2", flexible="0+")
class UpdateFeaturesRequest:
    timeout_ms: int = wire(INT32, default=60000)
    feature_updates: Sequence[FeatureUpdate] = wire(array(FeatureUpdate))
    validate_only: bool = wire(BOOL, versions="1+", default=False)


@struct
class FeatureUpdateResult:
    feature: str = wire(STRING)
    error_code: int = wire(INT16, default=0)
    error_message: str | None = wire(STRING, nullable=True, default=None)


@response(key=57, versions="0-2", flexible="0+")
class UpdateFeaturesResponse:
    """From version 2 on there is one error for all."""

    throttle_time_ms: int = wire(INT32, default=0)
    error_code: int = wire(INT16, default=0)
    error_message: str | None = wire(STRING, nullable=True, default=None)
    results: Sequence[FeatureUpdateResult] = wire(
        array(FeatureUpdateResult), versions="0-1", default=(), ignorable=True
    )

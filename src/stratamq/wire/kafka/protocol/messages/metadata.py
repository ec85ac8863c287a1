"""What the cluster looks like: brokers, topics, partitions and their leaders."""

from __future__ import annotations

from collections.abc import Sequence

from stratamq.wire.kafka.protocol.schema import (
    BOOL,
    INT8,
    INT16,
    INT32,
    NO_UUID,
    STRING,
    UUID,
    array,
    request,
    response,
    struct,
    wire,
)

INT32_MAX = (1 << 31) - 1
INT64_MAX = (1 << 63) - 1

NOT_ASKED = -(1 << 31)
"""In a bit field of authorised operations: the client did not ask for them."""


@struct
class LeaderIdAndEpoch:
    """Who leads now: spares the client a Metadata request."""

    leader_id: int = wire(INT32, default=-1)
    leader_epoch: int = wire(INT32, default=-1)


@struct
class NodeEndpoint:
    """Where a leader named in the same response can be reached."""

    node_id: int = wire(INT32)
    host: str = wire(STRING)
    port: int = wire(INT32)
    rack: str | None = wire(STRING, nullable=True, default=None)


@struct
class MetadataRequestTopic:
    topic_id: bytes = wire(UUID, versions="10+", default=NO_UUID, ignorable=True)
    name: str | None = wire(STRING, nullable="10+")


@request(key=3, versions="0-13", flexible="9+")
class MetadataRequest:
    """Topics by name or, from version 10, by id. Null (in version 0: none) means all."""

    topics: Sequence[MetadataRequestTopic] | None = wire(array(MetadataRequestTopic), nullable="1+")
    allow_auto_topic_creation: bool = wire(BOOL, versions="4+", default=True)
    include_cluster_authorized_operations: bool = wire(BOOL, versions="8-10", default=False)
    include_topic_authorized_operations: bool = wire(BOOL, versions="8+", default=False)


@struct
class MetadataResponseBroker:
    node_id: int = wire(INT32)
    host: str = wire(STRING)
    port: int = wire(INT32)
    rack: str | None = wire(STRING, versions="1+", nullable=True, default=None, ignorable=True)


@struct
class MetadataResponsePartition:
    error_code: int = wire(INT16, default=0)
    partition_index: int = wire(INT32)
    leader_id: int = wire(INT32)
    leader_epoch: int = wire(INT32, versions="7+", default=-1, ignorable=True)
    replica_nodes: Sequence[int] = wire(array(INT32))
    isr_nodes: Sequence[int] = wire(array(INT32))
    offline_replicas: Sequence[int] = wire(array(INT32), versions="5+", default=(), ignorable=True)


@struct
class MetadataResponseTopic:
    error_code: int = wire(INT16, default=0)
    name: str | None = wire(STRING, nullable="12+")
    topic_id: bytes = wire(UUID, versions="10+", default=NO_UUID, ignorable=True)
    is_internal: bool = wire(BOOL, versions="1+", default=False, ignorable=True)
    partitions: Sequence[MetadataResponsePartition] = wire(array(MetadataResponsePartition))
    topic_authorized_operations: int = wire(INT32, versions="8+", default=NOT_ASKED)


@response(key=3, versions="0-13", flexible="9+")
class MetadataResponse:
    """Brokers, topics, partitions."""

    throttle_time_ms: int = wire(INT32, versions="3+", default=0, ignorable=True)
    brokers: Sequence[MetadataResponseBroker] = wire(array(MetadataResponseBroker))
    cluster_id: str | None = wire(
        STRING, versions="2+", nullable=True, default=None, ignorable=True
    )
    controller_id: int = wire(INT32, versions="1+", default=-1, ignorable=True)
    topics: Sequence[MetadataResponseTopic] = wire(array(MetadataResponseTopic))
    cluster_authorized_operations: int = wire(INT32, versions="8-10", default=NOT_ASKED)
    error_code: int = wire(INT16, versions="13+", default=0, ignorable=True)


@request(key=60, versions="0-2", flexible="0+")
class DescribeClusterRequest:
    """Brokers and controller without topics."""

    include_cluster_authorized_operations: bool = wire(BOOL)
    endpoint_type: int = wire(INT8, versions="1+", default=1)
    include_fenced_brokers: bool = wire(BOOL, versions="2+", default=False)


@struct
class DescribeClusterBroker:
    broker_id: int = wire(INT32)
    host: str = wire(STRING)
    port: int = wire(INT32)
    rack: str | None = wire(STRING, nullable=True, default=None)
    is_fenced: bool = wire(BOOL, versions="2+", default=False)


@response(key=60, versions="0-2", flexible="0+")
class DescribeClusterResponse:
    """The cluster, as an administrator sees it."""

    throttle_time_ms: int = wire(INT32, default=0)
    error_code: int = wire(INT16, default=0)
    error_message: str | None = wire(STRING, nullable=True, default=None)
    endpoint_type: int = wire(INT8, versions="1+", default=1)
    cluster_id: str = wire(STRING)
    controller_id: int = wire(INT32, default=-1)
    brokers: Sequence[DescribeClusterBroker] = wire(array(DescribeClusterBroker))
    cluster_authorized_operations: int = wire(INT32, default=NOT_ASKED)


@struct
class DescribeTopicPartitionsTopic:
    name: str = wire(STRING)


@struct
class Cursor:
    topic_name: str = wire(STRING)
    partition_index: int = wire(INT32)


@request(key=75, versions="0", flexible="0+")
class DescribeTopicPartitionsRequest:
    """Topics page by page; `cursor` says where to go on."""

    topics: Sequence[DescribeTopicPartitionsTopic] = wire(array(DescribeTopicPartitionsTopic))
    response_partition_limit: int = wire(INT32, default=2000)
    cursor: Cursor | None = wire(Cursor, nullable=True, default=None)


@struct
class DescribeTopicPartitionsResponsePartition:
    """The two lists of eligible leaders may be null, but Java clients fail on null: send []."""

    error_code: int = wire(INT16, default=0)
    partition_index: int = wire(INT32)
    leader_id: int = wire(INT32)
    leader_epoch: int = wire(INT32, default=-1)
    replica_nodes: Sequence[int] = wire(array(INT32))
    isr_nodes: Sequence[int] = wire(array(INT32))
    eligible_leader_replicas: Sequence[int] | None = wire(array(INT32), nullable=True, default=None)
    last_known_elr: Sequence[int] | None = wire(array(INT32), nullable=True, default=None)
    offline_replicas: Sequence[int] = wire(array(INT32))


@struct
class DescribeTopicPartitionsResponseTopic:
    error_code: int = wire(INT16, default=0)
    name: str | None = wire(STRING, nullable=True)
    topic_id: bytes = wire(UUID)
    is_internal: bool = wire(BOOL, default=False)
    partitions: Sequence[DescribeTopicPartitionsResponsePartition] = wire(
        array(DescribeTopicPartitionsResponsePartition)
    )
    topic_authorized_operations: int = wire(INT32, default=NOT_ASKED)


@response(key=75, versions="0", flexible="0+")
class DescribeTopicPartitionsResponse:
    """A page of topics, and the cursor of the next."""

    throttle_time_ms: int = wire(INT32, default=0)
    topics: Sequence[DescribeTopicPartitionsResponseTopic] = wire(
        array(DescribeTopicPartitionsResponseTopic)
    )
    next_cursor: Cursor | None = wire(Cursor, nullable=True, default=None)

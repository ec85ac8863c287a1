"""Topics: create, delete, widen."""

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


@struct
class CreatableReplicaAssignment:
    partition_index: int = wire(INT32)
    broker_ids: Sequence[int] = wire(array(INT32))


@struct
class CreatableTopicConfig:
    name: str = wire(STRING)
    value: str | None = wire(STRING, nullable=True)


@struct
class CreatableTopic:
    name: str = wire(STRING)
    num_partitions: int = wire(INT32)
    replication_factor: int = wire(INT16)
    assignments: Sequence[CreatableReplicaAssignment] = wire(array(CreatableReplicaAssignment))
    configs: Sequence[CreatableTopicConfig] = wire(array(CreatableTopicConfig))


@request(key=19, versions="2-7", flexible="5+")
class CreateTopicsRequest:
    """-1 partitions or replicas mean the broker's default, from version 4."""

    topics: Sequence[CreatableTopic] = wire(array(CreatableTopic))
    timeout_ms: int = wire(INT32, default=60000)
    validate_only: bool = wire(BOOL, default=False)


@struct
class CreatableTopicConfigs:
    name: str = wire(STRING)
    value: str | None = wire(STRING, nullable=True)
    read_only: bool = wire(BOOL)
    config_source: int = wire(INT8, default=-1)
    is_sensitive: bool = wire(BOOL)


@struct
class CreatableTopicResult:
    name: str = wire(STRING)
    topic_id: bytes = wire(UUID, versions="7+", default=NO_UUID, ignorable=True)
    error_code: int = wire(INT16, default=0)
    error_message: str | None = wire(STRING, nullable=True, default=None)
    topic_config_error_code: int = wire(INT16, tag=0, versions="5+", default=0, ignorable=True)
    num_partitions: int = wire(INT32, versions="5+", default=-1, ignorable=True)
    replication_factor: int = wire(INT16, versions="5+", default=-1, ignorable=True)
    configs: Sequence[CreatableTopicConfigs] | None = wire(
        array(CreatableTopicConfigs), versions="5+", nullable=True, default=(), ignorable=True
    )


@response(key=19, versions="2-7", flexible="5+")
class CreateTopicsResponse:
    """`configs` may be null from version 5, but Java clients fail on null: send []."""

    throttle_time_ms: int = wire(INT32, default=0)
    topics: Sequence[CreatableTopicResult] = wire(array(CreatableTopicResult))


@struct
class DeleteTopicState:
    name: str | None = wire(STRING, nullable=True, default=None)
    topic_id: bytes = wire(UUID)


@request(key=20, versions="1-6", flexible="4+")
class DeleteTopicsRequest:
    """By name up to version 5, by name or id from 6."""

    topics: Sequence[DeleteTopicState] = wire(array(DeleteTopicState), versions="6+", default=())
    topic_names: Sequence[str] = wire(array(STRING), versions="0-5", default=(), ignorable=True)
    timeout_ms: int = wire(INT32)


@struct
class DeletableTopicResult:
    name: str | None = wire(STRING, nullable="6+")
    topic_id: bytes = wire(UUID, versions="6+", default=NO_UUID, ignorable=True)
    error_code: int = wire(INT16, default=0)
    error_message: str | None = wire(
        STRING, versions="5+", nullable=True, default=None, ignorable=True
    )


@response(key=20, versions="1-6", flexible="4+")
class DeleteTopicsResponse:
    """One error code per topic."""

    throttle_time_ms: int = wire(INT32, default=0)
    responses: Sequence[DeletableTopicResult] = wire(array(DeletableTopicResult))


@struct
class CreatePartitionsAssignment:
    broker_ids: Sequence[int] = wire(array(INT32))


@struct
class CreatePartitionsTopic:
    name: str = wire(STRING)
    count: int = wire(INT32)
    assignments: Sequence[CreatePartitionsAssignment] | None = wire(
        array(CreatePartitionsAssignment), nullable=True
    )


@request(key=37, versions="0-3", flexible="2+")
class CreatePartitionsRequest:
    """`count` is how many the topic shall have, not how many to add."""

    topics: Sequence[CreatePartitionsTopic] = wire(array(CreatePartitionsTopic))
    timeout_ms: int = wire(INT32)
    validate_only: bool = wire(BOOL)


@struct
class CreatePartitionsTopicResult:
    name: str = wire(STRING)
    error_code: int = wire(INT16, default=0)
    error_message: str | None = wire(STRING, nullable=True, default=None)


@response(key=37, versions="0-3", flexible="2+")
class CreatePartitionsResponse:
    """One error code per topic."""

    throttle_time_ms: int = wire(INT32, default=0)
    results: Sequence[CreatePartitionsTopicResult] = wire(array(CreatePartitionsTopicResult))

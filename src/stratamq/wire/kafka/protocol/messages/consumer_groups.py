"""The consumer protocol of KIP-848: the coordinator assigns, members report."""

from __future__ import annotations

from collections.abc import Sequence

from stratamq.wire.kafka.protocol.messages.metadata import NOT_ASKED
from stratamq.wire.kafka.protocol.schema import (
    BOOL,
    INT8,
    INT16,
    INT32,
    STRING,
    UUID,
    array,
    request,
    response,
    struct,
    wire,
)


@struct
class TopicPartitions:
    topic_id: bytes = wire(UUID)
    partitions: Sequence[int] = wire(array(INT32))


@request(key=68, versions="0-1", flexible="0+")
class ConsumerGroupHeartbeatRequest:
    """Join (epoch 0), stay, leave (-1). What did not change since the last one is null."""

    group_id: str = wire(STRING)
    member_id: str = wire(STRING)
    member_epoch: int = wire(INT32)
    instance_id: str | None = wire(STRING, nullable=True, default=None)
    rack_id: str | None = wire(STRING, nullable=True, default=None)
    rebalance_timeout_ms: int = wire(INT32, default=-1)
    subscribed_topic_names: Sequence[str] | None = wire(array(STRING), nullable=True, default=None)
    subscribed_topic_regex: str | None = wire(STRING, versions="1+", nullable=True, default=None)
    server_assignor: str | None = wire(STRING, nullable=True, default=None)
    topic_partitions: Sequence[TopicPartitions] | None = wire(
        array(TopicPartitions), nullable=True, default=None
    )


@struct
class Assignment:
    topic_partitions: Sequence[TopicPartitions] = wire(array(TopicPartitions))


@response(key=68, versions="0-1", flexible="0+")
class ConsumerGroupHeartbeatResponse:
    """The assignment is null when it did not change."""

    throttle_time_ms: int = wire(INT32, default=0)
    error_code: int = wire(INT16, default=0)
    error_message: str | None = wire(STRING, nullable=True, default=None)
    member_id: str | None = wire(STRING, nullable=True, default=None)
    member_epoch: int = wire(INT32)
    heartbeat_interval_ms: int = wire(INT32)
    assignment: Assignment | None = wire(Assignment, nullable=True, default=None)


@request(key=69, versions="0-1", flexible="0+")
class ConsumerGroupDescribeRequest:
    """Ask for groups that use this protocol."""

    group_ids: Sequence[str] = wire(array(STRING))
    include_authorized_operations: bool = wire(BOOL)


@struct
class NamedTopicPartitions:
    topic_id: bytes = wire(UUID)
    topic_name: str = wire(STRING)
    partitions: Sequence[int] = wire(array(INT32))


@struct
class ConsumerGroupMemberAssignment:
    topic_partitions: Sequence[NamedTopicPartitions] = wire(array(NamedTopicPartitions))


@struct
class ConsumerGroupMember:
    """`member_type`: -1 unknown, 0 classic, 1 consumer."""

    member_id: str = wire(STRING)
    instance_id: str | None = wire(STRING, nullable=True, default=None)
    rack_id: str | None = wire(STRING, nullable=True, default=None)
    member_epoch: int = wire(INT32)
    client_id: str = wire(STRING)
    client_host: str = wire(STRING)
    subscribed_topic_names: Sequence[str] = wire(array(STRING))
    subscribed_topic_regex: str | None = wire(STRING, nullable=True, default=None)
    assignment: ConsumerGroupMemberAssignment = wire(ConsumerGroupMemberAssignment)
    target_assignment: ConsumerGroupMemberAssignment = wire(ConsumerGroupMemberAssignment)
    member_type: int = wire(INT8, versions="1+", default=-1, ignorable=True)


@struct
class DescribedConsumerGroup:
    error_code: int = wire(INT16, default=0)
    error_message: str | None = wire(STRING, nullable=True, default=None)
    group_id: str = wire(STRING)
    group_state: str = wire(STRING)
    group_epoch: int = wire(INT32)
    assignment_epoch: int = wire(INT32)
    assignor_name: str = wire(STRING)
    members: Sequence[ConsumerGroupMember] = wire(array(ConsumerGroupMember))
    authorized_operations: int = wire(INT32, default=NOT_ASKED)


@response(key=69, versions="0-1", flexible="0+")
class ConsumerGroupDescribeResponse:
    """Groups with what their members have and what they are to have."""

    throttle_time_ms: int = wire(INT32, default=0)
    groups: Sequence[DescribedConsumerGroup] = wire(array(DescribedConsumerGroup))

"""Produce: batches come in."""

from __future__ import annotations

from collections.abc import Sequence

from stratamq.wire.kafka.protocol.messages.metadata import LeaderIdAndEpoch, NodeEndpoint
from stratamq.wire.kafka.protocol.schema import (
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
class PartitionProduceData:
    """`records` is a view into the request's frame: it lives as long as the view does."""

    index: int = wire(INT32)
    records: Buffer | None = wire(RECORDS, nullable=True)


@struct
class TopicProduceData:
    """Named up to version 12, by topic id alone from 13."""

    name: str = wire(STRING, versions="0-12", default="", ignorable=True)
    topic_id: bytes = wire(UUID, versions="13+", default=NO_UUID, ignorable=True)
    partition_data: Sequence[PartitionProduceData] = wire(array(PartitionProduceData))


@request(key=0, versions="3-13", flexible="9+")
class ProduceRequest:
    """Store batches. With acks 0 no response is sent, not even an error."""

    transactional_id: str | None = wire(STRING, nullable=True, default=None)
    acks: int = wire(INT16)
    timeout_ms: int = wire(INT32)
    topic_data: Sequence[TopicProduceData] = wire(array(TopicProduceData))


@struct
class BatchIndexAndErrorMessage:
    """Which record of a refused batch was at fault, and why."""

    batch_index: int = wire(INT32)
    batch_index_error_message: str | None = wire(STRING, nullable=True, default=None)


@struct
class PartitionProduceResponse:
    index: int = wire(INT32)
    error_code: int = wire(INT16, default=0)
    base_offset: int = wire(INT64)
    log_append_time_ms: int = wire(INT64, default=-1)
    log_start_offset: int = wire(INT64, versions="5+", default=-1, ignorable=True)
    record_errors: Sequence[BatchIndexAndErrorMessage] = wire(
        array(BatchIndexAndErrorMessage), versions="8+", default=(), ignorable=True
    )
    error_message: str | None = wire(
        STRING, versions="8+", nullable=True, default=None, ignorable=True
    )
    current_leader: LeaderIdAndEpoch | None = wire(
        LeaderIdAndEpoch, tag=0, versions="10+", default=None
    )


@struct
class TopicProduceResponse:
    name: str = wire(STRING, versions="0-12", default="", ignorable=True)
    topic_id: bytes = wire(UUID, versions="13+", default=NO_UUID, ignorable=True)
    partition_responses: Sequence[PartitionProduceResponse] = wire(array(PartitionProduceResponse))


@response(key=0, versions="3-13", flexible="9+")
class ProduceResponse:
    """Where the batches landed."""

    responses: Sequence[TopicProduceResponse] = wire(array(TopicProduceResponse))
    throttle_time_ms: int = wire(INT32, default=0)
    node_endpoints: Sequence[NodeEndpoint] = wire(
        array(NodeEndpoint), tag=0, versions="10+", default=()
    )

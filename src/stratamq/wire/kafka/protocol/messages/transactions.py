"""Producer ids and transactions."""

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


@request(key=22, versions="0-6", flexible="2+")
class InitProducerIdRequest:
    """Ask for a producer id; with a transactional id, also fence its older owners."""

    transactional_id: str | None = wire(STRING, nullable=True)
    transaction_timeout_ms: int = wire(INT32)
    producer_id: int = wire(INT64, versions="3+", default=-1)
    producer_epoch: int = wire(INT16, versions="3+", default=-1)
    enable2_pc: bool = wire(BOOL, versions="6+", default=False)
    keep_prepared_txn: bool = wire(BOOL, versions="6+", default=False)


@response(key=22, versions="0-6", flexible="2+")
class InitProducerIdResponse:
    """The id and epoch to produce with."""

    throttle_time_ms: int = wire(INT32, default=0)
    error_code: int = wire(INT16, default=0)
    producer_id: int = wire(INT64, default=-1)
    producer_epoch: int = wire(INT16)
    ongoing_txn_producer_id: int = wire(INT64, versions="6+", default=-1)
    ongoing_txn_producer_epoch: int = wire(INT16, versions="6+", default=-1)


@struct
class AddPartitionsToTxnTopic:
    name: str = wire(STRING)
    partitions: Sequence[int] = wire(array(INT32))


@struct
class AddPartitionsToTxnTransaction:
    transactional_id: str = wire(STRING)
    producer_id: int = wire(INT64)
    producer_epoch: int = wire(INT16)
    verify_only: bool = wire(BOOL, default=False)
    topics: Sequence[AddPartitionsToTxnTopic] = wire(array(AddPartitionsToTxnTopic))


@request(key=24, versions="0-5", flexible="3+")
class AddPartitionsToTxnRequest:
    """A producer names its partitions up to version 3; brokers ask in batches from 4."""

    transactions: Sequence[AddPartitionsToTxnTransaction] = wire(
        array(AddPartitionsToTxnTransaction), versions="4+", default=()
    )
    v3_and_below_transactional_id: str = wire(STRING, versions="0-3", default="")
    v3_and_below_producer_id: int = wire(INT64, versions="0-3", default=0)
    v3_and_below_producer_epoch: int = wire(INT16, versions="0-3", default=0)
    v3_and_below_topics: Sequence[AddPartitionsToTxnTopic] = wire(
        array(AddPartitionsToTxnTopic), versions="0-3", default=()
    )


@struct
class AddPartitionsToTxnPartitionResult:
    partition_index: int = wire(INT32)
    partition_error_code: int = wire(INT16, default=0)


@struct
class AddPartitionsToTxnTopicResult:
    name: str = wire(STRING)
    results_by_partition: Sequence[AddPartitionsToTxnPartitionResult] = wire(
        array(AddPartitionsToTxnPartitionResult)
    )


@struct
class AddPartitionsToTxnResult:
    transactional_id: str = wire(STRING)
    topic_results: Sequence[AddPartitionsToTxnTopicResult] = wire(
        array(AddPartitionsToTxnTopicResult)
    )


@response(key=24, versions="0-5", flexible="3+")
class AddPartitionsToTxnResponse:
    """By topic up to version 3, by transaction and topic from 4."""

    throttle_time_ms: int = wire(INT32, default=0)
    error_code: int = wire(INT16, versions="4+", default=0, ignorable=True)
    results_by_transaction: Sequence[AddPartitionsToTxnResult] = wire(
        array(AddPartitionsToTxnResult), versions="4+", default=()
    )
    results_by_topic_v3_and_below: Sequence[AddPartitionsToTxnTopicResult] = wire(
        array(AddPartitionsToTxnTopicResult), versions="0-3", default=()
    )


@request(key=25, versions="0-4", flexible="3+")
class AddOffsetsToTxnRequest:
    """A transaction is going to commit offsets of this group."""

    transactional_id: str = wire(STRING)
    producer_id: int = wire(INT64)
    producer_epoch: int = wire(INT16)
    group_id: str = wire(STRING)


@response(key=25, versions="0-4", flexible="3+")
class AddOffsetsToTxnResponse:
    """Nothing but an error code."""

    throttle_time_ms: int = wire(INT32, default=0)
    error_code: int = wire(INT16, default=0)


@request(key=26, versions="0-5", flexible="3+")
class EndTxnRequest:
    """Commit or abort."""

    transactional_id: str = wire(STRING)
    producer_id: int = wire(INT64)
    producer_epoch: int = wire(INT16)
    committed: bool = wire(BOOL)


@response(key=26, versions="0-5", flexible="3+")
class EndTxnResponse:
    """From version 5 with the epoch to go on with."""

    throttle_time_ms: int = wire(INT32, default=0)
    error_code: int = wire(INT16, default=0)
    producer_id: int = wire(INT64, versions="5+", default=-1, ignorable=True)
    producer_epoch: int = wire(INT16, versions="5+", default=-1, ignorable=True)


@struct
class WritableTxnMarkerTopic:
    name: str = wire(STRING)
    partition_indexes: Sequence[int] = wire(array(INT32))


@struct
class WritableTxnMarker:
    producer_id: int = wire(INT64)
    producer_epoch: int = wire(INT16)
    transaction_result: bool = wire(BOOL)
    topics: Sequence[WritableTxnMarkerTopic] = wire(array(WritableTxnMarkerTopic))
    coordinator_epoch: int = wire(INT32)
    transaction_version: int = wire(INT8, versions="2+", default=0, ignorable=True)


@request(key=27, versions="1-2", flexible="1+")
class WriteTxnMarkersRequest:
    """A coordinator tells partition leaders how transactions ended."""

    markers: Sequence[WritableTxnMarker] = wire(array(WritableTxnMarker))


@struct
class WritableTxnMarkerPartitionResult:
    partition_index: int = wire(INT32)
    error_code: int = wire(INT16, default=0)


@struct
class WritableTxnMarkerTopicResult:
    name: str = wire(STRING)
    partitions: Sequence[WritableTxnMarkerPartitionResult] = wire(
        array(WritableTxnMarkerPartitionResult)
    )


@struct
class WritableTxnMarkerResult:
    producer_id: int = wire(INT64)
    topics: Sequence[WritableTxnMarkerTopicResult] = wire(array(WritableTxnMarkerTopicResult))


@response(key=27, versions="1-2", flexible="1+")
class WriteTxnMarkersResponse:
    """One error code per partition of each marker."""

    markers: Sequence[WritableTxnMarkerResult] = wire(array(WritableTxnMarkerResult))


@struct
class TxnOffsetCommitRequestPartition:
    partition_index: int = wire(INT32)
    committed_offset: int = wire(INT64)
    committed_leader_epoch: int = wire(INT32, versions="2+", default=-1, ignorable=True)
    committed_metadata: str | None = wire(STRING, nullable=True)


@struct
class TxnOffsetCommitRequestTopic:
    name: str = wire(STRING)
    partitions: Sequence[TxnOffsetCommitRequestPartition] = wire(
        array(TxnOffsetCommitRequestPartition)
    )


@request(key=28, versions="0-5", flexible="3+")
class TxnOffsetCommitRequest:
    """Commit offsets as a part of a transaction."""

    transactional_id: str = wire(STRING)
    group_id: str = wire(STRING)
    producer_id: int = wire(INT64)
    producer_epoch: int = wire(INT16)
    generation_id: int = wire(INT32, versions="3+", default=-1)
    member_id: str = wire(STRING, versions="3+", default="")
    group_instance_id: str | None = wire(STRING, versions="3+", nullable=True, default=None)
    topics: Sequence[TxnOffsetCommitRequestTopic] = wire(array(TxnOffsetCommitRequestTopic))


@struct
class TxnOffsetCommitResponsePartition:
    partition_index: int = wire(INT32)
    error_code: int = wire(INT16, default=0)


@struct
class TxnOffsetCommitResponseTopic:
    name: str = wire(STRING)
    partitions: Sequence[TxnOffsetCommitResponsePartition] = wire(
        array(TxnOffsetCommitResponsePartition)
    )


@response(key=28, versions="0-5", flexible="3+")
class TxnOffsetCommitResponse:
    """One error code per partition."""

    throttle_time_ms: int = wire(INT32, default=0)
    topics: Sequence[TxnOffsetCommitResponseTopic] = wire(array(TxnOffsetCommitResponseTopic))

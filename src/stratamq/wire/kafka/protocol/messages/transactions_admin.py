"""Producers and transactions as an administrator sees them."""

from __future__ import annotations

from collections.abc import Sequence

from stratamq.wire.kafka.protocol.schema import (
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
class DescribeProducersTopic:
    name: str = wire(STRING)
    partition_indexes: Sequence[int] = wire(array(INT32))


@request(key=61, versions="0", flexible="0+")
class DescribeProducersRequest:
    """Ask who is producing to some partitions."""

    topics: Sequence[DescribeProducersTopic] = wire(array(DescribeProducersTopic))


@struct
class ProducerState:
    producer_id: int = wire(INT64)
    producer_epoch: int = wire(INT32)
    last_sequence: int = wire(INT32, default=-1)
    last_timestamp: int = wire(INT64, default=-1)
    coordinator_epoch: int = wire(INT32)
    current_txn_start_offset: int = wire(INT64, default=-1)


@struct
class DescribeProducersPartition:
    partition_index: int = wire(INT32)
    error_code: int = wire(INT16, default=0)
    error_message: str | None = wire(STRING, nullable=True, default=None)
    active_producers: Sequence[ProducerState] = wire(array(ProducerState))


@struct
class DescribeProducersTopicResult:
    name: str = wire(STRING)
    partitions: Sequence[DescribeProducersPartition] = wire(array(DescribeProducersPartition))


@response(key=61, versions="0", flexible="0+")
class DescribeProducersResponse:
    """Producers with their sequences and open transactions."""

    throttle_time_ms: int = wire(INT32, default=0)
    topics: Sequence[DescribeProducersTopicResult] = wire(array(DescribeProducersTopicResult))


@request(key=65, versions="0", flexible="0+")
class DescribeTransactionsRequest:
    """Ask for the state of transactional ids."""

    transactional_ids: Sequence[str] = wire(array(STRING))


@struct
class TransactionTopic:
    topic: str = wire(STRING)
    partitions: Sequence[int] = wire(array(INT32))


@struct
class DescribedTransaction:
    error_code: int = wire(INT16, default=0)
    transactional_id: str = wire(STRING)
    transaction_state: str = wire(STRING)
    transaction_timeout_ms: int = wire(INT32)
    transaction_start_time_ms: int = wire(INT64)
    producer_id: int = wire(INT64)
    producer_epoch: int = wire(INT16)
    topics: Sequence[TransactionTopic] = wire(array(TransactionTopic))


@response(key=65, versions="0", flexible="0+")
class DescribeTransactionsResponse:
    """Transactions with the partitions in them."""

    throttle_time_ms: int = wire(INT32, default=0)
    transaction_states: Sequence[DescribedTransaction] = wire(array(DescribedTransaction))


@request(key=66, versions="0-2", flexible="0+")
class ListTransactionsRequest:
    """All transactions, or those of some states, producers, age or name."""

    state_filters: Sequence[str] = wire(array(STRING))
    producer_id_filters: Sequence[int] = wire(array(INT64))
    duration_filter: int = wire(INT64, versions="1+", default=-1)
    transactional_id_pattern: str | None = wire(STRING, versions="2+", nullable=True, default=None)


@struct
class ListedTransaction:
    transactional_id: str = wire(STRING)
    producer_id: int = wire(INT64)
    transaction_state: str = wire(STRING)


@response(key=66, versions="0-2", flexible="0+")
class ListTransactionsResponse:
    """Transactions that this node coordinates."""

    throttle_time_ms: int = wire(INT32, default=0)
    error_code: int = wire(INT16, default=0)
    unknown_state_filters: Sequence[str] = wire(array(STRING))
    transaction_states: Sequence[ListedTransaction] = wire(array(ListedTransaction))

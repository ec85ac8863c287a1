"""Rights to transactional ids, and to the topics and groups within their transactions."""

from __future__ import annotations

from typing import Any

from stratamq.broker.kafka.security.rights import Rights, Verdict, each, listed, refused, split
from stratamq.model.access import Operation
from stratamq.wire.kafka.protocol import ErrorCode, Steps
from stratamq.wire.kafka.protocol.messages import transactions as txn
from stratamq.wire.kafka.protocol.messages.transactions_admin import (
    DescribedTransaction,
    DescribeProducersPartition,
    DescribeProducersTopic,
    DescribeProducersTopicResult,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
)

NO_TOPIC = ErrorCode.TOPIC_AUTHORIZATION_FAILED
NO_GROUP = ErrorCode.GROUP_AUTHORIZATION_FAILED
NO_CLUSTER = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
NO_TRANSACTION = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
BETWEEN_BROKERS_FROM = 4


def init_producer(request: txn.InitProducerIdRequest, rights: Rights) -> Verdict | None:
    """Without a transactional id, a caller that may write to any topic may do it idempotently."""
    name = request.transactional_id
    if name is None:
        may = rights.on_cluster(Operation.IDEMPOTENT_WRITE) or rights.on_any_topic(Operation.WRITE)
        code = NO_CLUSTER
    else:
        may = rights.on_transaction(Operation.WRITE, name) and (
            not request.enable2_pc or rights.on_transaction(Operation.TWO_PHASE_COMMIT, name)
        )
        code = NO_TRANSACTION
    if may:
        return None
    return refused(txn.InitProducerIdResponse(error_code=code, producer_epoch=-1))


def add_partitions(request: txn.AddPartitionsToTxnRequest, rights: Rights) -> Steps[Verdict | None]:
    """One topic refused, and none is added: the others get OPERATION_NOT_ATTEMPTED."""
    if rights.caller.version >= BETWEEN_BROKERS_FROM:
        if rights.on_cluster(Operation.CLUSTER_ACTION):
            return None
        return refused(txn.AddPartitionsToTxnResponse(error_code=NO_CLUSTER))
    topics = request.v3_and_below_topics
    if not rights.on_transaction(Operation.WRITE, request.v3_and_below_transactional_id):
        return (yield from _not_added({one.name: NO_TRANSACTION for one in topics}, request))
    allowed, denied = yield from split(
        topics, lambda one: rights.on_topic(Operation.WRITE, one.name)
    )
    if not denied:
        return None
    codes = {one.name: ErrorCode.OPERATION_NOT_ATTEMPTED for one in allowed}
    codes.update((one.name, NO_TOPIC) for one in denied)
    return (yield from _not_added(codes, request))


def _not_added(
    codes: dict[str, ErrorCode], request: txn.AddPartitionsToTxnRequest
) -> Steps[Verdict]:
    results = yield from listed(
        txn.AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                txn.AddPartitionsToTxnPartitionResult(
                    partition_index=one, partition_error_code=codes[topic.name]
                )
                for one in topic.partitions
            ],
        )
        for topic in request.v3_and_below_topics
    )
    return refused(txn.AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results))


def add_offsets(request: txn.AddOffsetsToTxnRequest, rights: Rights) -> Verdict | None:
    if not rights.on_transaction(Operation.WRITE, request.transactional_id):
        return refused(txn.AddOffsetsToTxnResponse(error_code=NO_TRANSACTION))
    if not rights.on_group(Operation.READ, request.group_id):
        return refused(txn.AddOffsetsToTxnResponse(error_code=NO_GROUP))
    return None


def commit_offsets(request: txn.TxnOffsetCommitRequest, rights: Rights) -> Steps[Verdict | None]:
    code = ErrorCode.NONE
    if not rights.on_transaction(Operation.WRITE, request.transactional_id):
        code = NO_TRANSACTION
    elif not rights.on_group(Operation.READ, request.group_id):
        code = NO_GROUP
    if code is ErrorCode.NONE:
        return (yield from _commit_to_topics(request, rights))
    refusals = yield from listed(_uncommitted(one, code) for one in request.topics)
    return refused(txn.TxnOffsetCommitResponse(topics=refusals))


_commit_to_topics = each(
    "topics",
    lambda one, rights: rights.on_topic(Operation.READ, one.name),
    lambda one: _uncommitted(one, NO_TOPIC),
    txn.TxnOffsetCommitResponse,
    "topics",
)


def _uncommitted(topic: txn.TxnOffsetCommitRequestTopic, code: ErrorCode) -> Any:
    partitions = [
        txn.TxnOffsetCommitResponsePartition(partition_index=one.partition_index, error_code=code)
        for one in topic.partitions
    ]
    return txn.TxnOffsetCommitResponseTopic(name=topic.name, partitions=partitions)


def unmarked(request: txn.WriteTxnMarkersRequest, code: ErrorCode) -> Any:
    return txn.WriteTxnMarkersResponse(
        markers=[
            txn.WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    txn.WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            txn.WritableTxnMarkerPartitionResult(
                                partition_index=one, error_code=code
                            )
                            for one in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )


# -- administration --------------------------------------------------------------------------------


def hidden_producers(topic: DescribeProducersTopic) -> DescribeProducersTopicResult:
    partitions = [
        DescribeProducersPartition(
            partition_index=one,
            error_code=NO_TOPIC,
            error_message=NO_TOPIC.text,
            active_producers=[],
        )
        for one in topic.partition_indexes
    ]
    return DescribeProducersTopicResult(name=topic.name, partitions=partitions)


def hidden_transaction(name: str) -> DescribedTransaction:
    return DescribedTransaction(
        error_code=NO_TRANSACTION,
        transactional_id=name,
        transaction_state="",
        transaction_timeout_ms=0,
        transaction_start_time_ms=-1,
        producer_id=-1,
        producer_epoch=-1,
        topics=[],
    )


def without_hidden_topics(
    request: DescribeTransactionsRequest, response: DescribeTransactionsResponse, rights: Rights
) -> Steps[None]:
    for one in response.transaction_states:
        yield
        one.topics, _ = yield from split(
            one.topics, lambda topic: rights.on_topic(Operation.DESCRIBE, topic.topic)
        )


def without_hidden_transactions(
    request: ListTransactionsRequest, response: ListTransactionsResponse, rights: Rights
) -> Steps[None]:
    response.transaction_states, _ = yield from split(
        response.transaction_states,
        lambda one: rights.on_transaction(Operation.DESCRIBE, one.transactional_id),
    )

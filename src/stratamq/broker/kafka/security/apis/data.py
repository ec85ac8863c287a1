"""Rights to batches and offsets: Produce, Fetch, ListOffsets, OffsetForLeaderEpoch, DeleteRecords.

A refused topic is answered the same whether it exists or not.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from stratamq.broker.kafka.produce.answers import Unanswered
from stratamq.broker.kafka.security.rights import (
    Rights,
    Verdict,
    each,
    listed,
    parted,
    refused,
    split,
)
from stratamq.model.access import Operation
from stratamq.wire.kafka.protocol import ErrorCode, Steps
from stratamq.wire.kafka.protocol.messages.fetch import (
    FetchablePartitionResponse,
    FetchRequest,
)
from stratamq.wire.kafka.protocol.messages.log_offsets import (
    DeleteRecordsPartitionResult,
    DeleteRecordsTopic,
    DeleteRecordsTopicResult,
    EpochEndOffset,
    ListOffsetsPartitionResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopic,
    OffsetForLeaderTopicResult,
)
from stratamq.wire.kafka.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

NO_TOPIC = ErrorCode.TOPIC_AUTHORIZATION_FAILED
NO_TRANSACTION = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
NOWHERE = -1


# -- Produce ---------------------------------------------------------------------------------------


def produce(request: ProduceRequest, rights: Rights) -> Steps[Verdict | None]:
    transaction = request.transactional_id
    if transaction is not None and not rights.on_transaction(Operation.WRITE, transaction):
        answers = yield from listed(_unwritten(one, NO_TRANSACTION) for one in request.topic_data)
        return _unanswered(request, refused(ProduceResponse(responses=answers)))
    allowed, denied = yield from split(
        request.topic_data,
        lambda one: rights.on_named_topic(Operation.WRITE, one.name, one.topic_id),
    )
    if not denied:
        return None
    answers = yield from listed(_unwritten(one, NO_TOPIC) for one in denied)
    verdict = parted(request, "topic_data", allowed, answers, ProduceResponse, "responses")
    return _unanswered(request, verdict)


def _unwritten(topic: TopicProduceData, code: ErrorCode) -> TopicProduceResponse:
    return TopicProduceResponse(
        name=topic.name,
        topic_id=topic.topic_id,
        partition_responses=[
            PartitionProduceResponse(
                index=one.index, error_code=code, base_offset=NOWHERE, error_message=code.text
            )
            for one in topic.partition_data
        ],
    )


def _unanswered(request: ProduceRequest, verdict: Verdict) -> Verdict:
    """With acks=0 the client waits for no answer: closing the connection is all that is left."""
    if request.acks != 0:
        return verdict

    def close(answer: object) -> None:
        raise Unanswered("a write with acks=0 was refused")

    return Verdict(verdict.left, close)


# -- Fetch -----------------------------------------------------------------------------------------


def fetch(request: FetchRequest, rights: Rights) -> Steps[Verdict]:
    """Refused topics stay in the request, since they belong to the client's session; their records
    are removed afterwards. But a client does not wait for records that it will not get.

    The decisions about the request's topics are stored for the answer: records that were read are
    in no budget while an answer waits for its turn, so it must not have to."""
    may_read: dict[tuple[str, bytes], bool] = {}
    for one in request.topics:
        may_read[one.topic, one.topic_id] = _may_read(request, one.topic, one.topic_id, rights)
        yield

    def without_refused_records(answer: Any) -> Any:
        for topic in answer.responses:
            may = may_read.get((topic.topic, topic.topic_id))
            if may is None:  # a session holds more than its latest request names
                may = _may_read(request, topic.topic, topic.topic_id, rights)
            if not may:
                for one in topic.partitions:
                    _hide(one)
        return answer

    if not all(may_read.values()):
        request = replace(request, max_wait_ms=0)
    return Verdict(request, without_refused_records)


def _may_read(request: FetchRequest, name: str, topic_id: bytes, rights: Rights) -> bool:
    state = request.replica_state
    if request.replica_id >= 0 or (state is not None and state.replica_id >= 0):
        return rights.on_cluster(Operation.CLUSTER_ACTION)
    return rights.on_named_topic(Operation.READ, name, topic_id)


def _hide(answer: FetchablePartitionResponse) -> None:
    """Leave nothing in the answer but that the topic is refused. In place: there may be tens of
    thousands of them."""
    answer.error_code, answer.records = NO_TOPIC, b""
    answer.high_watermark = answer.last_stable_offset = answer.log_start_offset = -1
    answer.diverging_epoch = answer.current_leader = answer.aborted_transactions = None


# -- offsets ---------------------------------------------------------------------------------------


def no_offsets(topic: ListOffsetsTopic) -> ListOffsetsTopicResponse:
    partitions = [
        ListOffsetsPartitionResponse(partition_index=one.partition_index, error_code=NO_TOPIC)
        for one in topic.partitions
    ]
    return ListOffsetsTopicResponse(name=topic.name, partitions=partitions)


_leader_epochs = each(
    "topics",
    lambda one, rights: rights.on_topic(Operation.DESCRIBE, one.topic),
    lambda one: _no_epochs(one),
    OffsetForLeaderEpochResponse,
    "topics",
)


def leader_epochs(request: OffsetForLeaderEpochRequest, rights: Rights) -> Steps[Verdict | None]:
    """For other nodes, which may do so on every topic, and for consumers."""
    if rights.on_cluster(Operation.CLUSTER_ACTION):
        return None
    return (yield from _leader_epochs(request, rights))


def _no_epochs(topic: OffsetForLeaderTopic) -> OffsetForLeaderTopicResult:
    partitions = [
        EpochEndOffset(partition=one.partition, error_code=NO_TOPIC) for one in topic.partitions
    ]
    return OffsetForLeaderTopicResult(topic=topic.topic, partitions=partitions)


def not_deleted(topic: DeleteRecordsTopic) -> DeleteRecordsTopicResult:
    partitions = [
        DeleteRecordsPartitionResult(
            partition_index=one.partition_index, low_watermark=NOWHERE, error_code=NO_TOPIC
        )
        for one in topic.partitions
    ]
    return DeleteRecordsTopicResult(name=topic.name, partitions=partitions)

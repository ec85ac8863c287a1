"""What a Produce request is answered, and how the answers of its partitions come together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import NamedTuple

from stratamq.broker.kafka.contract import Answered
from stratamq.broker.kafka.errors import code_of
from stratamq.broker.kafka.produce import rules
from stratamq.broker.kafka.produce.checking import AT_ONCE_BYTES
from stratamq.engine.contract import AcceptedBatch, Acks, AppendResult
from stratamq.engine.handle import ShardHandle
from stratamq.model.errors import InvalidRecord, InvalidTimestamp, StrataError
from stratamq.wire.kafka.protocol import Buffer, ErrorCode
from stratamq.wire.kafka.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from stratamq.wire.kafka.records import read_header

ACKS: Mapping[int, Acks | None] = {0: Acks.NONE, 1: Acks.LEADER, -1: None}
"""None is what the topic's `commit.policy` says."""

NOWHERE = -1
_MISSING = PartitionProduceResponse(index=-1, base_offset=NOWHERE)


class Unanswered(StrataError):
    """A write whose client waits for no answer has failed. All we can do is close the connection,
    so that the producer looks at its metadata again."""

    def __init__(self, why: str, code: int = ErrorCode.UNKNOWN_SERVER_ERROR) -> None:
        super().__init__(why)
        self.code = code


class Ready(NamedTuple):
    """A batch that can be handed over at once."""

    shard: ShardHandle
    partition: PartitionProduceData
    data: Buffer | AcceptedBatch


class PendingProduce:
    """A request whose batches are with the engine. It is answered when the last of them is."""

    __slots__ = ("_acks", "_answered", "_answers", "_missing", "_request")

    def __init__(self, request: ProduceRequest, count: int, answered: Answered) -> None:
        self._request, self._answered, self._acks = request, answered, ACKS[request.acks]
        self._answers = [_MISSING] * count
        self._missing = count

    def begin(self, ready: Sequence[Ready | PartitionProduceResponse]) -> None:
        for at, one in enumerate(ready):
            if isinstance(one, PartitionProduceResponse):
                self._take(at, one)
                continue
            shard, wanted, data = one
            try:
                shard.append(data, self._acks, partial(self._stored, at, wanted))
            except StrataError as error:
                self._take(at, refusal(wanted, error))
        if not ready:
            self._answered(ProduceResponse(responses=[]))

    def _stored(
        self, at: int, partition: PartitionProduceData, stored: AppendResult | BaseException
    ) -> None:
        if isinstance(stored, AppendResult):
            self._take(at, stored_at(partition.index, stored))
        else:
            self._take(at, refusal(partition, stored))

    def _take(self, at: int, answer: PartitionProduceResponse) -> None:
        self._answers[at] = answer
        self._missing -= 1
        if not self._missing:
            topics = by_topic(self._request.topic_data, iter(self._answers))
            self._answered(ProduceResponse(responses=topics))


def stored_at(partition: int, stored: AppendResult) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=partition,
        base_offset=stored.base_offset,
        log_append_time_ms=stored.append_time,
        log_start_offset=stored.log_start,
    )


def refusal(partition: PartitionProduceData, error: BaseException) -> PartitionProduceResponse:
    """What is wrong with the batch, or with us, as the client sees it."""
    if isinstance(error, InvalidRecord | InvalidTimestamp) and partition.records:
        header = read_header(partition.records)
        error = rules.at_fault(header, partition.records, error, AT_ONCE_BYTES)
    if isinstance(error, rules.RecordsRefused):
        return _rejected(partition.index, error)
    return PartitionProduceResponse(
        index=partition.index,
        error_code=code_of(error),
        base_offset=NOWHERE,
        error_message=str(error),
    )


def _rejected(partition: int, error: rules.RecordsRefused) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=partition,
        error_code=error.code,
        base_offset=NOWHERE,
        error_message=str(error) if error.at_fault else error.why,
        record_errors=[
            BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=error.why)
            for index in error.at_fault
        ],
    )


def by_topic(
    topics: Iterable[TopicProduceData], answers: Iterator[PartitionProduceResponse]
) -> list[TopicProduceResponse]:
    """The answers of these topics' partitions, which are next."""
    responses = []
    for topic in topics:
        partitions = list(islice(answers, len(topic.partition_data)))
        responses.append(
            TopicProduceResponse(
                name=topic.name, topic_id=topic.topic_id, partition_responses=partitions
            )
        )
    return responses


def check_unanswered(answers: Sequence[PartitionProduceResponse]) -> None:
    """Unanswered where a write with acks=0 failed."""
    failed = next((answer for answer in answers if answer.error_code), None)
    if failed is not None:
        why = f"a write with acks=0 failed: {failed.error_message}"
        raise Unanswered(why, failed.error_code)

"""What the partitions of a Produce request are answered, above all where a batch is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stratamq.broker.kafka.errors import code_of
from stratamq.broker.kafka.produce import rules
from stratamq.broker.kafka.produce.checking import AT_ONCE_BYTES
from stratamq.engine.contract import Acks, AppendResult
from stratamq.model.errors import InvalidRecord, InvalidTimestamp, StrataError
from stratamq.wire.kafka.protocol import ErrorCode
from stratamq.wire.kafka.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
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


def check_unanswered(answers: Sequence[PartitionProduceResponse]) -> None:
    """Unanswered where a write with acks=0 failed."""
    failed = next((answer for answer in answers if answer.error_code), None)
    if failed is not None:
        why = f"a write with acks=0 failed: {failed.error_message}"
        raise Unanswered(why, failed.error_code)

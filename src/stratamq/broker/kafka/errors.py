"""Our errors as Kafka's codes: the one place where they are translated.

A handler reports them per topic, partition or group, as a code and in newer APIs with a message.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Hashable, Iterable
from typing import NamedTuple, TypeVar

from stratamq.model import errors as ours
from stratamq.wire.kafka.protocol import ErrorCode, ProtocolError

logger = logging.getLogger(__name__)

T = TypeVar("T", bound=Hashable)

CODES: dict[type[BaseException], ErrorCode] = {
    ours.OffsetOutOfRange: ErrorCode.OFFSET_OUT_OF_RANGE,
    ours.CorruptBatch: ErrorCode.CORRUPT_MESSAGE,
    ours.CorruptRecord: ErrorCode.KAFKA_STORAGE_ERROR,
    ours.UnsupportedFormat: ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    ours.BatchTooLarge: ErrorCode.MESSAGE_TOO_LARGE,
    ours.InvalidRecord: ErrorCode.INVALID_RECORD,
    ours.InvalidTimestamp: ErrorCode.INVALID_TIMESTAMP,
    ours.InvalidConfig: ErrorCode.INVALID_CONFIG,
    ours.InvalidName: ErrorCode.INVALID_TOPIC_EXCEPTION,
    ours.TopicNotFound: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ours.ShardNotFound: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ours.AlreadyExists: ErrorCode.TOPIC_ALREADY_EXISTS,
    ours.OutOfOrderSequence: ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ours.InvalidProducerEpoch: ErrorCode.INVALID_PRODUCER_EPOCH,
    ours.InvalidTransactionState: ErrorCode.INVALID_TXN_STATE,
    ours.CoordinatorFenced: ErrorCode.TRANSACTION_COORDINATOR_FENCED,
    ours.DiskFull: ErrorCode.KAFKA_STORAGE_ERROR,
    ours.ShardPoisoned: ErrorCode.KAFKA_STORAGE_ERROR,  # clients refresh metadata and try again
    ours.StorageError: ErrorCode.KAFKA_STORAGE_ERROR,
    ours.CapacityExceeded: ErrorCode.KAFKA_STORAGE_ERROR,
    ours.AnswerTooLarge: ErrorCode.POLICY_VIOLATION,
    ours.NotLeader: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ours.TimedOut: ErrorCode.REQUEST_TIMED_OUT,
    ours.Closed: ErrorCode.BROKER_NOT_AVAILABLE,
    ProtocolError: ErrorCode.INVALID_REQUEST,
    ours.InvalidInput: ErrorCode.INVALID_REQUEST,
}


class Refused(ours.StrataError):
    """The request cannot be served; `code` says why."""

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        super().__init__(message or code.text)
        self.code = code


class ApiError(NamedTuple):
    """How an answer reports an error: with a code and a text."""

    code: ErrorCode
    message: str


LATE = ApiError(ErrorCode.REQUEST_TIMED_OUT, "it was not done in time; it may still be done")


def code_of(error: BaseException) -> ErrorCode:
    """The code of a refusal, else of the error's nearest known ancestor. An error that has none is
    a bug of ours, and logged."""
    if isinstance(error, Refused):
        return error.code
    for kind in type(error).__mro__:
        if (code := CODES.get(kind)) is not None:
            return code
    logger.error("an error without a code", exc_info=error)
    return ErrorCode.UNKNOWN_SERVER_ERROR


def coordinator_code(error: ours.StrataError) -> ErrorCode:
    """The answer of a group or transaction coordinator. Where the node has failed, clients look for
    the coordinator again and retry; they do not give up."""
    if isinstance(error, ours.InvalidName):
        return ErrorCode.INVALID_GROUP_ID
    if isinstance(error, ours.StorageError | ours.CapacityExceeded | ours.Closed):
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return code_of(error)


def api_error(error: ours.StrataError) -> ApiError:
    """The answer to an administrator. A limit of ours is a policy then: a retry will not help."""
    if isinstance(error, ours.CapacityExceeded):
        return ApiError(ErrorCode.POLICY_VIOLATION, str(error))
    return ApiError(code_of(error), str(error))


def duplicates(names: Iterable[T]) -> set[T]:
    """Names that a request has more than once. It is not known which of the entries counts."""
    return {name for name, count in Counter(names).items() if count > 1}


def duplicate(what: object) -> Refused:
    return Refused(ErrorCode.INVALID_REQUEST, f"{what!r} is named more than once in one request")

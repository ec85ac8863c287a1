"""Our errors as Kafka's codes: the one place where they are translated."""

from __future__ import annotations

import logging

from stratamq.model import errors as ours
from stratamq.wire.kafka.protocol import ErrorCode, ProtocolError

logger = logging.getLogger(__name__)

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


def code_of(error: BaseException) -> ErrorCode:
    """The code of the error's nearest known ancestor. What has none is ours to repair."""
    for kind in type(error).__mro__:
        if (code := CODES.get(kind)) is not None:
            return code
    logger.error("an error without a code", exc_info=error)
    return ErrorCode.UNKNOWN_SERVER_ERROR

"""Kafka's codes as our errors: what a node said, in the words of `model.errors`."""

from __future__ import annotations

from stratamq.model import errors as ours
from stratamq.wire.kafka.protocol import ErrorCode, error_of


class Refusal(ours.StrataError):
    """A node answered with a code that has no error of its own."""

    def __init__(self, code: ErrorCode, what: str, said: str | None = None) -> None:
        super().__init__(f"{what}: {said or code.text} ({code.name})")
        self.code, self.what = code, what


ERRORS: dict[ErrorCode, type[ours.StrataError]] = {
    ErrorCode.CORRUPT_MESSAGE: ours.CorruptBatch,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ours.TopicNotFound,
    ErrorCode.UNKNOWN_TOPIC_ID: ours.TopicNotFound,
    ErrorCode.LEADER_NOT_AVAILABLE: ours.NotLeader,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ours.NotLeader,
    ErrorCode.REQUEST_TIMED_OUT: ours.TimedOut,
    ErrorCode.MESSAGE_TOO_LARGE: ours.BatchTooLarge,
    ErrorCode.RECORD_LIST_TOO_LARGE: ours.BatchTooLarge,
    ErrorCode.INVALID_TOPIC_EXCEPTION: ours.InvalidName,
    ErrorCode.INVALID_GROUP_ID: ours.InvalidName,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: ours.Denied,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: ours.Denied,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: ours.Denied,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: ours.Denied,
    ErrorCode.SASL_AUTHENTICATION_FAILED: ours.Denied,
    ErrorCode.UNSUPPORTED_SASL_MECHANISM: ours.Denied,
    ErrorCode.TOPIC_ALREADY_EXISTS: ours.AlreadyExists,
    ErrorCode.INVALID_PARTITIONS: ours.InvalidConfig,
    ErrorCode.INVALID_REPLICATION_FACTOR: ours.InvalidConfig,
    ErrorCode.INVALID_CONFIG: ours.InvalidConfig,
    ErrorCode.INVALID_RECORD: ours.InvalidRecord,
    ErrorCode.INVALID_TIMESTAMP: ours.InvalidRecord,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: ours.OutOfOrderSequence,
    ErrorCode.INVALID_PRODUCER_EPOCH: ours.InvalidProducerEpoch,
    ErrorCode.PRODUCER_FENCED: ours.InvalidProducerEpoch,
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: ours.NotFound,
    ErrorCode.GROUP_ID_NOT_FOUND: ours.NotFound,
    ErrorCode.RESOURCE_NOT_FOUND: ours.NotFound,
    ErrorCode.INVALID_TXN_STATE: ours.InvalidTransactionState,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: ours.InvalidTransactionState,
    ErrorCode.TRANSACTION_ABORTABLE: ours.InvalidTransactionState,
    ErrorCode.KAFKA_STORAGE_ERROR: ours.StorageError,
}

MOVED = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.REPLICA_NOT_AVAILABLE,
    }
)
"""Another node may know better: look again who leads before the next try."""


def check(code: int, what: str, said: str | None = None) -> None:
    """Raise a Refusal if there is an error code. Where it is caught, it is decided whether to
    retry."""
    if code:
        raise Refusal(error_of(code), what, said)


def as_ours(refusal: Refusal) -> ours.StrataError:
    """What callers see in the end."""
    kind = ERRORS.get(refusal.code)
    return refusal if kind is None else kind(str(refusal))

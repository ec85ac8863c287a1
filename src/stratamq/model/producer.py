"""What a shard knows of those who write to it with a producer id."""

from __future__ import annotations

from stratamq.model.dataclass import dataclass
from stratamq.model.types import Offset, TimestampMs

NO_SEQUENCE = -1
NO_COORDINATOR_EPOCH = -1
NO_PRODUCER = -1


@dataclass(frozen=True, slots=True)
class AbortedTransaction:
    """One producer's records in `first_offset..last_offset` do not count. The mark that says so
    lies at `last_offset`."""

    producer_id: int
    first_offset: Offset
    last_offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionMarker:
    """How a coordinator ends a producer's transaction in one shard."""

    producer_id: int
    producer_epoch: int
    commit: bool
    coordinator_epoch: int


@dataclass(frozen=True, slots=True)
class ProducerState:
    """`last_sequence` is -1 before the first batch of an epoch, `coordinator_epoch` -1 before the
    first mark; `transaction_start` is the first offset of the transaction under way."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: TimestampMs
    coordinator_epoch: int
    transaction_start: Offset | None

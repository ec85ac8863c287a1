"""One producer in one shard: what it may write next, and what is known of it afterwards. Pure.

| comes                                           | answer                                         |
|-------------------------------------------------|------------------------------------------------|
| the first batch of a producer nobody knows      | taken, whatever its sequence                   |
| one of its last five batches again              | where that one lies; nothing is stored         |
| the batch behind its last one                   | taken; behind 2^31 - 1 comes 0                 |
| any other batch of the same epoch               | OutOfOrderSequence                             |
| a batch of a newer epoch                        | taken if its sequence is 0                     |
| anything of an older epoch                      | InvalidProducerEpoch                           |
| a plain batch while a transaction is under way  | InvalidTransactionState                        |
| a mark of an older coordinator                  | CoordinatorFenced                              |
| any other mark                                  | taken; it ends a transaction if there is one   |

The last five, because a client has no more than five requests under way on a connection: an older
batch cannot be a repetition that was lost on the way.
"""

from __future__ import annotations

from typing import NamedTuple

from stratamq.model.errors import (
    CoordinatorFenced,
    InvalidProducerEpoch,
    InvalidRecord,
    InvalidTransactionState,
    OutOfOrderSequence,
)
from stratamq.model.producer import NO_COORDINATOR_EPOCH, NO_SEQUENCE, ProducerState
from stratamq.model.types import Offset, TimestampMs
from stratamq.wire.kafka.records import BatchHeader

BATCHES_KEPT = 5
SEQUENCES = 1 << 31
"""Sequences count from 0 to 2^31 - 1 and begin anew."""


class StoredBatch(NamedTuple):
    """A batch that would be recognised if it came again."""

    first_sequence: int
    last_sequence: int
    base_offset: Offset
    last_offset: Offset
    timestamp: TimestampMs


class Producer(NamedTuple):
    """`batches` are those of this epoch, the newest last. `seen_ms` is when it was last heard of,
    by our clock: its own timestamps may speak of any time."""

    producer_id: int
    epoch: int
    batches: tuple[StoredBatch, ...]
    coordinator_epoch: int
    transaction_start: Offset | None
    last_timestamp: TimestampMs
    seen_ms: TimestampMs

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def state(self) -> ProducerState:
        return ProducerState(
            self.producer_id,
            self.epoch,
            self.last_sequence,
            self.last_timestamp,
            self.coordinator_epoch,
            self.transaction_start,
        )


def sequence_after(sequence: int, count: int) -> int:
    return (sequence + count) % SEQUENCES


# -- may it? -----------------------------------------------------------------------------------


def repeated(known: Producer | None, header: BatchHeader) -> StoredBatch | None:
    """The batch that this one repeats."""
    if known is None or known.epoch != header.producer_epoch:
        return None
    first = header.base_sequence
    last = sequence_after(first, header.last_offset_delta)
    for batch in known.batches:
        if batch.first_sequence == first and batch.last_sequence == last:
            return batch
    return None


def check_batch(known: Producer | None, header: BatchHeader) -> None:
    """Whether a batch that repeats none may be stored."""
    if header.producer_epoch < 0 or header.base_sequence < 0:
        raise InvalidRecord(
            f"producer {header.producer_id} sent epoch {header.producer_epoch} and sequence "
            f"{header.base_sequence}"
        )
    if known is None:
        return
    _check_epoch(known, header.producer_epoch)
    expected = sequence_after(known.last_sequence, 1)
    if header.producer_epoch > known.epoch:
        expected = 0
    if header.base_sequence != expected:
        raise OutOfOrderSequence(
            f"producer {known.producer_id}, epoch {header.producer_epoch}: sequence {expected} is "
            f"expected, {header.base_sequence} came"
        )
    if known.transaction_start is not None and not header.is_transactional:
        raise InvalidTransactionState(f"producer {known.producer_id} is in a transaction")


def check_marker(known: Producer | None, epoch: int, coordinator_epoch: int) -> None:
    if known is None:
        return
    _check_epoch(known, epoch)
    if coordinator_epoch < known.coordinator_epoch:
        raise CoordinatorFenced(
            f"producer {known.producer_id}: coordinator epoch {coordinator_epoch} is over, "
            f"{known.coordinator_epoch} has begun"
        )


def _check_epoch(known: Producer, epoch: int) -> None:
    if epoch < known.epoch:
        raise InvalidProducerEpoch(
            f"producer {known.producer_id}: epoch {epoch} is over, {known.epoch} has begun"
        )


# -- afterwards --------------------------------------------------------------------------------


def with_batch(known: Producer | None, header: BatchHeader, now_ms: TimestampMs) -> Producer:
    """After a batch was stored, here or by a leader."""
    first, stamp = header.base_sequence, header.max_timestamp
    last = sequence_after(first, header.last_offset_delta)
    batch = StoredBatch(first, last, header.base_offset, header.last_offset, stamp)
    if known is None:
        start = header.base_offset if header.is_transactional else None
        epoch = header.producer_epoch
        return Producer(
            header.producer_id, epoch, (batch,), NO_COORDINATOR_EPOCH, start, stamp, now_ms
        )
    older = known.batches[1 - BATCHES_KEPT :] if known.epoch == header.producer_epoch else ()
    start = known.transaction_start
    if start is None and header.is_transactional:
        start = header.base_offset
    return Producer(
        known.producer_id,
        header.producer_epoch,
        (*older, batch),
        known.coordinator_epoch,
        start,
        stamp,
        now_ms,
    )


def with_marker(
    known: Producer | None, header: BatchHeader, coordinator_epoch: int, now_ms: TimestampMs
) -> Producer:
    """After a mark was stored. One of a newer epoch shuts out who wrote before."""
    epoch, stamp = header.producer_epoch, header.max_timestamp
    batches = known.batches if known is not None and known.epoch == epoch else ()
    return Producer(header.producer_id, epoch, batches, coordinator_epoch, None, stamp, now_ms)

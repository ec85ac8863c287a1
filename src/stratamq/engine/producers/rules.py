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
from stratamq.model.transaction import NO_COORDINATOR_EPOCH, NO_SEQUENCE, ProducerStateEntry
from stratamq.model.types import Offset, TimestampMs
from stratamq.wire.kafka.records import BatchHeader
from stratamq.wire.kafka.records.layout import TRANSACTIONAL_BIT

BATCHES_KEPT = 5
SEQUENCES = 1 << 31
"""Sequences count from 0 to 2^31 - 1 and begin again."""


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

    def state(self) -> ProducerStateEntry:
        return ProducerStateEntry(
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
    first, batches = header.base_sequence, known.batches
    if not batches or first == (batches[-1].last_sequence + 1) % SEQUENCES:
        return None  # the next one, as nearly always
    last = sequence_after(first, header.last_offset_delta)
    for batch in batches:
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
    epoch = header.producer_epoch
    _check_epoch(known, epoch)
    expected = 0 if epoch > known.epoch else sequence_after(known.last_sequence, 1)
    if header.base_sequence != expected:
        raise OutOfOrderSequence(
            f"producer {known.producer_id}, epoch {epoch}: sequence {expected} is "
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
    base, delta, first = header.base_offset, header.last_offset_delta, header.base_sequence
    epoch, stamp = header.producer_epoch, header.max_timestamp
    batch = StoredBatch(first, (first + delta) % SEQUENCES, base, Offset(base + delta), stamp)
    batches: tuple[StoredBatch, ...] = (batch,)
    coordinator, start = NO_COORDINATOR_EPOCH, None
    if known is not None:
        coordinator, start = known.coordinator_epoch, known.transaction_start
        if known.epoch == epoch:
            batches = (*known.batches[1 - BATCHES_KEPT :], batch)
    if start is None and header.attributes & TRANSACTIONAL_BIT:
        start = base
    return Producer(header.producer_id, epoch, batches, coordinator, start, stamp, now_ms)


def with_marker(
    known: Producer | None, header: BatchHeader, coordinator_epoch: int, now_ms: TimestampMs
) -> Producer:
    """After a mark was stored. One of a newer epoch shuts out who wrote before."""
    epoch, stamp = header.producer_epoch, header.max_timestamp
    batches = known.batches if known is not None and known.epoch == epoch else ()
    return Producer(header.producer_id, epoch, batches, coordinator_epoch, None, stamp, now_ms)

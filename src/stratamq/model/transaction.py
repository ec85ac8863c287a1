"""Producers with an id, and the life of a transaction.

`TRANSITIONS` is the only place that decides what becomes of a transaction:

    EMPTY --add--> ONGOING --commit--> PREPARE_COMMIT --marked--> COMPLETE_COMMIT
      ^               | \\--abort---> PREPARE_ABORT  --marked--> COMPLETE_ABORT
      |               \\--fence--> PREPARE_EPOCH_FENCE --abort--> PREPARE_ABORT
      \\--initialize-- COMPLETE_*;  COMPLETE_* --add--> ONGOING
    EMPTY, COMPLETE_* --expired--> DEAD

From PREPARE_COMMIT and PREPARE_ABORT on the end is decided: what is left is to write the marks, as
often as it takes. PREPARE_EPOCH_FENCE is passed through and never stored: the producer was fenced,
and its transaction is going to be aborted. The names of states are Kafka's.
"""

from __future__ import annotations

from enum import StrEnum

from stratamq.model.dataclass import dataclass
from stratamq.model.errors import IllegalTransition
from stratamq.model.types import Offset, TimestampMs

EPOCH_MAX = (1 << 15) - 1
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_COORDINATOR_EPOCH = -1


class TransactionState(StrEnum):
    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"
    DEAD = "Dead"


class TransactionEvent(StrEnum):
    INITIALIZE = "initialize"
    ADD = "add"
    COMMIT = "commit"
    ABORT = "abort"
    FENCE = "fence"
    MARKED = "marked"
    EXPIRED = "expired"


AT_REST = frozenset(
    {TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT}
)
"""Nothing is under way: a transaction may begin, or the id expire."""

DECIDED = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})
"""Marks are being written."""

TRANSITIONS: dict[tuple[TransactionState, TransactionEvent], TransactionState] = {
    **{(state, TransactionEvent.INITIALIZE): TransactionState.EMPTY for state in AT_REST},
    **{(state, TransactionEvent.ADD): TransactionState.ONGOING for state in AT_REST},
    **{(state, TransactionEvent.EXPIRED): TransactionState.DEAD for state in AT_REST},
    # A producer that counts an epoch per transaction may abort one it has not begun.
    **{(state, TransactionEvent.ABORT): TransactionState.PREPARE_ABORT for state in AT_REST},
    (TransactionState.ONGOING, TransactionEvent.ADD): TransactionState.ONGOING,
    (TransactionState.ONGOING, TransactionEvent.COMMIT): TransactionState.PREPARE_COMMIT,
    (TransactionState.ONGOING, TransactionEvent.ABORT): TransactionState.PREPARE_ABORT,
    (TransactionState.ONGOING, TransactionEvent.FENCE): TransactionState.PREPARE_EPOCH_FENCE,
    (TransactionState.PREPARE_EPOCH_FENCE, TransactionEvent.ABORT): TransactionState.PREPARE_ABORT,
    (TransactionState.PREPARE_COMMIT, TransactionEvent.MARKED): TransactionState.COMPLETE_COMMIT,
    (TransactionState.PREPARE_ABORT, TransactionEvent.MARKED): TransactionState.COMPLETE_ABORT,
}


def after(state: TransactionState, *events: TransactionEvent) -> TransactionState:
    for event in events:
        try:
            state = TRANSITIONS[state, event]
        except KeyError:
            raise IllegalTransition(f"a transaction in {state} cannot take {event}") from None
    return state


# -- what a shard stores of a producer -------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AbortedTxn:
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
class ProducerStateEntry:
    """`last_sequence` is -1 before the first batch of an epoch, `coordinator_epoch` -1 before the
    first mark; `transaction_start` is the first offset of the transaction under way."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: TimestampMs
    coordinator_epoch: int
    transaction_start: Offset | None

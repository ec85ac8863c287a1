"""What is kept of producers: how far their ids are handed out, and each transactional id."""

from __future__ import annotations

from stratamq.model.dataclass import dataclass
from stratamq.model.transaction import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TransactionState
from stratamq.model.types import NO_TIMESTAMP, ShardName, TimestampMs


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIds:
    """The first producer id that nobody was given yet. There is one row of this kind."""

    next_id: int

    @property
    def key(self) -> str:
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionMeta:
    """A transactional id: who may produce under it, and its transaction if there is one.

    `last_producer_*` are what the producer had before, so that a request it repeats is known again.
    `next_producer_id` is what it gets with the end of a transaction that used up the last epoch.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    shards: frozenset[ShardName] = frozenset()
    groups: frozenset[str] = frozenset()
    start_ms: TimestampMs = NO_TIMESTAMP
    update_ms: TimestampMs = NO_TIMESTAMP
    last_producer_id: int = NO_PRODUCER_ID
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    next_producer_id: int = NO_PRODUCER_ID

    @property
    def key(self) -> str:
        return self.transactional_id


ProducerEntity = ProducerIds | TransactionMeta


# -- commands --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeProducerIds:
    """`count` ids from `first_id` on are the caller's. Refused when `first_id` is not the next."""

    first_id: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveTransaction:
    """Remember a transactional id as it is now. A producer's epoch never goes back."""

    transaction: TransactionMeta


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTransaction:
    """Forget a transactional id that nobody uses. Idempotent."""

    transactional_id: str

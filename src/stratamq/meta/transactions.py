"""Producers in the Meta Service: how far their ids are handed out, each transactional id; the
commands that change them, their rules, and their rows."""

from __future__ import annotations

from stratamq.meta.rows import Fields, RowFormat, plain_fields, text_key
from stratamq.meta.state import Event, MetaState, Put, Removed
from stratamq.model.dataclass import dataclass
from stratamq.model.errors import CapacityExceeded, InvalidInput, StaleEpoch
from stratamq.model.transaction import (
    AT_REST,
    EPOCH_MAX,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    TransactionState,
)
from stratamq.model.types import NO_TIMESTAMP, ShardName, TimestampMs

PRODUCER_ID_MAX = (1 << 63) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIds:
    """The first producer id that was not handed out yet. There is one row of this kind."""

    next_id: int

    @property
    def key(self) -> str:
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionMeta:
    """A transactional id: who may produce under it, and its transaction if there is one.

    `last_producer_*` are what the producer had before, so that a repeated request is recognised.
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


def _transaction_fields(entity: TransactionMeta) -> Fields:
    names = {name: sorted(getattr(entity, name)) for name in ("shards", "groups")}
    return {**plain_fields(entity), **names}


def _transaction(fields: Fields) -> TransactionMeta:
    names = {name: frozenset(fields[name]) for name in ("shards", "groups")}
    return TransactionMeta(**{**fields, **names, "state": TransactionState(fields["state"])})


TRANSACTION_ROWS = (
    RowFormat(ProducerIds, b"i", lambda ids: b"", lambda row: ProducerIds(**row)),
    RowFormat(
        TransactionMeta,
        b"x",
        lambda one: text_key(one.transactional_id),
        _transaction,
        _transaction_fields,
    ),
)


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
    """Forget a transactional id that no producer uses. Idempotent."""

    transactional_id: str


# -- rules -----------------------------------------------------------------------------------------


def take_producer_ids(state: MetaState, command: TakeProducerIds) -> list[Event]:
    if command.count < 1:
        raise InvalidInput("at least one producer id is taken")
    if command.first_id != state.next_producer_id:
        raise StaleEpoch(f"the next producer id is {state.next_producer_id}")
    next_id = command.first_id + command.count
    if next_id > PRODUCER_ID_MAX:
        raise CapacityExceeded("all producer ids are handed out")
    return [Put(ProducerIds(next_id=next_id))]


def save_transaction(state: MetaState, command: SaveTransaction) -> list[Event]:
    new = command.transaction
    if new.state in (TransactionState.PREPARE_EPOCH_FENCE, TransactionState.DEAD):
        raise InvalidInput(f"{new.state} is passed through, never stored")
    if not 0 <= new.producer_epoch <= EPOCH_MAX:
        raise InvalidInput(f"a producer epoch cannot be {new.producer_epoch}")
    old = state.transactions.get(new.transactional_id)
    if (
        old is not None
        and old.producer_id == new.producer_id
        and old.producer_epoch > new.producer_epoch
    ):
        raise StaleEpoch(f"{new.transactional_id!r} is at epoch {old.producer_epoch}")
    return [] if old == new else [Put(new)]


def delete_transaction(state: MetaState, command: DeleteTransaction) -> list[Event]:
    old = state.transactions.get(command.transactional_id)
    if old is None:
        return []
    if old.state not in AT_REST:
        raise StaleEpoch(f"{command.transactional_id!r} is in use: {old.state}")
    return [Removed(old)]

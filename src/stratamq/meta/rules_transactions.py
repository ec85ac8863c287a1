"""What commands on producer ids and transactional ids change, and when they are refused."""

from __future__ import annotations

from stratamq.meta.events import Event, Put, Removed
from stratamq.meta.state import MetaState
from stratamq.meta.transactions import (
    DeleteTransaction,
    ProducerIds,
    SaveTransaction,
    TakeProducerIds,
    TransactionMeta,
)
from stratamq.model.errors import CapacityExceeded, InvalidInput, StaleEpoch
from stratamq.model.transaction import AT_REST, EPOCH_MAX, TransactionState

PRODUCER_ID_MAX = (1 << 63) - 1


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
    if old is not None and _goes_back(old, new):
        raise StaleEpoch(f"{new.transactional_id!r} is at epoch {old.producer_epoch}")
    return [] if old == new else [Put(new)]


def _goes_back(old: TransactionMeta, new: TransactionMeta) -> bool:
    return old.producer_id == new.producer_id and new.producer_epoch < old.producer_epoch


def delete_transaction(state: MetaState, command: DeleteTransaction) -> list[Event]:
    old = state.transactions.get(command.transactional_id)
    if old is None:
        return []
    if old.state not in AT_REST:
        raise StaleEpoch(f"{command.transactional_id!r} is in use: {old.state}")
    return [Removed(old)]

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from stratamq.meta.apply import apply
from stratamq.meta.limits import MetaLimits
from stratamq.meta.service import MetaService
from stratamq.meta.state import MetaState
from stratamq.meta.store import RocksMetaStore
from stratamq.meta.transactions import (
    DeleteTransaction,
    SaveTransaction,
    TakeProducerIds,
    TransactionMeta,
)
from stratamq.model.errors import CapacityExceeded, InvalidInput, StaleEpoch
from stratamq.model.transaction import TransactionState
from stratamq.model.types import ShardName, TimestampMs
from tests.meta.support import after

ONE = TransactionMeta(
    transactional_id="x",
    producer_id=7,
    producer_epoch=3,
    timeout_ms=1000,
    state=TransactionState.ONGOING,
    shards=frozenset({ShardName("b_1"), ShardName("a_0")}),
    groups=frozenset({"g", "ü"}),
    start_ms=TimestampMs(5),
    last_producer_epoch=2,
)


def test_a_block_of_producer_ids_is_given_once() -> None:
    state = after(TakeProducerIds(first_id=0, count=1000))
    assert state.next_producer_id == 1000
    with pytest.raises(StaleEpoch):
        apply(state, TakeProducerIds(first_id=0, count=1000))
    assert after(TakeProducerIds(first_id=1000, count=1), state=state).next_producer_id == 1001


def test_producer_ids_end() -> None:
    last = (1 << 63) - 1
    state = replace(MetaState(), next_producer_id=last - 10)
    with pytest.raises(CapacityExceeded):
        apply(state, TakeProducerIds(first_id=last - 10, count=11))
    with pytest.raises(InvalidInput):
        apply(state, TakeProducerIds(first_id=last - 10, count=0))


def test_an_epoch_never_goes_back_but_begins_anew_with_another_producer_id() -> None:
    state = after(SaveTransaction(transaction=ONE))
    with pytest.raises(StaleEpoch):
        apply(state, SaveTransaction(transaction=replace(ONE, producer_epoch=2)))
    other = replace(ONE, producer_id=8, producer_epoch=0)
    assert after(SaveTransaction(transaction=other), state=state).transactions["x"] == other


@pytest.mark.parametrize(
    "bad",
    [
        replace(ONE, state=TransactionState.DEAD),
        replace(ONE, state=TransactionState.PREPARE_EPOCH_FENCE),
        replace(ONE, producer_epoch=-1),
        replace(ONE, producer_epoch=1 << 15),
    ],
)
def test_what_is_never_stored(bad: TransactionMeta) -> None:
    with pytest.raises(InvalidInput):
        apply(MetaState(), SaveTransaction(transaction=bad))


def test_only_an_id_at_rest_is_forgotten() -> None:
    state = after(SaveTransaction(transaction=ONE))
    with pytest.raises(StaleEpoch):
        apply(state, DeleteTransaction(transactional_id="x"))
    done = SaveTransaction(transaction=replace(ONE, state=TransactionState.COMPLETE_ABORT))
    forget = DeleteTransaction(transactional_id="x")
    assert not after(done, forget, forget, state=state).transactions


async def test_all_of_it_is_there_after_a_restart(tmp_path: Path) -> None:
    meta = MetaService(RocksMetaStore(tmp_path))
    await meta.open()
    revision = await meta.submit(TakeProducerIds(first_id=0, count=5))
    assert await meta.submit(SaveTransaction(transaction=ONE)) == revision, "nobody watches it"
    await meta.close()
    again = MetaService(RocksMetaStore(tmp_path))
    await again.open()
    assert again.state.transactions["x"] == ONE
    assert again.state.next_producer_id == 5
    await again.close()


async def test_no_more_ids_than_the_limit(tmp_path: Path) -> None:
    meta = MetaService(RocksMetaStore(tmp_path), limits=MetaLimits(transactions_max=1))
    await meta.open()
    await meta.submit(SaveTransaction(transaction=ONE))
    await meta.submit(SaveTransaction(transaction=replace(ONE, producer_epoch=4)))
    with pytest.raises(CapacityExceeded):
        await meta.submit(SaveTransaction(transaction=replace(ONE, transactional_id="y")))
    await meta.close()


async def test_no_more_partitions_in_transactions_than_the_limit(tmp_path: Path) -> None:
    """Those that are in one can always be ended, and others then have their place."""
    limits = MetaLimits(transaction_shards_max=3)
    meta = MetaService(RocksMetaStore(tmp_path), limits=limits)
    await meta.open()
    one = replace(ONE, shards=frozenset(ShardName(f"t_{n}") for n in range(2)))
    other = replace(one, transactional_id="y")
    await meta.submit(SaveTransaction(transaction=one))
    await meta.submit(SaveTransaction(transaction=replace(one, producer_epoch=4)))
    with pytest.raises(CapacityExceeded, match="transaction_shards_max is 3; this would make 4"):
        await meta.submit(SaveTransaction(transaction=other))
    await meta.close()
    again = MetaService(RocksMetaStore(tmp_path), limits=limits)
    await again.open()
    with pytest.raises(CapacityExceeded):
        await again.submit(SaveTransaction(transaction=other))
    ended = replace(one, producer_epoch=4, shards=frozenset())
    await again.submit(SaveTransaction(transaction=ended))
    await again.submit(SaveTransaction(transaction=other))
    assert again.state.transaction_shards == 2
    await again.close()

"""What an administrator sees of producers and transactions, and can do about one that hangs."""

from __future__ import annotations

from typing import Any

import pytest

from stratamq.broker.kafka.transactions.machine import ProducerIdAndEpoch
from stratamq.wire.kafka.protocol import ErrorCode
from stratamq.wire.kafka.protocol.messages import transactions as tx
from stratamq.wire.kafka.protocol.messages import transactions_admin as admin
from tests.broker.transactions.rig import TOPIC, Rig


async def test_transactions_are_described(rig: Rig) -> None:
    who = await rig.producer()
    await rig.add(who, 2, 0)
    asked = admin.DescribeTransactionsRequest(transactional_ids=["x", "nobody", ""])
    known, nobody, nonsense = (await rig.ask(asked)).transaction_states
    assert (known.error_code, known.transaction_state) == (0, "Ongoing")
    assert (known.producer_id, known.producer_epoch) == who
    assert known.transaction_timeout_ms == 60_000
    assert known.transaction_start_time_ms == rig.clock.now_ms()
    assert [(one.topic, list(one.partitions)) for one in known.topics] == [(TOPIC, [0, 2])]
    assert nobody.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert nonsense.error_code == ErrorCode.INVALID_REQUEST


async def listed(rig: Rig, version: int = 2, **filters: Any) -> list[str]:
    given = {"state_filters": (), "producer_id_filters": (), **filters}
    told = await rig.ask(admin.ListTransactionsRequest(**given), version)
    assert told.error_code == 0
    return [one.transactional_id for one in told.transaction_states]


async def test_transactions_are_listed_by_state_producer_age_and_name(rig: Rig) -> None:
    first = await rig.producer("a1")
    await rig.add(first, 0, id_="a1")
    rig.clock.advance(500)
    second = await rig.producer("a2")
    await rig.add(second, 0, id_="a2")
    await rig.producer("b")
    assert await listed(rig, 0) == ["a1", "a2", "b"]
    assert await listed(rig, 0, state_filters=["Ongoing"]) == ["a1", "a2"]
    assert await listed(rig, 0, producer_id_filters=[second.producer_id]) == ["a2"]
    assert await listed(rig, 1, duration_filter=100) == ["a1"]
    assert await listed(rig, 2, transactional_id_pattern="a.*") == ["a1", "a2"]


async def test_filters_nobody_understands(rig: Rig) -> None:
    asked = admin.ListTransactionsRequest(state_filters=["Odd"], producer_id_filters=[])
    assert list((await rig.ask(asked)).unknown_state_filters) == ["Odd"]
    asked = admin.ListTransactionsRequest(
        state_filters=[], producer_id_filters=[], transactional_id_pattern="("
    )
    assert (await rig.ask(asked)).error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


async def producers(rig: Rig, *partitions: int) -> list[Any]:
    topics = [admin.DescribeProducersTopic(name=TOPIC, partition_indexes=partitions)]
    told = await rig.ask(admin.DescribeProducersRequest(topics=topics))
    return list(told.topics[0].partitions)


async def test_producers_are_described(rig: Rig) -> None:
    who = await rig.producer()
    await rig.add(who, 0)
    await rig.produce(who, b"a", b"b")
    here, nowhere = await producers(rig, 0, 9)
    assert nowhere.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    (one,) = here.active_producers
    assert (one.producer_id, one.producer_epoch) == who
    assert (one.last_sequence, one.current_txn_start_offset) == (1, 0)
    await rig.end(who)
    ((one,),) = [some.active_producers for some in await producers(rig, 0)]
    assert (one.current_txn_start_offset, one.coordinator_epoch) == (-1, 0)


@pytest.mark.parametrize("version", [1, 2])
async def test_a_transaction_that_hangs_is_ended_by_hand(rig: Rig, version: int) -> None:
    who = await rig.producer()
    await rig.add(who, 0)
    await rig.produce(who, b"a")
    topics = [tx.WritableTxnMarkerTopic(name=TOPIC, partition_indexes=[0, 9])]
    marker = tx.WritableTxnMarker(
        producer_id=who.producer_id,
        producer_epoch=who.epoch,
        transaction_result=False,
        topics=topics,
        coordinator_epoch=0,
    )
    told = await rig.ask(tx.WriteTxnMarkersRequest(markers=[marker]), version)
    codes = [one.error_code for one in told.markers[0].topics[0].partitions]
    assert codes == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert await rig.read() == []
    assert await rig.end_offset(committed=True) == 2


async def test_a_mark_of_an_older_epoch_is_refused(rig: Rig) -> None:
    who = await rig.producer()
    newer = await rig.producer()
    await rig.add(newer, 0)
    await rig.produce(newer, b"a")
    assert who == ProducerIdAndEpoch(newer.producer_id, newer.epoch - 1)
    topics = [tx.WritableTxnMarkerTopic(name=TOPIC, partition_indexes=[0])]
    marker = tx.WritableTxnMarker(
        producer_id=who.producer_id,
        producer_epoch=who.epoch,
        transaction_result=True,
        topics=topics,
        coordinator_epoch=0,
    )
    told = await rig.ask(tx.WriteTxnMarkersRequest(markers=[marker]), 1)
    code = told.markers[0].topics[0].partitions[0].error_code
    assert code == ErrorCode.INVALID_PRODUCER_EPOCH

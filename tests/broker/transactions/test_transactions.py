"""Transactions from the first partition to the last mark, as producers and consumers see them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from stratamq.broker.kafka.transactions.machine import ProducerIdAndEpoch
from stratamq.meta.transactions import SaveTransaction
from stratamq.model.errors import StorageError
from stratamq.model.transaction import DECIDED, EPOCH_MAX, TransactionState
from stratamq.wire.kafka.protocol import ErrorCode
from stratamq.wire.kafka.protocol.messages import transactions as tx
from tests.broker.transactions.rig import ID, TOPIC, Rig
from tests.waiting import let_run, until

STRANGER = ProducerIdAndEpoch(12345, 0)


def state(rig: Rig, transactional_id: str = ID) -> TransactionState:
    one = rig.coordinator.find(transactional_id)
    assert one is not None
    return one.state


# -- what readers see ------------------------------------------------------------------------------


async def test_records_count_once_the_transaction_commits(rig: Rig) -> None:
    who = await rig.producer()
    assert await rig.add(who, 0, 1) == [0, 0]
    for partition in (0, 1):
        assert (await rig.produce(who, b"a", b"b", partition=partition)).error_code == 0
    assert await rig.read() == []
    assert await rig.read(committed=False) == [b"a", b"b"]
    assert (await rig.end(who)).error_code == 0
    assert [await rig.read(partition=number) for number in (0, 1)] == [[b"a", b"b"]] * 2


async def test_records_of_an_aborted_transaction_do_not_count(rig: Rig) -> None:
    who = await rig.producer()
    await rig.add(who, 0)
    await rig.produce(who, b"bad")
    assert (await rig.end(who, commit=False)).error_code == 0
    await rig.add(who, 0)
    await rig.produce(who, b"good", sequence=1)
    await rig.end(who)
    assert await rig.read() == [b"good"]
    assert await rig.read(committed=False) == [b"bad", b"good"]


async def test_aborted_transactions_are_listed_for_what_is_returned_and_no_more(rig: Rig) -> None:
    who = await rig.producer()
    for number in range(3):
        await rig.add(who, 0)
        await rig.produce(who, b"x", sequence=number)  # offsets 0, 2, 4; marks at 1, 3, 5
        await rig.end(who, commit=False)

    async def listed(offset: int) -> list[int]:
        told = await rig.fetch(offset=offset)
        return [one.first_offset for one in told.aborted_transactions]

    assert await listed(0) == [0, 2, 4]
    assert await listed(2) == [2, 4]
    assert await listed(5) == [4]
    assert (await rig.fetch(committed=False)).aborted_transactions is None


async def test_the_latest_offset_is_the_last_stable_one(rig: Rig) -> None:
    plain = ProducerIdAndEpoch((await rig.init(None)).producer_id, 0)
    await rig.produce(plain, b"0", transactional=False, transactional_id=None)
    who = await rig.producer()
    await rig.add(who, 0)
    await rig.produce(who, b"1")
    await rig.produce(plain, b"2", sequence=1, transactional=False, transactional_id=None)
    assert await rig.end_offset(committed=True) == 1
    assert await rig.end_offset(committed=False) == 3
    assert await rig.read() == [b"0"]
    await rig.end(who)
    assert await rig.end_offset(committed=True) == 4
    assert await rig.read() == [b"0", b"1", b"2"]


async def test_a_long_poll_ends_when_the_transaction_does(rig: Rig) -> None:
    who = await rig.producer()
    await rig.add(who, 0)
    await rig.produce(who, b"a")
    waiting = asyncio.create_task(rig.fetch(wait_ms=30_000))
    await let_run()
    assert not waiting.done()
    await rig.end(who)
    told = await asyncio.wait_for(waiting, 5)
    assert len(told.records) > 0


# -- what producers are told -----------------------------------------------------------------------


async def test_a_batch_that_comes_twice_is_stored_once(rig: Rig) -> None:
    who = ProducerIdAndEpoch((await rig.init(None)).producer_id, 0)
    plain: dict[str, Any] = {"transactional": False, "transactional_id": None}
    first = await rig.produce(who, b"a", b"b", **plain)
    again = await rig.produce(who, b"a", b"b", **plain)
    assert (again.error_code, again.base_offset) == (0, first.base_offset)
    gap = await rig.produce(who, b"d", sequence=3, **plain)
    assert gap.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert await rig.read() == [b"a", b"b"]


@pytest.mark.parametrize(
    ("version", "code"),
    [(9, ErrorCode.INVALID_TXN_STATE), (11, ErrorCode.TRANSACTION_ABORTABLE)],
)
async def test_a_partition_that_was_not_added_takes_nothing(
    rig: Rig, version: int, code: ErrorCode
) -> None:
    who = await rig.producer()
    assert (await rig.produce(who, b"a", version=version)).error_code == code
    await rig.add(who, 1)
    assert (await rig.produce(who, b"a", version=version)).error_code == code
    assert await rig.read(committed=False) == []
    await rig.end(who)
    assert (await rig.produce(who, b"a", partition=1, version=version)).error_code == code


async def test_newer_producers_leave_adding_to_us_and_stay_in_order(rig: Rig) -> None:
    who = await rig.producer()
    sent = [rig.produce(who, b"%d" % number, sequence=number, version=12) for number in range(20)]
    told = await asyncio.gather(*sent)
    assert [one.error_code for one in told] == [0] * 20
    assert [one.base_offset for one in told] == list(range(20))
    assert (await rig.end(who)).error_code == 0
    assert await rig.read() == [b"%d" % number for number in range(20)]


async def test_a_transactional_batch_needs_its_transactional_id(rig: Rig) -> None:
    who = await rig.producer()
    await rig.add(who, 0)
    nameless = await rig.produce(who, b"a", transactional_id=None)
    assert nameless.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    stranger = await rig.produce(who, b"a", transactional_id="y")
    assert stranger.error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING


async def test_a_zombie_is_fenced_everywhere(rig: Rig) -> None:
    zombie = await rig.producer()
    await rig.add(zombie, 0)
    await rig.produce(zombie, b"zombie")
    assert (await rig.init()).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    await settled(rig)
    told = await rig.init()
    who = ProducerIdAndEpoch(told.producer_id, told.producer_epoch)
    await rig.add(who, 0)
    epoch = ErrorCode.INVALID_PRODUCER_EPOCH
    assert (await rig.produce(zombie, b"late", sequence=1)).error_code == epoch
    assert await rig.add(zombie, 1, version=1) == [epoch]
    assert await rig.add(zombie, 1) == [ErrorCode.PRODUCER_FENCED]
    assert await rig.add_group(zombie, version=1) == epoch
    assert await rig.add_group(zombie) == ErrorCode.PRODUCER_FENCED
    assert await rig.commit_offset(zombie, 5) == epoch
    assert (await rig.end(zombie, version=1)).error_code == epoch
    assert (await rig.end(zombie)).error_code == ErrorCode.PRODUCER_FENCED
    await rig.produce(who, b"mine")
    await rig.end(who)
    assert await rig.read() == [b"mine"]


async def test_a_stranger_has_no_transaction_here(rig: Rig) -> None:
    await rig.producer()
    code = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert await rig.add(STRANGER, 0) == [code]
    assert await rig.add_group(STRANGER) == code
    assert (await rig.end(STRANGER)).error_code == code
    assert (await rig.end(STRANGER, id_="nobody")).error_code == code
    assert (await rig.end(STRANGER, id_="")).error_code == ErrorCode.INVALID_REQUEST


async def test_partitions_are_added_all_or_none(rig: Rig) -> None:
    who = await rig.producer()
    told = await rig.add(who, 0, 7)
    assert told == [ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert await rig.add(who, 0, topic="no") == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert state(rig) is TransactionState.EMPTY


@pytest.mark.parametrize("version", [4, 5])
async def test_brokers_add_and_verify_for_several_at_once(rig: Rig, version: int) -> None:
    who = await rig.producer()

    def wanted(partition: int, *, verify: bool) -> tx.AddPartitionsToTxnTransaction:
        topics = [tx.AddPartitionsToTxnTopic(name=TOPIC, partitions=[partition])]
        return tx.AddPartitionsToTxnTransaction(
            transactional_id=ID,
            producer_id=who.producer_id,
            producer_epoch=who.epoch,
            verify_only=verify,
            topics=topics,
        )

    asked = [wanted(0, verify=True), wanted(0, verify=False), wanted(0, verify=True)]
    told = await rig.ask(tx.AddPartitionsToTxnRequest(transactions=asked), version)
    codes = [
        one.topic_results[0].results_by_partition[0].partition_error_code
        for one in told.results_by_transaction
    ]
    assert codes == [ErrorCode.TRANSACTION_ABORTABLE, 0, 0]


async def test_newer_producers_get_an_epoch_per_transaction(rig: Rig) -> None:
    who = await rig.producer()
    for number in range(3):
        assert (await rig.produce(who, b"%d" % number, version=12)).error_code == 0
        told = await rig.end(who, version=5)
        assert (told.error_code, told.producer_epoch) == (0, who.epoch + 1)
        again = await rig.end(who, version=5)
        assert (again.error_code, again.producer_epoch) == (0, who.epoch + 1)
        late = await rig.produce(who, b"late", sequence=1, version=12)
        assert late.error_code == ErrorCode.INVALID_PRODUCER_EPOCH
        who = ProducerIdAndEpoch(told.producer_id, told.producer_epoch)
    assert await rig.read() == [b"0", b"1", b"2"]


async def test_older_and_newer_producers_share_a_partition(rig: Rig) -> None:
    older, newer = await rig.producer("older"), await rig.producer("newer")
    for number in range(2):
        assert await rig.add(older, 0, id_="older") == [0]
        old = await rig.produce(older, b"o%d" % number, sequence=number, transactional_id="older")
        new = await rig.produce(newer, b"n%d" % number, transactional_id="newer", version=12)
        assert (old.error_code, new.error_code) == (0, 0)
        assert (await rig.end(older, id_="older", commit=number == 0)).error_code == 0
        told = await rig.end(newer, id_="newer", version=5, commit=number == 1)
        newer = ProducerIdAndEpoch(told.producer_id, told.producer_epoch)
    assert await rig.read() == [b"o0", b"n1"]


async def test_epochs_that_are_used_up_end_in_a_new_producer_id(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while the marks of the old id are not written yet, and when the answer was lost."""
    first = await rig.producer()
    known = rig.coordinator.find(ID)
    assert known is not None
    last = ProducerIdAndEpoch(first.producer_id, EPOCH_MAX - 1)
    aged = replace(known, producer_epoch=last.epoch)
    await rig.services.meta.submit(SaveTransaction(transaction=aged))
    assert (await rig.produce(last, b"a", partition=1, version=12)).error_code == 0
    with monkeypatch.context() as broken:
        broken.setattr("stratamq.broker.kafka.transactions.coordinator.ANSWER_S", 0.01)
        failing(rig, broken, times=1_000_000)
        told = await rig.end(last, version=5)
        new = ProducerIdAndEpoch(told.producer_id, told.producer_epoch)
        assert (told.error_code, new.epoch) == (0, 0)
        assert new.producer_id != last.producer_id
        busy = ErrorCode.CONCURRENT_TRANSACTIONS
        assert (await rig.produce(new, b"b", partition=0, version=12)).error_code == busy
        assert await rig.commit_offset(new, 1, version=5) == busy
        assert (await rig.end(new, commit=False, version=5)).error_code == busy
        assert (await rig.end(last, version=5)).error_code == busy
    await settled(rig)
    again = await rig.end(last, version=5)
    assert (again.error_code, again.producer_id, again.producer_epoch) == (0, *new)
    assert (await rig.produce(new, b"b", partition=0, version=12)).error_code == 0
    assert (await rig.end(new, version=5)).producer_epoch == 1
    assert [await rig.read(partition=number) for number in (0, 1)] == [[b"b"], [b"a"]]
    late = await rig.produce(last, b"late", partition=1, sequence=1, version=12)
    assert late.error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING


# -- time and trouble ------------------------------------------------------------------------------


async def test_a_transaction_past_its_time_is_aborted_and_its_producer_fenced(rig: Rig) -> None:
    who = await rig.producer()
    await rig.add(who, 0)
    await rig.produce(who, b"late")
    rig.clock.advance(60_000)
    await rig.coordinator.sweep()
    assert state(rig) is TransactionState.ONGOING
    rig.clock.advance(1)
    await rig.coordinator.sweep()
    await settled(rig)
    assert state(rig) is TransactionState.COMPLETE_ABORT
    assert (await rig.end(who)).error_code == ErrorCode.PRODUCER_FENCED
    assert await rig.read() == []
    assert await rig.end_offset(committed=True) == 2


async def test_an_id_that_nobody_uses_is_forgotten(rig: Rig) -> None:
    who = await rig.producer()
    await rig.add(who, 0)
    await rig.producer("idle")
    rig.clock.advance(604_800_000)
    await rig.coordinator.sweep()
    assert rig.coordinator.find("idle") is None
    await settled(rig)
    assert state(rig) is TransactionState.COMPLETE_ABORT, "it was in use, until its time was over"


async def test_marks_are_written_again_until_they_are(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    who = await rig.producer()
    await rig.add(who, 0, 1)
    await rig.produce(who, b"a")
    await rig.produce(who, b"b", partition=1)
    attempts = failing(rig, monkeypatch, times=2)
    assert (await rig.end(who)).error_code == 0
    assert state(rig) is TransactionState.COMPLETE_COMMIT
    assert len(attempts) == 4, "the partition that took its mark was not marked again"
    assert [await rig.read(partition=number) for number in (0, 1)] == [[b"a"], [b"b"]]


def failing(rig: Rig, monkeypatch: pytest.MonkeyPatch, times: int) -> list[int]:
    """Partition 1 refuses its mark that many times."""
    real, attempts = rig.services.drivers.write_marker, []

    async def write(topic: str, partition: int, **mark: Any) -> int:
        attempts.append(partition)
        if attempts.count(1) <= times and partition == 1:
            raise StorageError("a disk that is full")
        return await real(topic, partition, **mark)

    monkeypatch.setattr(rig.services.drivers, "write_marker", write)
    return attempts


async def test_a_producer_waits_for_the_marks_of_its_last_transaction(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    who = await rig.producer()
    await rig.add(who, 1)
    with monkeypatch.context() as broken:
        broken.setattr("stratamq.broker.kafka.transactions.coordinator.ANSWER_S", 0.01)
        failing(rig, broken, times=1_000_000)
        assert (await rig.end(who)).error_code == 0, "the end is decided, whatever the disk says"
        assert state(rig) is TransactionState.PREPARE_COMMIT
        busy = ErrorCode.CONCURRENT_TRANSACTIONS
        assert await rig.add(who, 0) == [busy]
        assert (await rig.end(who)).error_code == busy
        assert (await rig.init()).error_code == busy
        told = await rig.produce(who, b"a", partition=1)
        assert told.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        other = await rig.producer("y")
        assert await rig.add(other, 0, id_="y") == [0]
        assert (await rig.end(other, id_="y")).error_code == 0, "others do not wait"
    await settled(rig)
    assert await rig.add(who, 0) == [0]


async def test_a_deleted_topic_does_not_hold_up_the_end(rig: Rig) -> None:
    await rig.services.topics.create("gone")
    who = await rig.producer()
    await rig.add(who, 0)
    await rig.add(who, 0, topic="gone")
    await rig.produce(who, b"a")
    await rig.services.topics.delete("gone")
    assert (await rig.end(who)).error_code == 0
    assert state(rig) is TransactionState.COMPLETE_COMMIT
    assert await rig.read() == [b"a"]


async def test_adding_a_partition_costs_one_write_and_what_is_there_costs_none(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    who = await rig.producer()
    real, writes = rig.services.meta.submit, []

    async def submit(*commands: Any) -> int:
        writes.append(commands)
        return await real(*commands)

    monkeypatch.setattr(rig.services.meta, "submit", submit)
    await rig.add(who, 0, 1)
    assert len(writes) == 1
    await rig.add(who, 1)
    assert len(writes) == 1


async def settled(rig: Rig, transactional_id: str = ID) -> None:
    async def is_settled() -> bool:
        return state(rig, transactional_id) not in DECIDED

    await until(is_settled)

"""InitProducerId: ids are never given twice, epochs fence, wishes are checked."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from stratamq.broker.kafka.transactions.machine import ProducerIdAndEpoch
from stratamq.broker.kafka.transactions.producer_ids import BLOCK, ProducerIdSource
from stratamq.meta.service import MetaService
from stratamq.meta.store import RocksMetaStore
from stratamq.meta.transactions import TakeProducerIds
from stratamq.wire.kafka.protocol import ErrorCode
from tests.broker.transactions.rig import ID, Rig


@pytest.mark.parametrize("version", range(7))
async def test_without_a_transactional_id_every_call_gives_another_id(
    rig: Rig, version: int
) -> None:
    told = [await rig.init(None, version=version) for _ in range(3)]
    assert len({one.producer_id for one in told}) == 3
    assert {one.producer_epoch for one in told} == {0}


@pytest.mark.parametrize("version", range(7))
async def test_with_one_the_epoch_counts(rig: Rig, version: int) -> None:
    first = await rig.init(version=version)
    second = await rig.init(version=version)
    assert first.producer_id == second.producer_id
    assert (first.producer_epoch, second.producer_epoch) == (0, 1)


async def test_an_id_is_never_given_twice_whatever_happens(tmp_path: Path) -> None:
    given: list[int] = []
    for _ in range(3):
        meta = MetaService(RocksMetaStore(tmp_path))
        await meta.open()
        source = ProducerIdSource(meta)
        given += await asyncio.gather(*(source.next() for _ in range(BLOCK + 1)))
        await meta.close()  # two blocks were taken, and most of the second is lost
    assert len(set(given)) == len(given)


async def test_a_block_that_another_took_is_not_ours(tmp_path: Path) -> None:
    meta = MetaService(RocksMetaStore(tmp_path))
    await meta.open()
    ours, theirs = ProducerIdSource(meta), ProducerIdSource(meta)
    given = await asyncio.gather(*(one.next() for one in (ours, theirs) for _ in range(5)))
    assert len(set(given)) == 10
    await meta.submit(TakeProducerIds(first_id=2 * BLOCK, count=1))
    rest = [await ours.next() for _ in range(BLOCK)]
    assert 2 * BLOCK not in rest
    await meta.close()


@pytest.mark.parametrize(
    ("wish", "code"),
    [
        ({"transactional_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"transactional_id": "x" * 1025}, ErrorCode.INVALID_REQUEST),
        ({"timeout_ms": 0}, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ({"timeout_ms": 900_001}, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ({"expected": ProducerIdAndEpoch(1, -1)}, ErrorCode.INVALID_REQUEST),
        ({"expected": ProducerIdAndEpoch(-1, 1)}, ErrorCode.INVALID_REQUEST),
        (
            {"version": 6, "enable2_pc": True},
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ),
        ({"version": 6, "keep_prepared_txn": True}, ErrorCode.UNSUPPORTED_VERSION),
    ],
)
async def test_wishes_that_are_refused(rig: Rig, wish: dict[str, object], code: ErrorCode) -> None:
    told = await rig.init(**wish)  # type: ignore[arg-type]
    assert told.error_code == code
    assert (told.producer_id, told.producer_epoch) == (-1, -1)
    assert rig.coordinator.find(ID) is None


@pytest.mark.parametrize(
    ("version", "code"), [(3, ErrorCode.INVALID_PRODUCER_EPOCH), (4, ErrorCode.PRODUCER_FENCED)]
)
async def test_a_producer_that_was_replaced_cannot_go_on(
    rig: Rig, version: int, code: ErrorCode
) -> None:
    old = await rig.producer()
    await rig.producer()
    assert (await rig.init(expected=old, version=version)).error_code == code


async def test_a_producer_goes_on_after_an_error_and_may_repeat_its_request(rig: Rig) -> None:
    old = await rig.producer()
    told = [await rig.init(expected=old) for _ in range(2)]
    assert [one.producer_epoch for one in told] == [old.epoch + 1] * 2


async def test_the_epoch_goes_on_after_a_restart(rig: Rig) -> None:
    before = await rig.producer()
    await rig.restart()
    after = await rig.producer()
    assert after == ProducerIdAndEpoch(before.producer_id, before.epoch + 1)


async def test_no_more_ids_than_the_limit(tmp_path: Path) -> None:
    rig = Rig(tmp_path, meta_transactions_max=1)
    await rig.start()
    await rig.producer("a")
    told = await rig.init("b")
    assert told.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    await rig.producer("a")
    await rig.stop()
